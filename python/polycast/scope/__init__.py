"""The scopes of policies: the process, regions, modules and checkpoints."""
