"""All checks, by their names."""

from tests.sharded import clipping, optimizers, scaler, state
from tests.sharded.world import CHECKS

__all__ = ["CHECKS", "clipping", "optimizers", "scaler", "state"]
