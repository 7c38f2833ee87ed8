"""The operators of every library, by the dispatcher's names and by the names that people use."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import torch

from polycast._compiled import NAMES, ROWS
from polycast._grammar.categories import FUNCTIONAL, NESTED, VIEW, Category, Signature
from polycast._grammar.names import DEFAULT, join_name, split_name

ATEN = "aten::"
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
# The types of arguments that are cast: tensors, lists of them, and both as optionals.
_REACHED = re.compile(r"(Optional\[)?(List\[)?(Optional\[)?Tensor\]*")
_STOCK = {(ATEN + row.op, row.overload, row.device) for row in ROWS if row.category == Category.STOCK.value}
_LISTED = {ATEN + row.op for row in ROWS}
# Only these overloads have a kernel that appends a dtype.
_APPENDING = {(ATEN + row.op, row.overload) for row in ROWS if row.category == Category.FP32_APPEND_DTYPE.value}


class Target(NamedTuple):
    """An operator such as "aten::softmax", or one overload of it."""

    name: str
    overload: str | None

    def __str__(self) -> str:
        return shown(self.name, self.overload)


def shown(name: str, overload: str | None = None) -> str:
    """Return an operator as people write it, without ATen's namespace and the name of the default overload."""
    return join_name(name.removeprefix(ATEN), overload)


def qualified(key: str) -> str:
    """Return a name with its namespace, which is ATen's if there is none."""
    if key.startswith("torch.ops."):
        return key.removeprefix("torch.ops.").replace(".", "::", 1)
    return key if "::" in key else ATEN + key.removeprefix("aten.")


def targets(key: str) -> tuple[Target, ...]:
    """Return the operators that a name means. A public name may run several; an unknown one means none."""
    name = qualified(key)
    operator, overload = split_name(name)
    if _OPERATOR.fullmatch(name) and signatures(operator):
        return (Target(operator, overload),)
    if key in ops_by_public_name():
        ops = ops_by_public_name()[key]
        # "cholesky" is an op that this torch may lack. Then it does not mean torch.linalg.cholesky.
        return () if key in ops else tuple(Target(ATEN + op, None) for op in ops if signatures(ATEN + op))
    place, _, last = key.rpartition(".")
    if place in _FUNCTIONS and _IDENTIFIER.fullmatch(last):
        module, prefix = _FUNCTIONS[place]
        if hasattr(module, last) and signatures(f"{ATEN}{prefix}{last}"):
            return (Target(f"{ATEN}{prefix}{last}", None),)
    return ()


def name_of(function: object) -> str | None:
    """Return the name under which a policy knows a function, a class or an operator of torch; None if it has none.

    Example:
        >>> import torch
        >>> name_of(torch.nn.functional.softmax), name_of(torch.ops.aten.mm.default), name_of(len)
        ('torch.nn.functional.softmax', 'mm', None)
    """
    if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        overload = function._overloadname if isinstance(function, torch._ops.OpOverload) else None
        name = (function.overloadpacket if isinstance(function, torch._ops.OpOverload) else function)._qualified_op_name
        return shown(name, overload)
    last = getattr(function, "__name__", "")
    for place, module in {"torch.nn": torch.nn, **{place: part for place, (part, _) in _FUNCTIONS.items()}}.items():
        if callable(function) and getattr(module, last, None) is function and targets(f"{place}.{last}"):
            return f"{place}.{last}"
    return None


def is_public(name: str) -> bool:
    """Return whether torch has something of a name in its public modules."""
    for place in (torch, torch.nn, torch.nn.functional):
        with suppress(Exception):  # what torch imports when it is asked for may raise anything
            attrgetter(name.removeprefix("torch."))(place)
            return True
    return False


def signatures(name: str) -> dict[str, Signature]:
    """Return the signatures of an operator's overloads; none if it is not registered."""
    return {schema.overload_name or DEFAULT: _signature(schema) for schema in _schemas(name)}


def castable(name: str) -> dict[str, Signature]:
    """Return the overloads that autocasting can take: functional ones that take a tensor."""
    return {key: part for key, part in signatures(name).items() if part.variant == FUNCTIONAL and part.tensors}


def obstacle(
    target: Target, signature: Signature, category: Category | None, column: str = ""
) -> tuple[str, str] | None:
    """Return why an overload cannot be cast as a category says, and a remedy; None if it can."""
    if (*target, column) in _STOCK:
        return f"keeps torch's own kernel on {column}", "leave it out there"
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
    yield from {shown(split_name(name)[0]) for name in torch._C._dispatch_get_all_op_names()}
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
    elif schema.name not in _LISTED and any(part.alias_info is not None for part in arguments):
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
