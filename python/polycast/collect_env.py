"""The facts for a bug report: versions, devices, kernels, the policy, and the environment."""

import os
import platform
from collections import Counter
from importlib.metadata import distributions
from pathlib import Path

import torch

import polycast
from polycast import devices, policy
from polycast._built_for import TORCH
from polycast._extension import BUILD, DEVICES
from polycast._text_table import lines_of
from polycast.policy.rules import BUILT_IN

_PREFIX = "POLYCAST_"


def report() -> str:
    """Return the facts and a table of the policy's devices, as text."""
    count = Counter(rule.device for rule in BUILT_IN)
    rows: list[tuple[str, ...]] = [("device", "dispatch key", "lower precision", "rules", "kernels")]
    for device in DEVICES.values():
        dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in device.lower_precision)
        rows.append((device.name, device.dispatch_key, dtypes, str(count[device.name]), _state(device.name)))
    return "\n".join([*lines_of([*facts().items()]), "", *lines_of(rows)])


def _state(device: str) -> str:
    if device in polycast.installed():
        return "installed"
    late = [package for package, late in devices.LATE.items() if devices.device_type_of(device) == late]
    return f"when {late[0]} is imported" if late else "on request"


def facts() -> dict[str, str]:
    """Return the facts for a bug report, by name."""
    held = policy.current()
    named = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_PREFIX)]
    here = [kind for kind in devices.device_types() if devices.facts_of(kind).is_here]
    return {
        "polycast": f"{polycast.__version__}, built for torch {TORCH}, sources {BUILD}",
        "torch": str(torch.__version__),
        **{package: found.version for package in devices.LATE for found in distributions(name=package)},
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "folder": str(Path(str(polycast.__file__)).parent),
        "devices found": ", ".join(here),
        "policy": f"built-in, with other rules for {len({rule.op for rule in held.by_overload()})} ops"
        if held
        else "built-in",
        "environment": ", ".join(named) or f"no {_PREFIX}*",
    }
