"""Checks of sharded parameters, which run in a world of one process and in one of two."""
