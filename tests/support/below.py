"""Arguments for calls of any op, and probes that intercept the calls below autocast, on any device.

This module needs only torch, so it runs with any release.

Fake tensors of most devices have the device's autocast key, so a call runs the real C++ kernels. The probe, a kernel in
Python on the autograd key right below, intercepts the call. The op never runs, so its arguments need not be valid.
"""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves


class Maker:
    """A factory of the arguments of a call: tensors of the given dtypes in rotation, and other arbitrary values."""

    def __init__(self, device: str, dtypes: list[torch.dtype]) -> None:
        self.device = device
        self.dtypes = itertools.cycle(dtypes)
        self.made: list[torch.dtype] = []

    def arguments(self, schema: Any) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in schema.arguments:
            kind = str(argument.type)
            if argument.has_default_value() and "Tensor" not in kind:
                continue
            if argument.kwarg_only or argument.has_default_value():
                kwargs[argument.name] = self.value(kind)
            else:
                args.append(self.value(kind))
        return args, kwargs

    def value(self, kind: str) -> Any:
        if kind == "List[Optional[Tensor]]":  # These are indices of an indexing op.
            return [self.tensor(torch.int64), self.tensor(torch.int64)]
        if kind.startswith("Optional["):
            return self.value(kind.removeprefix("Optional[").removesuffix("]"))
        if kind.startswith("List["):
            item = kind.removeprefix("List[").removesuffix("]")
            return [self.value(item), self.value(item)]
        if kind == "Tensor":
            return self.tensor(next(self.dtypes))
        # A dimension name is also a "str", and requires this form.
        return {"int": 1, "SymInt": 1, "number": 1, "float": 1.0, "bool": False, "str": "dimname::same"}[kind]

    def tensor(self, dtype: torch.dtype) -> torch.Tensor:
        self.made.append(dtype)
        return torch.empty(2, 2, dtype=dtype, device=self.device)


class ReachedError(Exception):
    """An exception that a probe raises for a call below autocast."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(name)
        self.name = name
        values = (*args, *kwargs.values())
        self.tensors = [leaf.dtype for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
        self.dtypes = [value for value in values if isinstance(value, torch.dtype)]


@contextmanager
def probes(key: str, names: Iterable[str]) -> Iterator[None]:
    """Register a probe below an autocast key for each overload, such as "conv1d.padding"."""
    below = key.replace("Autocast", "Autograd")
    with overriding() as library:
        for name in sorted(set(names)):
            with suppress(RuntimeError):  # Some overloads cannot be overridden.
                library.impl(name, _probe(name), _parsable(below, name))  # type: ignore[no-untyped-call]
        yield


def overload_of(name: str) -> Any:
    """Return an ATen overload, such as "conv1d.padding"."""
    op, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, op), overload or "default")


@contextmanager
def overriding() -> Iterator[torch.library.Library]:
    """Yield a library of kernels that replace PyTorch's, and suppress PyTorch's warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel", category=UserWarning)
        library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        try:
            yield library
        finally:
            library._destroy()  # type: ignore[no-untyped-call]


@contextmanager
def fake_tensors(device_type: str, mode: FakeTensorMode | None = None) -> Iterator[None]:
    """Make new tensors fake, so that any device type works. A substitute replaces a missing ``torch.<device type>``."""
    stand_in = not hasattr(torch, device_type)
    if stand_in:
        module = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, current_device=int)
        setattr(torch, device_type, module)
    try:
        with mode or FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        if stand_in:
            delattr(torch, device_type)


@contextmanager
def autocasting(device_type: str, dtype: torch.dtype) -> Iterator[None]:
    """Enter a region of a device type, without PyTorch's check that the device is present."""
    enabled, previous = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    torch.set_autocast_enabled(device_type, True)
    torch.set_autocast_dtype(device_type, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device_type, enabled)
        torch.set_autocast_dtype(device_type, previous)
        torch.clear_autocast_cache()


def _probe(name: str) -> Callable[..., None]:
    def probe(*args: Any, **kwargs: Any) -> None:
        raise ReachedError(name, args, kwargs)

    return probe


def _parsable(key: str, name: str) -> str:
    """Return an autograd key or, if Python cannot parse it, the alias key that determines the overload's kernel."""
    try:
        torch._C._dispatch_key_parse(key)
    except RuntimeError:
        composite = "CompositeImplicitAutograd"
        return composite if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", composite) else "Autograd"
    return key
