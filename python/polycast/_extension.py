"""The functions and classes of the compiled module ``polycast._C``. Other modules import them from here."""

import json
import sys
from typing import NamedTuple

import torch

try:
    from polycast._built_for import PYTHON, SOURCES
    from polycast._built_for import TORCH as BUILT_FOR
    from polycast._built_for import VERSION as VERSION
except ModuleNotFoundError:
    raise ImportError(
        "polycast is not built here; run 'pip install .' in its source tree, and import it from another folder"
    ) from None


def _mismatch(built_for: str, found: str) -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("polycast").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # polycast may be imported from its source tree
        origin = {}
    version = f"{VERSION.partition('+')[0]}+torch{'.'.join(_release(torch.__version__))}"
    source = origin["url"] if "dir_info" in origin else f"polycast=={version}"
    return (
        f"polycast {VERSION} was built for {built_for}, not for {found}; "
        f"run: pip install --force-reinstall --no-deps --no-cache-dir {source}"
    )


def _release(version: str) -> list[str]:
    return version.split(".")[:2]


if _release(BUILT_FOR) != _release(torch.__version__):
    raise ImportError(_mismatch(f"torch {BUILT_FOR}", f"torch {torch.__version__}"))
if sys.implementation.cache_tag != PYTHON:  # several environments can share a source tree
    raise ImportError(_mismatch(PYTHON, str(sys.implementation.cache_tag)))
try:
    from polycast._C import *  # noqa: F403
    from polycast._C import categories, devices, names
except ImportError as error:
    if str(torch.__version__) == BUILT_FOR:
        raise
    raise ImportError(_mismatch(f"torch {BUILT_FOR}", f"torch {torch.__version__}")) from error


class Device(NamedTuple):
    """A device of the policy: its autocast dispatch key and its lower precisions, the default one first."""

    name: str
    dispatch_key: str
    lower_precision: tuple[torch.dtype, ...]


DEVICES: dict[str, Device] = {
    name: Device(name, key, tuple(getattr(torch, dtype) for dtype in dtypes)) for name, key, dtypes, _ in devices()
}
CATEGORIES: dict[str, str] = categories()
DEVICES_LIKE: dict[str, str | None] = {name: like or None for name, _, _, like in devices()}
# Each pair has two strings: public names, and the ops that they run. Spaces separate the names in a string.
NAMES: list[tuple[str, str]] = names()

BUILD = SOURCES
