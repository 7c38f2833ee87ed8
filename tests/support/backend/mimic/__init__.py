"""mimic: a device outside of PyTorch whose memory is CPU memory, and the module ``torch.mimic``.

``import torch`` imports this module and calls ``register`` (see ``setup.py``). Import ``torch`` before this module.
PyTorch looks up most functions of this module. They are in groups by topic, and most headings list the callers.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from . import _C
from .cells import KERNELS

NAME = __name__
_library = torch.library.Library("aten", "IMPL", "PrivateUse1")  # type: ignore[no-untyped-call]
_Device = int | str | torch.device | None


def register() -> None:
    """Register the device with PyTorch, which calls ``register`` at the end of its own import."""
    rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, sys.modules[__name__])  # type: ignore[no-untyped-call]
    generate_methods_for_privateuse1_backend(for_storage=True)
    for name, kernel in KERNELS.items():
        _library.impl(name, kernel)  # type: ignore[no-untyped-call]


# --- the devices: `torch.accelerator`, `torch.utils.checkpoint`, `FakeTensorMode` ---

_initialized = True  # `torch.utils.checkpoint` stores the random state of initialized devices only.
device_count, current_device = _C.device_count, _C.current_device


def is_available() -> bool:
    return True


is_initialized = is_available


def set_device(device: _Device) -> None:
    _C.exchange_device(_index(device))


@contextmanager
def device(device: _Device) -> Iterator[None]:
    """Make a device current inside a ``with`` block."""
    previous = _C.exchange_device(_index(device))
    try:
        yield
    finally:
        _C.exchange_device(previous)


def synchronize(device: _Device = None) -> None:
    """Do nothing, because each op runs before its call returns."""
    _index(device)


def _index(device: _Device) -> int:
    """Return the index of a device, or the current index if none is given."""
    index = torch.device(device).index if isinstance(device, (str, torch.device)) else device
    return current_device() if index is None else index


# --- random numbers: `torch.manual_seed`, `torch.random.fork_rng`, `torch.utils.checkpoint` ---

default_generators = tuple(map(_C.default_generator, range(device_count())))


def manual_seed_all(seed: int) -> None:
    for generator in default_generators:
        generator.manual_seed(seed)


def manual_seed(seed: int) -> None:
    default_generators[current_device()].manual_seed(seed)


def get_rng_state(device: _Device = None) -> Tensor:
    return default_generators[_index(device)].get_state()


def set_rng_state(new_state: Tensor, device: _Device = None) -> None:
    default_generators[_index(device)].set_state(new_state)


def _is_in_bad_fork() -> bool:
    return False


# --- autocast: `torch.amp` ---


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


# --- syncs: like `torch.cuda` ---


def set_sync_debug_mode(debug_mode: str) -> None:
    """Set the effect of a device sync: "default" allows the sync, and "error" raises."""
    _C.raise_at_syncs({"default": False, "error": True}[debug_mode])
