"""Tests of sharded parameters (DTensors), in a world of two processes."""
