"""The names of ops, of the dispatcher and of those who call them, and the names of devices."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import TypeAlias

import torch

from polycast import devices
from polycast._extension import DEVICES, NAMES, overloads_of
from polycast._suggest import closest, did_you_mean, suggestion
from polycast.policy.rules import ATEN, qualified, shown, split_overload
from polycast.torch_internals import CustomOpDef, OpOverload, OpOverloadPacket, all_op_names

Op: TypeAlias = str | Callable[..., object]

IMPORT_FIRST = "import the library that registers it first"
_IDENTIFIER = re.compile(r"\w+", re.ASCII)
_OPERATOR = re.compile(r"\w+::\w+(\.\w+)?", re.ASCII)
# Modules of torch whose functions are ops of the same name, and the prefix of such a name.
_FUNCTIONS = {
    "torch.nn.functional": (torch.nn.functional, ""),
    "torch.Tensor": (torch.Tensor, ""),
    "torch.linalg": (torch.linalg, "linalg_"),
    "torch.special": (torch.special, "special_"),
    "torch.fft": (torch.fft, "fft_"),
    "torch": (torch, ""),
}
# Where a function has the name of an op that it runs next to others.
_NAMESAKES = ("torch", "torch.Tensor", "torch.nn.functional")
# How programs import these modules.
_SHORT = {"F.": "torch.nn.functional.", "nn.": "torch.nn.", "Tensor.": "torch.Tensor.", "aten.": ATEN}


def written_out(key: str) -> str:
    """Return a name of an op or of what runs it with its module written out: "F.gelu", "torch.ops.mylib.op".

    Example:
        >>> from polycast.policy.op_names import written_out
        >>> written_out("F.gelu"), written_out("torch.ops.mylib.attention"), written_out("conv2d")
        ('torch.nn.functional.gelu', 'mylib::attention', 'conv2d')
    """
    if key.startswith("torch.ops."):
        key = key.removeprefix("torch.ops.").replace(".", "::", 1)
    for short, name in _SHORT.items():
        if key.startswith(short):
            return name + key.removeprefix(short)
    return key


def keys_of(name: str) -> tuple[str, ...]:
    """Return the keys of the ops that a name means, such as "aten::softmax"; of an overload, its own.

    A public name may run several ops. An unknown name means none.

    Example:
        >>> from polycast.policy.op_names import keys_of
        >>> keys_of("F.softmax"), keys_of("pow.Scalar"), keys_of("nonsense")
        (('aten::softmax',), ('aten::pow.Scalar',), ())
    """
    with suppress(LookupError):
        return _known_keys(name)
    return ()


@cache
def _known_keys(name: str) -> tuple[str, ...]:
    """Return the keys of the ops that a name means. An unknown name raises: a library may register it later."""
    name = written_out(name)
    key = qualified(name)
    if _is_op(key):
        # torch.norm is a Python function that seldom runs the op "norm". Only "aten::norm" means the op alone.
        ops = [op for place in _NAMESAKES for op in ops_by_public_name().get(f"{place}.{name}", [])]
        return tuple(map(qualified, dict.fromkeys(ops))) if name in ops and len(set(ops)) > 1 else (key,)
    ops = ops_by_public_name().get(name, [])
    # "cholesky" is an op that this torch may lack. Then it does not mean torch.linalg.cholesky.
    keys = [] if name in ops else [qualified(op) for op in ops]
    place, _, last = name.rpartition(".")
    if not ops and place == "torch.nn" and hasattr(torch.nn, last):  # SiLU runs silu, and LeakyReLU leaky_relu
        functions = {name.replace("_", ""): name for name in vars(torch.nn.functional) if not name.endswith("_")}
        place, last = "torch.nn.functional", functions.get(last.lower(), last)
    if not ops and place in _FUNCTIONS and _IDENTIFIER.fullmatch(last):
        module, prefix = _FUNCTIONS[place]
        keys = [f"{ATEN}{prefix}{last}"] if hasattr(module, last) else []
    if found := tuple(key for key in keys if overloads_of(key)):
        return found
    raise LookupError(name)


def _is_op(key: str) -> bool:
    return _OPERATOR.fullmatch(key) is not None and overloads_of(key.partition(".")[0]) != []


def asked_keys(op: Op) -> tuple[str, ...]:
    """Return the keys of the ops that a name, a function or a class means.

    Raises:
        ValueError: There is no such op.
        TypeError: It is neither a text nor a function or class of torch.
    """
    name = op if isinstance(op, str) else name_of(op)
    if name is None:
        raise TypeError(f"the op is {op!r:.60}; give its name, such as 'conv2d', or torch's function or class")
    key = qualified(written_out(name))  # a question about "norm" is about this op, and not about what torch.norm runs
    keys = (key,) if _is_op(key) else keys_of(name)
    if not keys:
        raise ValueError("; ".join(unknown(name)))
    for key in keys:
        overload, names = key.partition(".")[2], overload_names(key)
        if overload and overload not in names:
            op = shown(key.partition(".")[0])
            raise ValueError(f"'{op}' has no overload '{overload}'{suggestion(overload, names)}")
    return keys


def overload_names(key: str) -> list[str]:
    """Return the names of the overloads of an op, or of the op of an overload."""
    op = key.partition(".")[0]
    return [split_overload(name)[1] for name in overloads_of(op)] if "::" in op else []


def name_of(function: object) -> str | None:
    """Return the name under which a policy looks up a function, a class or an operator; None if it has none.

    Example:
        >>> import torch
        >>> name_of(torch.nn.functional.softmax), name_of(torch.ops.aten.mm.default), name_of(len)
        ('torch.nn.functional.softmax', 'mm.default', None)
    """
    if isinstance(function, OpOverload):
        return f"{shown(function.overloadpacket._qualified_op_name)}.{function._overloadname}"
    if isinstance(function, OpOverloadPacket):
        return shown(function._qualified_op_name)
    if isinstance(function, CustomOpDef):
        return function._qualname
    name = getattr(function, "__name__", None)
    if callable(function) and isinstance(name, str):
        for place, (module, prefix) in {"torch.nn": (torch.nn, ""), **_FUNCTIONS}.items():
            last = name.removeprefix(prefix)  # torch.linalg.inv is called linalg_inv
            if getattr(module, last, None) is function:
                return f"{place}.{last}"
    return None


def unknown(name: str) -> tuple[str, str]:
    """Return the problem and the remedy of a name that means no op."""
    op = shown(written_out(name))
    if "::" in op:
        close = closest(op, (other for other in known() if "::" in other))
        remedy = IMPORT_FIRST + (f", or did you mean '{close}'?" if close else "")
        return f"no library has registered an operator '{name}'", remedy
    place, _, last = op.rpartition(".")
    asked = last if place.startswith("torch") else op.partition(".")[0]
    return f"unknown op '{name}'", did_you_mean(asked, (other for other in known() if "::" not in other))


def known() -> Iterator[str]:
    """Yield the names of all operators that are not private, and the public names of the ops of policy.yaml."""
    yield from {name.partition(".")[0] for name in map(shown, all_op_names()) if not name.startswith("_")}
    for public, _ in NAMES:
        yield from public.split()


@cache
def ops_by_public_name() -> dict[str, list[str]]:
    """Return the ops that each public name runs. A name is found whole and by its last part."""
    found: dict[str, list[str]] = {}
    for names, ops in NAMES:
        for name in names.split():
            for key in {name, name.rpartition(".")[2]}:
                parts = found.setdefault(key, [])
                parts += [op for op in ops.split() if op not in parts]
    return found


def device_named(device: str | torch.device) -> str:
    """Return the device of the policy that a name or a ``torch.device`` means."""
    name = devices.parse_device_type(device)
    if name not in DEVICES and name not in devices.device_types():
        raise devices.unknown(name, DEVICES)
    return name if name in DEVICES else devices.device_of(name)
