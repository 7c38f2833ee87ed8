"""Sharded parameters (DTensors), in a world of two processes."""
