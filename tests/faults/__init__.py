"""A tool that measures how many injected faults the tests catch.

See ``python -m tests.faults --help``.
"""
