"""Modules of trainers, one for each package. The table of results has the order of the imports."""

from tests.slow.ecosystem.trainers import plain  # isort: skip
from tests.slow.ecosystem.trainers import accelerated, lightnings, timms, transformer

__all__ = ["accelerated", "lightnings", "plain", "timms", "transformer"]
