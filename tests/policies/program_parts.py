"""The parts of a random program, and the expected dtypes of its ops.

The expected dtypes come from the program's rules and ``policy.yaml``. Rules have this precedence, highest first: inner
module, outer module, inner region, outer region, process, ``policy.yaml``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import polycast
import torch
from polycast._extension import DEVICES_LIKE
from polycast.devices import device_of
from torch import Tensor, nn

from tests.support.cases import ALL_CASES
from tests.support.devices import lower_precision

Rules: TypeAlias = dict[str, object]

LIBRARY = torch.library.Library("programs", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define("product(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
LIBRARY.impl("product", lambda x: x @ x, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]

# If an op on the left is unlisted, it runs the op on the right. XLA has its own `einsum`.
BELOW = {"matmul": "mm", "einsum": "bmm", "programs::product": "matmul"}
CALLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bmm": lambda x, _: torch.bmm(x[None], x[None]),
    "cat": lambda x, half: torch.cat([x, half]),
    "einsum": lambda x, _: torch.einsum("bij,bjk->bik", x[None], x[None]),
    "matmul": lambda x, _: x @ x,
    "mm": lambda x, _: torch.mm(x, x),
    "programs::product": lambda x, _: torch.ops.programs.product(x),
    "relu": lambda x, _: torch.relu(x),
}
ONE_TENSOR = ("relu", "programs::product")  # An op of one tensor cannot have the rule `promote`.
GIVEN = ("float32", "bfloat16", "float64", "weight")
VALUES = torch.tensor([[173, -182], [282, 231]]) / 256  # bfloat16 can represent these values, but not their products.
WEIGHT = nn.Linear(2, 2, bias=False)  # A program may keep the casts of this weight.


@cache
def built_in(device: str) -> dict[str, str]:
    return {case.name: case.category for case in ALL_CASES if case.device == device}


@dataclass(frozen=True)
class State:
    """The state of a thread: the dtype and switch of the innermost region, and all rules, outermost first."""

    device: str
    dtype: str
    process: Rules
    enabled: bool = False
    regions: tuple[Rules, ...] = ()
    modules: tuple[Rules, ...] = ()

    @property
    def name(self) -> str:
        return device_of(self.device)

    def value(self, op: str) -> str:
        for rules in (*reversed(self.modules), *reversed(self.regions), self.process):
            value = rules.get(op)
            if isinstance(value, dict):
                # "unlisted" for the other devices also applies to a device that inherits from a device with a rule.
                of_all = value.get("others")
                like = DEVICES_LIKE[self.name] or self.name
                value = value.get(self.name, of_all if of_all == "unlisted" else value.get(like, of_all))
            if value is not None:
                return str(value)
        return built_in(self.name).get(op, "unlisted")

    def computed(self, op: str, given: str) -> str:
        """Return the dtype of an op's result for a first input of the given dtype, or for "weight"."""
        given = "float32" if given == "weight" else given
        value = self.value(op) if self.enabled else "unlisted"
        if self.enabled and value == "unlisted" and op in BELOW and (op, self.device) != ("einsum", "xla"):
            return self.computed(BELOW[op], given)
        if value in ("input_dtype", "unlisted", "promote"):
            return "float32" if op == "cat" and given == "bfloat16" else given  # `cat` also has a float16 input.
        if given == "float64":  # Autocast never casts float64, and `torch.cat` promotes.
            return given
        return {"lower_precision_fp": self.dtype, "fp32": "float32"}.get(value, value)


class Op(NamedTuple):
    name: str
    given: str


class Region(NamedTuple):
    """A region of polycast or PyTorch, as a decorator or around a block. Only polycast's region may have a policy."""

    body: "Block"
    rules: Rules | None = None
    dtype: str | None = None
    enabled: bool = True
    is_torchs: bool = False
    decorates: bool = False

    def inside(self, state: State) -> State:
        regions = (*state.regions, self.rules) if self.rules is not None else state.regions
        return replace(state, enabled=self.enabled, dtype=self.dtype or state.dtype, regions=regions)

    def opened(self, device: str) -> Callable[[], Any]:
        """Return a function that creates the region."""
        dtype, enabled = getattr(torch, self.dtype) if self.dtype else None, self.enabled
        if self.is_torchs:
            return lambda: torch.autocast(device, dtype=dtype, enabled=enabled)
        policy = None if self.rules is None else polycast.Policy(self.rules)
        return lambda: polycast.autocast(device, dtype=dtype, enabled=enabled, policy=policy)


class Around(NamedTuple):
    """A block in a module with rules, in a copy of the module, in ``use`` or ``keep``, or in a ``try`` statement."""

    what: Literal["module", "use", "keep", "try"]
    body: "Block"
    rules: Rules
    copy: str | None = None

    def inside(self, state: State) -> State:
        if self.what == "module":
            return replace(state, modules=(*state.modules, self.rules))
        return replace(state, process=self.rules) if self.what == "use" else state


class Generator(NamedTuple):
    """A region that a generator enters before a block, and leaves after the block and the module around the block."""

    region: Region
    rest: "Block"
    rules: Rules | None


class Threads(NamedTuple):
    """Several blocks that run at the same time, each in its own thread."""

    bodies: "tuple[Block, ...]"


class Checkpoint(NamedTuple):
    """A checkpointed block, with one region, module or ``use`` around its forward and another around its backward."""

    body: "Block"
    forward: "Region | Around"
    backward: "Region | Around"
    use_reentrant: bool
    in_thread: bool


class Custom(NamedTuple):
    """An autograd function of two blocks, with a region, module or ``use`` around each of forward and backward."""

    bodies: "tuple[Block, Block]"
    forward: "Region | Around"
    backward: "Region | Around"
    cast_inputs: str | None
    in_thread: bool


class Raise(NamedTuple):
    """An error at the end of a block, which an enclosing block catches."""


class Compiled(NamedTuple):
    """A compiled block, which is called before a region, in the region, and after the region."""

    body: "Block"
    region: Region


Node: TypeAlias = Op | Region | Around | Generator | Threads | Checkpoint | Custom | Raise | Compiled
Block: TypeAlias = tuple[Node, ...]


class Found(NamedTuple):
    """An op, its first input (a dtype or "weight"), and the expected dtype of its result."""

    op: str
    given: str
    dtype: str

    def value(self, device: str) -> Tensor:
        dtype = getattr(torch, self.dtype)
        return CALLS[self.op](*[input_of(kind, device).to(dtype) for kind in (self.given, "float16")])


def input_of(kind: str, device: str) -> Tensor:
    if kind == "weight" and device == "cpu":
        return WEIGHT.weight
    dtype = torch.float32 if kind == "weight" else getattr(torch, kind)
    return VALUES.to(device, dtype)


def started(device: str, process: Rules) -> State:
    """Return the state of a new thread."""
    return State(device, str(lower_precision(device)[0]).removeprefix("torch."), process)
