"""A module for each package, of trainers that the table lists in this order."""

from tools.ecosystem.trainers import plain  # isort: skip
from tools.ecosystem.trainers import accelerated  # isort: skip

__all__ = ["accelerated", "plain"]
