"""A tool that measures how many faults the tests catch, with tests of its own.

See ``python -m tests.faults --help``.
"""
