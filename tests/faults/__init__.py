"""How many faults the tests catch: a tool, with tests of its own. See ``python -m tests.faults --help``."""
