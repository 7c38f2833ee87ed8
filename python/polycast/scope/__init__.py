"""Where policies apply: in the process, in regions, in modules and in checkpoints."""
