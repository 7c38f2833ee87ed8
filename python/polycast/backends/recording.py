"""Devices whose work can be recorded as a graph and run again later."""

from collections.abc import Callable

import torch

_PROBE = "is_current_stream_capturing"


def probes(device_types: list[str]) -> dict[str, Callable[[], bool]]:
    """Return, for each of these device types that can record, what tells whether the current stream is recorded."""
    modules = {kind: getattr(torch, kind, None) for kind in device_types}
    return {kind: getattr(module, _PROBE) for kind, module in modules.items() if hasattr(module, _PROBE)}
