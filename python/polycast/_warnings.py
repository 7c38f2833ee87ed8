"""Warnings that point at a line of the user's program."""

import sys
import warnings

_INNER = ("polycast", "torch")


def warn(message: str) -> None:
    """Issue a warning that points at the innermost caller outside of PyTorch and polycast."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, stacklevel=depth)
