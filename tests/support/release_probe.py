"""Stock PyTorch's category of each op, derived from the dtypes below PyTorch's kernels and printed as JSON.

    python -m tests.support.release_probe

This module does not import polycast, so that it runs in the environment of any release. An op has the first category
that is consistent with every call.
"""

import functools
import importlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple

import torch

from tests.support.below import Maker, ReachedError, autocasting, fake_tensors, overload_of, probes

F32, F64, INT, LOWERS = torch.float32, torch.float64, torch.int64, (torch.bfloat16, torch.float16)
STOCK, UNSEEN = "stock", "unseen"
KINDS = ("unlisted", "lower_precision_fp", "fp32", "promote", "fp32_set_opt_dtype", "fp32_append_dtype")
_BANNED = ("unsafe to autocast", "is banned on")  # The first is PyTorch's text, and the second is polycast's.
_KEY = re.compile(r"^Autocast(\w+?)(?:\[alias\])?: (?!fallthrough)", re.MULTILINE)


class Seen(NamedTuple):
    """A call, with the dtypes of its inputs, the region's dtype, and the call below autocast."""

    given: tuple[torch.dtype, ...]
    lower: torch.dtype
    name: str
    tensors: list[torch.dtype]
    dtypes: list[torch.dtype]


def registered() -> dict[str, list[str]]:
    """Return the ATen overloads, such as "pow.Tensor_Scalar", with a kernel on each device's autocast key."""
    found: dict[str, list[str]] = {}
    for name in overloads():
        for key in _KEY.findall(torch._C._dispatch_dump(f"aten::{name}")):
            found.setdefault(key, []).append(name)
    return found


def overloads() -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::"))


def probe(key: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each overload with its category on a device, which is "unseen" if Python cannot call the overload."""
    ops = {name.partition(".")[0] for name in names}
    everything = [name for name in overloads() if name.partition(".")[0] in ops]
    with fake_tensors(key.lower()), probes(f"Autocast{key}", everything):
        for name in names:
            yield name, category(key, name)


def category(key: str, name: str) -> str:
    """Return the active kernel's category, "stock" if no category fits, or "unseen" if Python cannot call the op."""
    seen: list[Seen] = []
    for lower in LOWERS:
        for given in ((F32,), (lower,), (F32, lower), (lower, F32), (F64, lower), (lower, F64), (INT, lower), (F64,)):
            try:
                seen.append(_call(key, name, given, lower))
            except Unmakeable:
                return UNSEEN
            except (RuntimeError, IndexError) as error:
                if any(words in str(error) for words in _BANNED):
                    return "banned"
                return STOCK
    return next((kind for kind in KINDS if all(_fits(kind, name, call) for call in seen)), STOCK)


class Unmakeable(Exception):  # noqa: N818  # It is not an error.
    """An exception for a call that cannot be created or does not reach a probe."""


def _call(key: str, name: str, given: tuple[torch.dtype, ...], lower: torch.dtype) -> Seen:
    overload = overload_of(name)
    try:
        maker = Maker(key.lower(), list(given))
        args, kwargs = maker.arguments(overload._schema)
    except KeyError as error:
        raise Unmakeable from error
    with _keys_of(key), autocasting(key.lower(), lower), torch.no_grad():
        try:
            overload(*args, **kwargs)
        except ReachedError as arrived:
            return Seen(tuple(maker.made), lower, arrived.name, arrived.tensors, arrived.dtypes)
    raise Unmakeable


def _fits(kind: str, name: str, call: Seen) -> bool:
    """Return whether the dtypes of a call match a category."""
    eligible = {dtype for dtype in call.given if dtype.is_floating_point and dtype != F64}
    widest = functools.reduce(torch.promote_types, eligible) if eligible else None
    to = {"lower_precision_fp": call.lower, "fp32": F32, "promote": widest}.get(kind)
    tensors = [to if to is not None and dtype in eligible else dtype for dtype in call.given]
    first, is_cast = call.given[0], call.given[0] in eligible
    chosen = {"fp32_set_opt_dtype": [F32] if is_cast else [], "fp32_append_dtype": [F32 if is_cast else first]}
    same_op = kind != "fp32_append_dtype"
    return (call.tensors, call.dtypes, call.name == name) == (tensors, chosen.get(kind, []), same_op)


@functools.cache
def _carries_key(key: str) -> bool:
    """Return whether fake tensors of a device have the device's autocast key."""
    with fake_tensors(key.lower()):
        return torch._C._dispatch_keys(torch.empty(1, device=key.lower())).has(f"Autocast{key}")


def _keys_of(key: str) -> AbstractContextManager[None]:
    """Return a guard that adds a device's keys to every call, if the device's fake tensors do not have the keys."""
    if _carries_key(key):
        return nullcontext()
    include = torch._C._dispatch_tls_local_include_set()
    for name in (f"Autocast{key}", f"Autograd{key}"):  # The enum lacks some keys, and the parser others.
        include |= torch._C.DispatchKeySet(
            getattr(torch._C.DispatchKey, name, None) or torch._C._dispatch_key_parse(name)
        )
    return torch._C._ForceDispatchKeyGuard(include, torch._C._dispatch_tls_local_exclude_set())


def main() -> int:
    """Print the categories of the installed PyTorch, on every device with autocast kernels."""
    packages = {"torch": str(torch.__version__)}
    with suppress(ImportError):
        packages["torch_xla"] = importlib.import_module("torch_xla").__version__
    devices = {key.lower(): dict(probe(key, names)) for key, names in registered().items()}
    print(json.dumps({"packages": packages, "devices": devices, "overloads": overloads()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
