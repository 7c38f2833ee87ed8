"""The types of a call that autocast intercepts, of its casts, and of its site in the program."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import torch

from polycast.policy.categories import UNLISTED

FORWARD, BACKWARD, STEP = "forward", "backward", "step"
LOWER = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)


class Site(NamedTuple):
    """The position of a call in a program."""

    phase: str
    """"backward" if autograd made the call; in a watch, "step" if an optimizer's step made it; otherwise "forward".
    If backward runs a module's forward again, the phase is "forward", except in a trace."""
    module: str
    """The name of the innermost module that made the call; "" for the model itself, and outside of modules. For
    calls in backward, ``watch`` and ``compare`` name the module or weight whose gradient the call computes."""
    op: str
    n: int
    """The number of earlier calls of the op in this phase and module."""

    def __str__(self) -> str:
        where = f" of '{self.module}'" if self.module else ", in no submodule"
        return f"{self.op}, call {self.n}, in {self.phase}{where}"


class SiteCounter(Counter[tuple[str, str, str]]):
    """The number of calls of each op in each phase and module."""

    def next(self, phase: str, module: str, op: str) -> Site:
        """Return the site of the next call."""
        self[phase, module, op] += 1
        return Site(phase, module, op, self[phase, module, op] - 1)


@dataclass(frozen=True)
class Cast:
    """A cast of an argument: the call passed the dtype ``given``, and the op received ``to``."""

    given: torch.dtype
    to: torch.dtype
    elements: int
    reused: bool
    """Whether the cast cache had the cast already, or an earlier argument is the same tensor."""
    weight: str | None
    """The argument's name if it is a weight of the model; None for other tensors, and without a model."""

    @property
    def bytes(self) -> int:
        """The bytes that the cast reads and writes; 0 if it is reused."""
        return 0 if self.reused else self.elements * (self.given.itemsize + self.to.itemsize)


@dataclass(frozen=True)
class Call:
    """A call of an op in a region. Each tuple of dtypes has one dtype for each tensor, including tensors in lists."""

    site: Site
    device: str
    rule: str
    """A category or a dtype; "unlisted" if the op has no rule, "stock" if PyTorch's own autocast kernel ran."""
    origin: str
    """The origin of the rule. A built-in rule has "policy.yaml", and the reason if PyTorch has another rule. A policy's
    rule has "process: KEY", "region: KEY" or "module: KEY". The rule "stock" has "torch", and "unlisted" has ""."""
    given: tuple[torch.dtype, ...]
    arrived: tuple[torch.dtype, ...]
    """The dtypes that the op computed in."""
    returned: tuple[torch.dtype, ...]
    casts: tuple[Cast, ...]
    source: str
    """The file and line of the program; "" if not requested, and in the backward of an accelerator."""
    order: int
    """The number of the call, in the order in which calls began."""

    @property
    def op(self) -> str:
        """The op, such as "linear" or "pow.Scalar"."""
        return self.site.op

    @property
    def module(self) -> str:
        """The name of the module at the site."""
        return self.site.module

    @property
    def is_ruled(self) -> bool:
        """Whether the rule may set the dtype that the op computes in: all except "unlisted" and "input_dtype" may."""
        return self.rule not in (UNLISTED, "input_dtype")


def is_cast(op: str) -> bool:
    """Return whether an op only changes the dtype or the device of its input."""
    return op in ("to", "_to_copy")


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without "torch."."""
    return str(dtype).removeprefix("torch.")
