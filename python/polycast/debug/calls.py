"""A call that autocast intercepts, with its casts, and the site of a call in the program."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import torch

from polycast.policy.categories import UNLISTED

FORWARD, BACKWARD, STEP = "forward", "backward", "step"
LOWER = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)


class Site(NamedTuple):
    """The place of a call in a program."""

    phase: str
    """"forward"; "backward" if autograd made the call; "step" within an optimizer's step."""
    module: str
    """The name of the innermost module that made the call; "" for the model itself, and outside of modules."""
    op: str
    n: int
    """How many calls of the op were made before it in this phase and module."""

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
    """A cast of an argument: the op received the tensor in another dtype than the call passed."""

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
    """A call of an op inside a region.

    Dtypes are listed for each tensor, in the order of the arguments. Tensors in lists are included.
    """

    site: Site
    device: str
    rule: str
    """A category or a dtype; "unlisted" if the op has no rule, "stock" if PyTorch's own kernel ran."""
    origin: str
    """Where the rule comes from: "policy.yaml", with the reason if PyTorch has another rule; "process: ...",
    "region: ..." or "module: ..." with the key in that policy; or "torch"."""
    given: tuple[torch.dtype, ...]
    arrived: tuple[torch.dtype, ...]
    """The dtypes that the op computed in."""
    returned: tuple[torch.dtype, ...]
    casts: tuple[Cast, ...]
    source: str
    """File and line, on request."""
    order: int
    """The number of the call, in the order in which calls began."""

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
        """Whether the rule sets the dtype that the op computes in: "unlisted" and "input_dtype" do not."""
        return self.rule not in (UNLISTED, "input_dtype")


def is_cast(op: str) -> bool:
    """Return whether an op only changes the dtype or the device of its input."""
    return op in ("to", "_to_copy")


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without "torch."."""
    return str(dtype).removeprefix("torch.")
