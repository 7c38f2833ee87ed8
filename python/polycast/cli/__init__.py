"""The command line, ``polycast`` or ``python -m polycast``."""
