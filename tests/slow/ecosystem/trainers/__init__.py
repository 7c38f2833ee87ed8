"""A module for each package, of trainers that the table lists in this order."""

from tests.slow.ecosystem.trainers import plain  # isort: skip
from tests.slow.ecosystem.trainers import accelerated, distributed, lightnings, others, rays, transformer

__all__ = ["accelerated", "distributed", "lightnings", "others", "plain", "rays", "transformer"]
