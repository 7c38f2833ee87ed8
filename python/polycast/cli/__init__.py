"""The command line, `polycast` or `python -m polycast`: a module for each command that is more than a few lines."""
