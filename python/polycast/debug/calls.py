"""Calls of operators on their way through autocasting."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from polycast import backends
from polycast._compiled import ROWS, RecordedCall
from polycast.debug.values import BACKWARD, FORWARD
from polycast.policy.operators import ATEN, shown
from polycast_grammar.categories import UNLISTED, Category

TORCH = "torch"
BASE = "policy.yaml"


@dataclass(frozen=True)
class Cast:
    """A tensor that an op took in another type than it was given in."""

    given: torch.dtype
    to: torch.dtype
    elements: int
    reused: bool
    """Whether the cast cache had it, so that nothing was computed."""
    nanoseconds: int
    """On the host."""
    weight: str | None
    """The name of the weight that it is of."""

    @property
    def bytes(self) -> int:
        """What is read and written for it."""
        return 0 if self.reused else self.elements * (self.given.itemsize + self.to.itemsize)


@dataclass(frozen=True)
class Call:
    """A call of an op where autocasting was on.

    Types are of its tensors in the order of its arguments, those in lists too.
    """

    module: str
    """The name of the innermost module that made it; "" for the model itself, and outside of modules."""
    op: str
    n: int
    """How many calls of the op there were in the module before it."""
    phase: str
    """"forward", or "backward" where autograd made it."""
    device: str
    rule: str
    """A category or a dtype; "unlisted" where no rule is for the op, "stock" where torch's own kernel took it."""
    origin: str
    """Where the rule stands: "policy.yaml" with the reason where it is not torch's own, "process: ...", "region: ...",
    "module: ..." with the place of the rule, or "torch"."""
    given: tuple[torch.dtype, ...]
    arrived: tuple[torch.dtype, ...]
    """The types that the op computed from."""
    returned: tuple[torch.dtype, ...]
    casts: tuple[Cast, ...]
    nanoseconds: int
    """On the host, with its casts."""
    source: str
    """File and line, where that was asked for."""

    @property
    def is_ruled(self) -> bool:
        """Whether a rule says in which type it computes: its op is neither unlisted nor left to its inputs' type."""
        return self.rule not in (UNLISTED, Category.FALLTHROUGH.value)

    @cached_property
    def why(self) -> str:
        """Why the op computed in the types that it did."""
        kinds = {kind for kind in self.given if kind.is_floating_point}
        if self.rule == UNLISTED:
            return f"no rule is for it on {self.device}"
        if self.rule == Category.STOCK.value:
            return "torch's own autocast kernel took it"
        if self.rule == Category.FALLTHROUGH.value:
            return "its rule is to take what it is given"
        if self.casts:
            return f"its rule is {self.rule}"
        if self.rule in (Category.FP32_SET_OPT_DTYPE.value, Category.FP32_APPEND_DTYPE.value):
            return f"its rule is {self.rule}: it computes in float32 by an argument"
        if not kinds:
            return "it was given no floating-point tensor"
        return f"its rule is {self.rule}, and what it was given needs no cast"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        values = vars(self) | {"why": self.why}
        values["casts"] = [vars(cast) | {"given": text(cast.given), "to": text(cast.to)} for cast in self.casts]
        return values | {key: [text(kind) for kind in values[key]] for key in ("given", "arrived", "returned")}


def read(recorded: Iterable[RecordedCall], module: Callable[[int], str], weights: Mapping[int, str]) -> Iterator[Call]:
    """Yield calls that have a floating-point tensor, in order."""
    counts: Counter[tuple[str, str]] = Counter()
    sources = Sources()
    for call in recorded:
        given = tuple(kind for kind, _ in call.given)
        if not any(kind.is_floating_point for kind in (*given, *call.returned)):
            continue
        key = module(call.place), shown(*split(call.name))
        rule, origin = sources.find(call)
        yield Call(
            *key,
            counts[key],
            BACKWARD if call.backward else FORWARD,
            call.device,
            rule,
            origin,
            given,
            tuple(call.arrived) or given,
            tuple(call.returned),
            tuple(
                Cast(cast.given, cast.to, cast.elements, cast.reused, cast.nanoseconds, weights.get(cast.address))
                for cast in call.casts
            ),
            call.nanoseconds,
            call.source,
        )
        counts[key] += 1


def split(name: str) -> tuple[str, str]:
    """Return the operator and the overload of a name as the dispatcher has it."""
    operator, _, overload = name.partition(".")
    return operator, overload or "default"


class Sources:
    """Finds where the rules of calls stand."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, bool, str | None], tuple[str, str]] = {}

    def find(self, call: RecordedCall) -> tuple[str, str]:
        """Return the rule that a call followed, and where it stands."""
        key = call.name, call.device, call.origin, call.taken, call.rule
        if key not in self._found:
            self._found[key] = _find(call)
        return self._found[key]


def _find(call: RecordedCall) -> tuple[str, str]:
    if call.rule is not None and call.origin:
        return call.rule, call.origin
    column = backends.column(call.device)
    if call.rule is None:
        return (Category.STOCK.value, TORCH) if call.taken else (UNLISTED, "")
    op, overload = split(call.name)
    for base in ROWS:
        if (ATEN + base.op, base.overload, base.device) == (op, overload, column):
            return base.category, f"{BASE}: {base.note}" if base.note else BASE
    return UNLISTED, ""


def text(kind: torch.dtype) -> str:
    """Return the name of a type as rules have it."""
    return str(kind).removeprefix("torch.")
