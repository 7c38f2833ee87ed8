"""Tests of sharded and data parallel training, in a world of two processes."""
