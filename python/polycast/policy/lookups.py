"""Ops and devices as a question names them, and the category of an op."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch

from polycast import backends
from polycast._compiled import DEVICES
from polycast._grammar.categories import UNLISTED
from polycast._suggest import suggestion
from polycast.policy import operators
from polycast.policy.operators import Target
from polycast.policy.rules import BUILT_IN, Rule

Op: TypeAlias = str | Callable[..., object]


def targets_of(op: Op) -> tuple[Target, ...]:
    """Return the ops that a name, a function or a class means.

    Raises:
        ValueError: There is no such op, or the policy does not say which ops it runs.
        TypeError: It is neither a text nor a function or class of torch.
    """
    key = op if isinstance(op, str) else operators.name_of(op)
    if key is None:
        raise TypeError(f"the op is {op!r:.60}; give its name, such as 'conv2d', or torch's function or class")
    found = operators.targets(key)
    if not found and operators.is_public(operators.written_out(key)):
        remedy = operators.suggest_ops("ask for those", key)
        raise ValueError(f"'{key}' is no op, and the policy does not say which ops it runs; {remedy}")
    if not found:
        raise ValueError(f"unknown op '{key}'{suggestion(operators.shown(key), operators.known())}")
    for target in found:
        known = operators.signatures(target.op)
        if target.overload not in (None, *known):
            raise ValueError(
                f"'{target.op}' has no overload '{target.overload}'{suggestion(target.overload or '', known)}"
            )
    return found


def rules_on(op: Op, over: Iterable[Rule] = ()) -> list[Rule]:
    """Return the built-in rules of an op, or of the ops that a name runs, each replaced by the one of the same key."""
    found = targets_of(op)
    rules = {rule.key: rule for rule in (*BUILT_IN, *over)}
    return [
        rule
        for target in found
        for rule in rules.values()
        if rule.op == target.op and target.overload in (None, rule.overload)
    ]


def category_on(op: Op, device: str | torch.device | None, over: Iterable[Rule] = ()) -> str | dict[str, str]:
    """Return the category of an op on a device, or on every device, by rules over the built-in ones."""
    names = [*DEVICES] if device is None else [device_named(device)]
    rules = rules_on(op, over)
    found = {name: _one(op, name, rules) for name in names}
    return found if device is None else found[names[0]]


def device_named(device: str | torch.device) -> str:
    """Return the device of the policy that a name or a ``torch.device`` means."""
    name = backends.parse_device_type(device)
    if name not in DEVICES and name not in backends.device_types():
        raise backends.unknown(name, DEVICES)
    return name if name in DEVICES else backends.device_of(name)


def _one(op: Op, device: str, rules: Iterable[Rule]) -> str:
    first: dict[str, str] = {}
    for rule in rules:
        if rule.device == device:
            first.setdefault(rule.op, rule.category)
    if len(set(first.values())) > 1:
        parts = ", ".join(f"{name} ({category})" for name, category in first.items())
        name = op if isinstance(op, str) else operators.name_of(op)
        raise ValueError(f"'{name}' runs several ops on {device}: {parts}; ask for one of them")
    return next(iter(first.values()), UNLISTED)
