"""How many faults the tests catch: a tool, no test. See ``python -m tests.faults --help``."""
