"""The names of ops, in the dispatcher and in Python, and the names of devices."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

import torch

from polycast import devices
from polycast._extension import DEVICES, NAMES, overloads_of
from polycast._suggest import closest, did_you_mean
from polycast.policy.rules import ATEN, qualified, shown, split_overload
from polycast.torch_internals import CustomOpDef, OpOverload, OpOverloadPacket, all_op_names

Op: TypeAlias = str | Callable[..., object]

IMPORT_FIRST = "first import the library that registers it"
_OPERATOR = re.compile(r"\w+::\w+(\.\w+)?", re.ASCII)
# The functions of these modules have the names of ops, without the prefix.
_FUNCTIONS = {
    "torch.nn.functional": (torch.nn.functional, ""),
    "torch.Tensor": (torch.Tensor, ""),
    "torch.linalg": (torch.linalg, "linalg_"),
    "torch.special": (torch.special, "special_"),
    "torch.fft": (torch.fft, "fft_"),
    "torch": (torch, ""),
}
# A function of these modules may run other ops than the op that has its name.
_NAMESAKES = ("torch", "torch.Tensor", "torch.nn.functional")
# Programs use these abbreviations for modules.
_SHORT = {"F.": "torch.nn.functional.", "nn.": "torch.nn.", "Tensor.": "torch.Tensor.", "aten.": ATEN}


def written_out(key: str) -> str:
    """Replace abbreviations such as "F." in the name of an op, a function or a class.

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
    """Return the keys of the ops or of the overload that a name means, as in "aten::softmax".

    A public name may mean several ops. The result is empty for an unknown name.

    Example:
        >>> from polycast.policy.op_names import keys_of
        >>> keys_of("F.softmax"), keys_of("pow.Scalar"), keys_of("nonsense")
        (('aten::softmax',), ('aten::pow.Scalar',), ())
    """
    name = written_out(name)
    key = qualified(name)
    if _is_op(key):
        # `torch.norm` is a Python function that seldom runs the op "norm". "aten::norm" means only this op.
        ops = dict.fromkeys(op for place in _NAMESAKES for op in ops_by_public_name().get(f"{place}.{name}", ()))
        return tuple(map(qualified, ops)) if name in ops and len(ops) > 1 else (key,)
    ops = ops_by_public_name().get(name, {})
    # If the installed PyTorch lacks an op such as "cholesky", the name does not mean `torch.linalg.cholesky`.
    keys = [] if name in ops else [qualified(op) for op in ops]
    place, _, last = name.rpartition(".")
    if not ops and place in ("", "torch.nn") and isinstance(getattr(torch.nn, last, None), type):  # as in LeakyReLU
        runs = next((one.__name__ for one in getattr(torch.nn, last).__mro__ if "forward" in vars(one)), last)
        if runs != last:  # for example, ReLU6 runs the forward of Hardtanh
            return keys_of(f"torch.nn.{runs}")
        functions = {name.replace("_", ""): name for name in vars(torch.nn.functional) if not name.endswith("_")}
        return keys_of(f"torch.nn.functional.{functions.get(last.lower(), last)}")
    if not ops and place in _FUNCTIONS:
        module, prefix = _FUNCTIONS[place]
        keys = [f"{ATEN}{prefix}{last}"] if hasattr(module, last) else []
    return tuple(key for key in keys if overloads_of(key))


def _is_op(key: str) -> bool:
    """Return whether a key is a registered operator or overload."""
    op, _, overload = key.partition(".")
    names = overload_names(op) if _OPERATOR.fullmatch(key) else []
    return overload in names if overload else names != []


def asked_keys(op: Op) -> tuple[str, ...]:
    """Return the keys of the ops that a name, a function or a class means.

    Raises:
        ValueError: If the op is unknown.
        TypeError: If the op is neither a str nor a function or class of PyTorch.
    """
    name = op if isinstance(op, str) else name_of(op)
    if name is None:
        raise TypeError(
            f"op: expected the name of an op, or PyTorch's function or class that runs it, got {op!r:.60}; "
            "pass its name, such as 'conv2d'"
        )
    key = qualified(written_out(name))  # in a query, "norm" is the op, and not `torch.norm`
    keys = (key,) if _is_op(key) else keys_of(name)
    if not keys:
        raise ValueError(f"op: {'; '.join(unknown(name))}")
    return keys


def overload_names(op: str) -> list[str]:
    """Return the names of the overloads of an op such as "aten::mm"."""
    return [split_overload(name)[1] for name in overloads_of(op)]


def name_of(function: object) -> str | None:
    """Return the name by which a policy identifies a function, a class or an operator, or None.

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
            # The `__name__` of `torch.linalg.inv` is `linalg_inv`, and the name of `F.logsigmoid` is `log_sigmoid`.
            for last in (name.removeprefix(prefix), name.replace("_", "")):
                if getattr(module, last, None) is function:
                    return f"{place}.{last}"
    return None


def unknown(name: str) -> tuple[str, str]:
    """Return the problem and the remedy for an unknown name."""
    name_in_full = shown(written_out(name))
    op, _, overload = name_in_full.partition(".")
    if overload and _is_op(qualified(op)):
        return f"'{op}' has no overload '{overload}'", did_you_mean(overload, overload_names(qualified(op)))
    if "::" in op:
        close = closest(name_in_full, (other for other in known() if "::" in other))
        remedy = IMPORT_FIRST + (f"; did you mean '{close}'?" if close else "")
        return f"no library has registered an operator '{name}'", remedy
    place, _, last = name_in_full.rpartition(".")
    kinds = {"torch.nn.functional": torch.nn.functional, "torch.nn": torch.nn}
    if any(place in ("", kind) and callable(getattr(module, last, None)) for kind, module in kinds.items()):
        remedy = "use the ops that it runs, which polycast.debug.trace lists, or assign rules to modules"
        return f"'{name}' has no op of its own", f"{remedy} with polycast.assign"
    asked = last if place.startswith("torch") else op
    return f"expected an op, got '{name}'", did_you_mean(asked, (other for other in known() if "::" not in other))


def known() -> Iterator[str]:
    """Yield the names of all operators that are not private, and the public names of the ops of ``policy.yaml``."""
    yield from {name.partition(".")[0] for name in map(shown, all_op_names()) if not name.startswith("_")}
    for public, _ in NAMES:
        yield from public.split()


@cache
def ops_by_public_name() -> dict[str, dict[str, None]]:
    """Return the ops that each public name runs. The keys are full names and their last parts."""
    found: dict[str, dict[str, None]] = {}
    for names, ops in NAMES:
        for name in names.split():
            for key in {name, name.rpartition(".")[2]}:
                found.setdefault(key, {}).update(dict.fromkeys(ops.split()))
    return found


def device_named(device: str | torch.device) -> str:
    """Return the device of the policy that a name or a ``torch.device`` means."""
    name = devices.parse_device_type(device)
    if name not in DEVICES and name not in devices.device_types():
        raise devices.unknown(name, DEVICES, "device")
    return name if name in DEVICES else devices.device_of(name)
