"""The calls that autocasting meets, and their recording."""

import os
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from polycast import backends
from polycast._compiled import start_recording, stop_recording, take_calls
from polycast._grammar.categories import UNLISTED, Category
from polycast.debug.places import Places
from polycast.policy.operators import qualified, shown
from polycast.policy.rules import BUILT_IN

FORWARD, BACKWARD, STEP = "forward", "backward", "step"
LOWER = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)
# A line of the program is in none of these folders.
_LIBRARIES = [str(folder) + os.sep for folder in (Path(str(torch.__file__)).parent, Path(__file__).parents[1])]


class Site(NamedTuple):
    """Where a call is made."""

    phase: str
    """"forward"; "backward" where autograd made the call; "step" within an optimizer's step."""
    module: str
    """The name of the innermost module that made it; "" for the model itself, and outside of modules."""
    op: str
    n: int
    """How many calls of the op were made before it in this phase and module."""

    def __str__(self) -> str:
        """Return the site as people read it."""
        where = f" of '{self.module}'" if self.module else ", in no submodule"
        return f"{self.op}, call {self.n}, in {self.phase}{where}"


class Sites(Counter[tuple[str, str, str]]):
    """How many calls of each op there were in each phase and module."""

    def next(self, phase: str, module: str, op: str) -> Site:
        """Return the site of the next call."""
        self[phase, module, op] += 1
        return Site(phase, module, op, self[phase, module, op] - 1)


@dataclass(frozen=True)
class Cast:
    """A tensor that an op took in another dtype than it was given in."""

    given: torch.dtype
    to: torch.dtype
    elements: int
    reused: bool
    """Whether the cast cache had it, so that nothing was computed."""
    weight: str | None
    """The name of the weight that was cast."""

    @property
    def bytes(self) -> int:
        """The bytes that the cast reads and writes."""
        return 0 if self.reused else self.elements * (self.given.itemsize + self.to.itemsize)


@dataclass(frozen=True)
class Call:
    """A call of an op where autocasting was on.

    The dtypes are those of its tensors in the order of its arguments, the tensors of lists included.
    """

    site: Site
    device: str
    rule: str
    """A category or a dtype; "unlisted" where the op has no rule, "stock" where torch's own kernel took the call."""
    origin: str
    """Where the rule stands: "policy.yaml", with the reason where it is not torch's own; "process: ...",
    "region: ..." or "module: ..." with the place in that policy; or "torch"."""
    given: tuple[torch.dtype, ...]
    arrived: tuple[torch.dtype, ...]
    """The dtypes that the op computed in."""
    returned: tuple[torch.dtype, ...]
    casts: tuple[Cast, ...]
    source: str
    """File and line, where lines were asked for."""
    order: int
    """Calls are numbered in the order in which they began."""
    node: int
    """The number of the first autograd node that the call can have made."""

    @property
    def op(self) -> str:
        """The op, as in "linear"."""
        return self.site.op

    @property
    def module(self) -> str:
        """The module that called it, by its name in the model."""
        return self.site.module

    @property
    def is_ruled(self) -> bool:
        """Whether the rule decides the dtype that the op computes in: "unlisted" and "input_dtype" do not."""
        return self.rule not in (UNLISTED, Category.INPUT_DTYPE.value)

    @property
    def why(self) -> str:
        """Why the op computed in the dtypes that it did."""
        if self.rule == UNLISTED:
            return f"no rule is for it on {self.device}"
        if self.rule == Category.STOCK.value:
            return "torch's own autocast kernel took it"
        if self.rule == Category.INPUT_DTYPE.value:
            return "its rule is to take what it is given"
        if self.casts:
            return f"its rule is {self.rule}"
        if self.rule in (Category.FP32_SET_OPT_DTYPE.value, Category.FP32_APPEND_DTYPE.value):
            return f"its rule is {self.rule}: it computes in float32 by an argument"
        if not any(dtype.is_floating_point for dtype in self.given):
            return "it was given no floating-point tensor"
        return f"its rule is {self.rule}, and what it was given needs no cast"


class Recording:
    """Records the calls of this thread, and of the threads that torch runs its backward in.

    Nothing runs but the program: torch reports the calls, and polycast's kernels report the rules that they follow.
    """

    def __init__(self, recorder: str, places: Places, *, lines: bool = False, limit: int = sys.maxsize) -> None:
        self.complete = True
        self.recorder = recorder
        self._places = places
        self._arguments = recorder, _LIBRARIES if lines else None, limit

    def __enter__(self) -> "Recording":
        start_recording(*self._arguments)
        return self

    def __exit__(self, *_: object) -> None:
        stop_recording()
        take_calls()

    def take(self) -> list[Call]:
        """Return the calls since the last time that have a floating-point tensor, in order."""
        taken = take_calls()
        self.complete = len(taken) < self._arguments[2]
        sites = Sites()
        calls = []
        for order, node, name, device, rule, origin, place, backward, given, arrived, returned, casts, source in taken:
            if any(dtype.is_floating_point for dtype in (*given, *returned)):
                call = Call(
                    sites.next(BACKWARD if backward else FORWARD, self._places.name(place), shown(name)),
                    device,
                    rule,
                    origin or _origin(name, rule, device),
                    tuple(given),
                    tuple(arrived or given),
                    tuple(returned),
                    tuple(
                        Cast(dtype, to, elements, reused, self._places.weights.get(address))
                        for dtype, to, elements, reused, address in casts
                    ),
                    source,
                    order,
                    node,
                )
                calls.append(call)
        return calls


def _origin(name: str, rule: str, device: str) -> str:
    """Return where a rule stands that no policy of a process, a region or a module has made."""
    if rule in (UNLISTED, Category.STOCK.value):
        return "" if rule == UNLISTED else "torch"
    note = _notes().get((name, backends.device_of(device)))
    return f"policy.yaml: {note}" if note else "policy.yaml"


@cache
def _notes() -> dict[tuple[str, str], str]:
    """Return the notes of policy.yaml, by the dispatcher's name of an overload and by device."""
    return {(qualified(rule.name), rule.device): rule.note for rule in BUILT_IN}


def text(dtype: torch.dtype) -> str:
    """Return the name of a dtype as rules have it."""
    return str(dtype).removeprefix("torch.")
