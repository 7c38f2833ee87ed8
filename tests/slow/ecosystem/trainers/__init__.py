"""A module for each package, of trainers that the table lists in this order."""

from tests.slow.ecosystem.trainers import plain  # isort: skip
from tests.slow.ecosystem.trainers import accelerated, distributed, lightnings, timms, transformer

__all__ = ["accelerated", "distributed", "lightnings", "plain", "timms", "transformer"]
