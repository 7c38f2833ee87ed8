"""Every rule of a device, called with real tensors beside torch's own kernels and beside casts by hand."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from polycast._compiled import DEVICES
from polycast._grammar.categories import Category
from polycast.backends import device_of, served
from polycast.debug.verification.findings import BROKEN, KEPT, UNCHECKED, Check, attempted, first_line
from polycast.debug.verification.outcomes import (
    Result,
    autocast,
    cast_by_hand,
    close,
    results,
    same,
)
from polycast.debug.verification.samples import WITHOUT_SAME_BITS, WITHOUT_SAMPLE, Arguments, Make, arguments, find
from polycast.installation import uninstall
from polycast.policy.rules import BUILT_IN, Rule

TORCH, HAND = "torch's own kernel", "casts by hand"
REPEATS = 4
Cell = tuple[torch.dtype, tuple[torch.dtype, ...]]
"""The lower precision of a region, and the dtypes of the inputs by turns."""
Outcomes = dict[Cell, list[Result]]


def check_rules(device_type: str) -> Iterator[Check]:
    """Yield a check of each rule; the policy's kernels must be installed.

    A call in a region gives what the op gives if its inputs are cast by hand as the rule says, and what torch's own
    kernel gives where torch has one and the rule has no note. Both are compared by their bits, forward and backward.
    """
    device = device_of(device_type)
    rules = [rule for rule in BUILT_IN if rule.device == device]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # those of tiny ops wait for each other longer than they work
    try:
        with uninstall(device_type):
            stock = {rule: _called(rule, device_type) for rule in rules if _has_kernel(rule)}
        for rule in rules:
            yield attempted("rules", rule.name, partial(_check, rule, device_type, stock.get(rule, {})))
    finally:
        torch.set_num_threads(threads)


def has_own_kernels(device_type: str) -> bool:
    """Return whether torch, or the backend, has autocast kernels for the device type; ours must not be installed."""
    return any(_has_kernel(rule) for rule in BUILT_IN if rule.device == device_of(device_type))


def _has_kernel(rule: Rule) -> bool:
    key = DEVICES[rule.device].dispatch_key
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{rule.name}", key)


def _can_be_called(rule: Rule) -> bool:
    return rule.name not in WITHOUT_SAMPLE and find(rule.name) is not None


def _cells(rule: Rule) -> list[Cell]:
    f32, lowers = torch.float32, DEVICES[rule.device].lower_precision
    return [(lower, given) for lower in lowers for given in ((f32,), (lower,), (f32, lower))]


def _called(rule: Rule, device_type: str) -> Outcomes:
    """Return what calls give in regions, with the kernels that are installed."""
    operator = find(rule.name) if _can_be_called(rule) else None
    if operator is None:
        return {}
    return {cell: _results(autocast(operator, rule.device, cell[0]), rule, device_type, cell) for cell in _cells(rule)}


def _results(operator: Callable[..., Any], rule: Rule, device_type: str, cell: Cell) -> list[Result]:
    try:
        sample = arguments(rule.name, Make(device_type, *cell[1]))
    except RuntimeError as error:  # the device has no such tensors
        return [first_line(error)]
    return results(operator, sample)


def _by_hand(rule: Rule, lower: torch.dtype) -> Callable[..., Any]:
    """Return the op with its inputs cast as the rule says; one with an appended `dtype` is another overload."""
    appends = rule.category == Category.FP32_APPEND_DTYPE.value
    operator = getattr(torch.ops.aten, rule.op) if appends else find(rule.name)
    assert operator is not None

    def call(*args: Any, **kwargs: Any) -> Any:
        sample = cast_by_hand(rule.category, Arguments(args, kwargs), lower)
        return operator(*sample.args, **sample.kwargs)

    return call


def _check(rule: Rule, device_type: str, stock: Outcomes) -> Check:
    if not _can_be_called(rule):
        reason = WITHOUT_SAMPLE.get(rule.name, "is not in this torch")
        return Check("rules", rule.name, UNCHECKED, f"it {reason}")
    banned = rule.category == Category.BANNED.value
    problems, errors, equal = list[str](), list[str](), Counter[str]()
    for cell, ours in _called(rule, device_type).items():
        hand = partial(_results, _by_hand(rule, cell[0]), rule, device_type, cell)
        references = {TORCH: stock[cell]} if cell in stock and not rule.note else {}
        references |= {} if banned or rule.category == Category.STOCK.value else {HAND: hand()}
        if banned and not isinstance(ours[0], str):
            problems.append(f"{_told(cell)} no error")
        for whose, theirs in references.items():
            if isinstance(ours[0], str) and isinstance(theirs[0], str):
                errors.append(ours[0])
            elif _agree(rule, ours, theirs, hand):
                equal[whose] += 1
            elif whose == HAND or not isinstance(theirs[0], str):  # the policy may run what torch refuses
                problems.append(f"{_told(cell)} {_difference(ours, theirs, whose)}")
    figures = {f"calls equal to {whose}": float(count) for whose, count in equal.items()}
    if problems:
        return Check("rules", rule.name, BROKEN, f"{rule.category}: {'; '.join(problems[:2])}", figures)
    if equal or banned:
        return Check("rules", rule.name, KEPT, rule.category, figures)
    return Check("rules", rule.name, UNCHECKED, _reason(errors, device_type))


def _agree(rule: Rule, ours: list[Result], theirs: list[Result], again: Callable[[], list[Result]]) -> bool:
    """Return whether results are the same bits, or close if the op itself does not repeat its bits."""
    if len(ours) == len(theirs) and all(map(same, ours, theirs)):
        return True
    first, *others = (again() for _ in range(REPEATS))
    repeats = rule.name not in WITHOUT_SAME_BITS and all(all(map(same, first, other)) for other in others)
    return not repeats and len(ours) == len(theirs) and all(map(close, ours, theirs))


def _difference(ours: list[Result], theirs: list[Result], whose: str) -> str:
    for what, mine, other in zip(("values", *["gradients"] * len(ours)), ours, theirs, strict=False):
        if not same(mine, other):
            one, two = (text if isinstance(text, str) else _dtypes(text) for text in (mine, other))
            return f"other {what} than {whose}" if one == two else f"{what} in {one}, not {two} as by {whose}"
    return f"gradients of other inputs than {whose}"


def _dtypes(tensors: list[torch.Tensor]) -> str:
    return ", ".join(str(tensor.dtype).removeprefix("torch.") for tensor in tensors) or "nothing"


def _told(cell: Cell) -> str:
    lower, *given = (str(dtype).removeprefix("torch.") for dtype in (cell[0], *cell[1]))
    return f"in {lower}, given {' and '.join(given)},"


def _reason(errors: list[str], device_type: str) -> str:
    """Return why no call of a rule ran, in words of ours where the device lacks the op."""
    text = errors[0] if errors else "torch's own kernel stays, and it has none"
    absent = "Could not run" in text or "not implemented" in text
    by = f"this torch for {device_type}" if device_type in served() else "the backend"
    return f"not implemented by {by}" if absent else f"it raises: {text}" if errors else text
