"""What stock torch does to each op inside of autocast, found by what arrives below its kernels; printed as JSON.

    python -m tests.support.release_probe

Imports torch and no polycast: it runs in the environment of any release.
The category of an op is the one that every call of it agrees with.
"""

import functools
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import torch

from tests.support.arguments import Maker
from tests.support.below import ReachedError, autocasting, fake_tensors, probes

F32, F64, INT, LOWERS = torch.float32, torch.float64, torch.int64, (torch.bfloat16, torch.float16)
STOCK, UNSEEN = "stock", "unseen"
_BANNED = ("unsafe to autocast", "is banned on")  # torch's words, and those of a rule
_KEY = re.compile(r"^Autocast(\w+?)(?:\[alias\])?: (?!fallthrough)", re.MULTILINE)


class Seen(NamedTuple):
    """A call: the dtypes that it was given in a region of a lower precision, and what arrived."""

    given: tuple[torch.dtype, ...]
    lower: torch.dtype
    name: str
    tensors: list[torch.dtype]
    dtypes: list[torch.dtype]


def registered() -> dict[str, list[str]]:
    """Return the overloads of ATen's that have a kernel on each device's autocast key, as in "pow.Tensor_Scalar"."""
    found: dict[str, list[str]] = {}
    for name in overloads():
        for key in _KEY.findall(torch._C._dispatch_dump(f"aten::{name}")):
            found.setdefault(key, []).append(name)
    return found


def overloads() -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::"))


def probe(key: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each overload with its category on a device: "unseen" where no call of it can be made from Python."""
    ops = {name.partition(".")[0] for name in names}
    everything = [name for name in overloads() if name.partition(".")[0] in ops]
    with fake_tensors(key.lower()), probes(f"Autocast{key}", everything):
        for name in names:
            yield name, category(key, name)


def category(key: str, name: str) -> str:
    """Return the category of the kernel in force, "stock" where it is written by hand and fits none."""
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
    return _told(name, seen)


class Unmakeable(Exception):  # noqa: N818  # nothing is wrong
    """Raised where a call cannot be made."""


def _call(key: str, name: str, given: tuple[torch.dtype, ...], lower: torch.dtype) -> Seen:
    overload = _overload(name)
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


def _told(name: str, seen: list[Seen]) -> str:
    """Return the first category that all calls agree with."""
    for kind, wanted in _WANTED.items():
        if all(wanted(name, call) for call in seen):
            return kind
    return STOCK


def _eligible(given: tuple[torch.dtype, ...]) -> set[torch.dtype]:
    return {dtype for dtype in given if dtype.is_floating_point and dtype != F64}


def _cast(to: torch.dtype | None, call: Seen) -> list[torch.dtype]:
    eligible = _eligible(call.given)
    if to is None and eligible:
        to = functools.reduce(torch.promote_types, eligible)
    return [to if to is not None and dtype in eligible else dtype for dtype in call.given]


def _sets_dtype(name: str, call: Seen) -> bool:
    wanted = [F32] if call.given[0] in _eligible(call.given) else []
    return call.name == name and call.dtypes == wanted and call.tensors == [*call.given]


def _appends_dtype(name: str, call: Seen) -> bool:
    first = call.given[0]
    wanted = [F32] if first in _eligible(call.given) else [first]
    return call.name != name and call.dtypes == wanted and call.tensors == [*call.given]


def _casts(to: Callable[[Seen], torch.dtype | None]) -> Callable[[str, Seen], bool]:
    return lambda name, call: call.name == name and call.tensors == _cast(to(call), call) and not call.dtypes


_WANTED: dict[str, Callable[[str, Seen], bool]] = {
    "unlisted": lambda name, call: call.name == name and call.tensors == [*call.given] and not call.dtypes,
    "lower_precision_fp": _casts(lambda call: call.lower),
    "fp32": _casts(lambda _: F32),
    "promote": _casts(lambda _: None),
    "fp32_set_opt_dtype": _sets_dtype,
    "fp32_append_dtype": _appends_dtype,
}


def _overload(name: str) -> Any:
    op, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, op), overload or "default")


@functools.cache
def _carries_key(key: str) -> bool:
    """Whether fake tensors of a device carry its keys of autocast and autograd."""
    with fake_tensors(key.lower()):
        return torch._C._dispatch_keys(torch.empty(1, device=key.lower())).has(f"Autocast{key}")


def _keys_of(key: str) -> AbstractContextManager[None]:
    """Have every call carry a device's keys, where its fake tensors do not; the guard leaves nothing behind."""
    if _carries_key(key):
        return nullcontext()
    include = torch._C._dispatch_tls_local_include_set()
    for name in (f"Autocast{key}", f"Autograd{key}"):  # torch knows some by one way only
        include |= torch._C.DispatchKeySet(
            getattr(torch._C.DispatchKey, name, None) or torch._C._dispatch_key_parse(name)
        )
    return torch._C._ForceDispatchKeyGuard(include, torch._C._dispatch_tls_local_exclude_set())


def main() -> int:
    """Print what this environment's torch does, on every device that it has kernels for."""
    packages = {"torch": str(torch.__version__)}
    with suppress(ImportError):
        packages["torch_xla"] = importlib.import_module("torch_xla").__version__
    devices = {key.lower(): dict(probe(key, names)) for key, names in registered().items()}
    print(json.dumps({"packages": packages, "devices": devices, "overloads": overloads()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
