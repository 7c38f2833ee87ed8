"""Devices whose work can be recorded as a graph and replayed."""

from collections.abc import Callable

import torch

_PROBE = "is_current_stream_capturing"


def probes(device_types: list[str]) -> dict[str, Callable[[], bool]]:
    """Return, for each device type that can record, the function that says whether the current stream records."""
    modules = {kind: getattr(torch, kind, None) for kind in device_types}
    return {kind: getattr(module, _PROBE) for kind, module in modules.items() if hasattr(module, _PROBE)}
