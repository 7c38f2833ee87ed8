"""The operators of every library, by the dispatcher's names and by the names that people use."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import torch
from torch._library.custom_ops import CustomOpDef

from polycast._compiled import NAMES
from polycast._grammar.categories import FUNCTIONAL, NESTED, VIEW, Category, Signature
from polycast._grammar.names import DEFAULT, join_name, split_name
from polycast.policy.rules import ATEN, BUILT_IN

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
# How programs import these modules.
_SHORT = {"F.": "torch.nn.functional.", "nn.": "torch.nn.", "Tensor.": "torch.Tensor.", "aten.": ATEN}
# The types of arguments that are cast: tensors, lists of them, and both as optionals.
_REACHED = re.compile(r"(Optional\[)?(List\[)?(Optional\[)?Tensor\]*")
_STOCK = {rule.key for rule in BUILT_IN if rule.category == Category.STOCK.value}
# Ops that autocasting takes though their schema could return a view.
LISTED = frozenset(rule.op for rule in BUILT_IN)
# Only these overloads have a kernel that appends a dtype.
_APPENDING = {(rule.op, rule.overload) for rule in BUILT_IN if rule.category == Category.FP32_APPEND_DTYPE.value}


class Target(NamedTuple):
    """An op such as "softmax" or "mylib::attention", or one overload of it."""

    op: str
    overload: str | None

    def __str__(self) -> str:
        return join_name(self.op, self.overload)


def shown(name: str, overload: str | None = None) -> str:
    """Return an op as people write it, without ATen's namespace and the name of the default overload."""
    return join_name(name.removeprefix(ATEN), overload)


def qualified(op: str) -> str:
    """Return an op with its namespace, which is ATen's if there is none."""
    return op if "::" in op else ATEN + op


def written_out(key: str) -> str:
    """Return a name of an op or of what runs it with its module written out: "F.gelu", "torch.ops.mylib.op".

    Example:
        >>> from polycast.policy.operators import written_out
        >>> written_out("F.gelu"), written_out("torch.ops.mylib.attention"), written_out("conv2d")
        ('torch.nn.functional.gelu', 'mylib::attention', 'conv2d')
    """
    if key.startswith("torch.ops."):
        key = key.removeprefix("torch.ops.").replace(".", "::", 1)
    for short, name in _SHORT.items():
        if key.startswith(short):
            return name + key.removeprefix(short)
    return key


def targets(key: str) -> tuple[Target, ...]:
    """Return the ops that a name means. A public name may run several; an unknown one means none.

    Args:
        key: The name of an op, of an overload, or of a function or class that people call.
    """
    key = written_out(key)
    op, overload = split_name(shown(key))
    if _OPERATOR.fullmatch(qualified(shown(key))) and signatures(op):
        return (Target(op, overload),)
    if key in ops_by_public_name():
        ops = ops_by_public_name()[key]
        # "cholesky" is an op that this torch may lack. Then it does not mean torch.linalg.cholesky.
        return () if key in ops else tuple(Target(op, None) for op in ops if signatures(op))
    place, _, last = key.rpartition(".")
    if place in _FUNCTIONS and _IDENTIFIER.fullmatch(last):
        module, prefix = _FUNCTIONS[place]
        if hasattr(module, last) and signatures(f"{prefix}{last}"):
            return (Target(f"{prefix}{last}", None),)
    return ()


def name_of(function: object) -> str | None:
    """Return the name under which a policy looks up a function, a class or an operator; None if it has none.

    Example:
        >>> import torch
        >>> name_of(torch.nn.functional.softmax), name_of(torch.ops.aten.mm.default), name_of(len)
        ('torch.nn.functional.softmax', 'mm', None)
    """
    if isinstance(function, torch._ops.OpOverload):
        return shown(function.overloadpacket._qualified_op_name, function._overloadname)
    if isinstance(function, torch._ops.OpOverloadPacket):
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


def is_public(name: str) -> bool:
    """Return whether torch has something of a name in its public modules."""
    for place in (torch, torch.nn, torch.nn.functional):
        with suppress(Exception):  # what torch imports when it is asked for may raise anything
            attrgetter(name.removeprefix("torch."))(place)
            return True
    return False


def signatures(op: str) -> dict[str, Signature]:
    """Return the signatures of an op's overloads in the torch that runs; none if no library has registered it."""
    return {schema.overload_name or DEFAULT: _signature(schema) for schema in _schemas(qualified(op))}


def castable(signatures: Mapping[str, Signature]) -> dict[str, Signature]:
    """Return the overloads that autocasting can take: functional ones that take a tensor."""
    return {key: part for key, part in signatures.items() if part.variant == FUNCTIONAL and part.tensors}


def obstacle(
    target: Target, signature: Signature, category: Category | None, device: str = ""
) -> tuple[str, str] | None:
    """Return why an overload cannot be cast as a category says, and a remedy; None if it can."""
    if (*target, device) in _STOCK:
        return f"keeps torch's own kernel on {device}", "leave it out there"
    if (reason := signature.uncastable()) is not None:
        return reason
    if category is Category.FP32_APPEND_DTYPE and target not in _APPENDING:
        return "the policy names no overload of it that takes a dtype", "use fp32"
    return signature.obstacle(category)


def suggest_ops(remedy: str, public_name: str) -> str:
    """Return a remedy for a name whose ops are not known. It names the op of that name, if there is one."""
    name = public_name.rpartition(".")[2].lower()
    return f"{remedy}, as '{name}'" if name != public_name and targets(name) else remedy


def known() -> Iterator[str]:
    """Yield the names of all operators, and the public names of the ops of policy.yaml."""
    yield from {split_name(shown(name))[0] for name in torch._C._dispatch_get_all_op_names()}
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


def _schemas(name: str) -> list[torch.FunctionSchema]:
    found = []
    for schema in torch._C._jit_get_schemas_for_operator(name):
        try:  # TorchScript has operators of its own
            torch._C._dispatch_find_schema_or_throw(name, schema.overload_name)
        except RuntimeError:
            continue
        found.append(schema)
    return found


def _signature(schema: torch.FunctionSchema) -> Signature:
    arguments = schema.arguments
    variant = FUNCTIONAL
    if any(part.is_out for part in arguments):
        variant = "out"
    elif any(part.alias_info is not None and part.alias_info.is_write for part in arguments):
        variant = "inplace" if schema.name.endswith("_") else "mutable"
    elif shown(schema.name) not in LISTED and any(part.alias_info is not None for part in arguments):
        variant = VIEW
    types = [str(part.real_type) for part in arguments]
    if any("Tensor" in kind and not _REACHED.fullmatch(kind) for kind in types):
        variant = NESTED
    return Signature(
        variant,
        tuple(part.name for part in arguments),
        sum(2 if "List" in kind else 1 for kind in types if "Tensor" in kind),
        "Optional[ScalarType]" in types,
        types[-1:] == ["ScalarType"],
    )
