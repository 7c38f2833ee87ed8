"""Facts of the installation that a report of a bug needs: versions, devices, policies, and the environment."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import polycast
from polycast import backends, policy
from polycast._built_for import TORCH
from polycast._compiled import BUILD

_PREFIX = "POLYCAST_"


def facts() -> dict[str, str]:
    """Return the facts by their names."""
    held = policy.in_force()
    named = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_PREFIX)]
    here = [kind for kind in backends.device_types() if backends.is_here(kind)]
    return {
        "polycast": f"{polycast.__version__}, built for torch {TORCH}, sources {BUILD}",
        "torch": f"{torch.__version__}{_libraries()}",
        **_packages(),
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "folder": str(Path(str(polycast.__file__)).parent),
        "devices found": ", ".join(here),
        "policy": f"built-in, under rules of others for {len({rule.op for rule in held.by_overload()})} ops"
        if held
        else "built-in",
        "environment": ", ".join(named) or f"no {_PREFIX}*",
    }


def _libraries() -> str:
    numbers = {name: getattr(torch.version, name, None) for name in ("cuda", "hip", "xpu")}
    return "".join(f", {name} {number}" for name, number in numbers.items() if number)


def _packages() -> dict[str, str]:
    found = {}
    for package in backends.LATE:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
