"""Where policies hold: in the process, in regions, in modules and in checkpoints."""
