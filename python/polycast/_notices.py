"""What a gradient scaler tells its user: that it is not needed, and that an optimizer makes it read."""

import sys
import warnings

import torch

from polycast import backends, region


class Notices:
    """Warnings that one scaler gives, each text once. They point at the line that called the scaler."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell_if_needless(self, device_type: str) -> None:
        """Tell that gradients on the device need no scaling."""
        reason = backends.why_not_scale(device_type) or region.why_not_scale(device_type)
        if reason:
            self._tell(f"gradients need no scaling: {reason}; GradScaler(enabled=False) leaves it out")

    def tell_of_reads(self, optimizer: torch.optim.Optimizer, device_type: str) -> None:
        """Tell that a step of the optimizer waits for the device."""
        if backends.reads_stall(device_type):
            self._tell(
                f"each step of {type(optimizer).__name__} waits until the device has told whether to skip it; "
                "an optimizer of polycast.syncfree does not"
            )

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            warnings.warn(message, stacklevel=_depth_of_caller())


def _depth_of_caller() -> int:
    """Return how many frames above the one that asks is the first that is neither torch's nor polycast's."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("polycast", "torch"):
        depth, frame = depth + 1, frame.f_back
    return depth
