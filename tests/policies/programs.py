"""Random programs of nested rules, against dtypes that are computed by hand; TIMES=50 runs 2,000.

A program is a tree. `made` makes it a function that uses the public names only, and lists which dtypes its ops give.
The list does not come from polycast: policy.yaml has the category of each op on the device. The precedence is the
README's: inner module, outer module, inner region, outer region, process, policy.yaml. The values are compared with
those of the same ops on inputs that are cast by hand.
"""

import io
import pickle
from collections import abc
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from threading import Barrier
from types import FunctionType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import polycast
import torch
from polycast._extension import DEVICES_LIKE
from polycast.devices import device_of
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.support.cases import ALL_CASES
from tests.support.devices import lower_precision

Rules: TypeAlias = dict[str, object]
Generates: TypeAlias = abc.Generator[None, None, None]
Run: TypeAlias = Callable[[list[Tensor]], None]  # runs a block, and adds the results of its ops to a list

LIBRARY = torch.library.Library("programs", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define("product(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
LIBRARY.impl("product", lambda x: x @ x, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]

# The op that each runs where it is unlisted. XLA has an einsum of its own.
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
ONE_TENSOR = ("relu", "programs::product")  # which do not promote
GIVEN = ("float32", "bfloat16", "float64", "weight")
VALUES = torch.tensor([[173, -182], [282, 231]]) / 256  # bfloat16 holds them, but not their products
WEIGHT = nn.Linear(2, 2, bias=False)  # whose casts a program may keep


def _saved(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    copy: nn.Module = torch.load(file, weights_only=False)
    return copy


COPIES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "deepcopy": deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "save": _saved,
    "deepcopy of a pickle": lambda module: deepcopy(pickle.loads(pickle.dumps(module))),
}


class StoppedError(Exception):
    """A program's own error."""


@cache
def built_in(device: str) -> dict[str, str]:
    return {case.name: case.category for case in ALL_CASES if case.device == device}


@dataclass(frozen=True)
class State:
    """What a thread is in: the dtype and switch of the innermost region, and rules, the inner ones last."""

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
                of_all = value.get("others")  # "unlisted" also keeps what a device that it is like has from it
                like = DEVICES_LIKE[self.name] or self.name
                value = value.get(self.name, of_all if of_all == "unlisted" else value.get(like, of_all))
            if value is not None:
                return str(value)
        return built_in(self.name).get(op, "unlisted")

    def computed(self, op: str, given: str) -> str:
        """Return the dtype that an op gives of the given one."""
        given = "float32" if given == "weight" else given
        value = self.value(op) if self.enabled else "unlisted"
        if self.enabled and value == "unlisted" and op in BELOW and (op, self.device) != ("einsum", "xla"):
            return self.computed(BELOW[op], given)
        if value in ("input_dtype", "unlisted", "promote"):
            return "float32" if op == "cat" and given == "bfloat16" else given  # beside a float16
        if given == "float64":  # is never cast, and torch.cat itself promotes
            return given
        return {"lower_precision_fp": self.dtype, "fp32": "float32"}.get(value, value)


class Op(NamedTuple):
    name: str
    given: str


class Region(NamedTuple):
    """One of polycast, with a policy or without, or of torch; decorating a function, or around a block."""

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
        """Return a function that makes the region."""
        dtype, enabled = getattr(torch, self.dtype) if self.dtype else None, self.enabled
        if self.is_torchs:
            return lambda: torch.autocast(device, dtype=dtype, enabled=enabled)
        policy = None if self.rules is None else polycast.Policy(self.rules)
        return lambda: polycast.autocast(device, dtype=dtype, enabled=enabled, policy=policy)


class Around(NamedTuple):
    """A block in a module with rules or a copy of one, in `use`, in `keep`, or in what catches its error."""

    what: Literal["module", "use", "keep", "try"]
    body: "Block"
    rules: Rules
    copy: str | None = None

    def inside(self, state: State) -> State:
        if self.what == "module":
            return replace(state, modules=(*state.modules, self.rules))
        return replace(state, process=self.rules) if self.what == "use" else state


class Generator(NamedTuple):
    """A region that a generator enters before a block and leaves after it, or after the module with rules around it."""

    region: Region
    rest: "Block"
    rules: Rules | None


class Threads(NamedTuple):
    """A block in a thread each, all at once."""

    bodies: "tuple[Block, ...]"


class Checkpoint(NamedTuple):
    """A block that backward reruns: its forward in one region, module or `use`, backward in another."""

    body: "Block"
    forward: "Region | Around"
    backward: "Region | Around"
    use_reentrant: bool
    in_thread: bool


class Custom(NamedTuple):
    """An autograd function of two blocks: its forward in one region, module or `use`, backward in another."""

    bodies: "tuple[Block, Block]"
    forward: "Region | Around"
    backward: "Region | Around"
    cast_inputs: str | None
    in_thread: bool


class Raise(NamedTuple):
    """The error at the end of a block, which one around it catches."""


class Compiled(NamedTuple):
    """A block that is compiled, called here, in a region, and here again."""

    body: "Block"
    region: Region


Node: TypeAlias = Op | Region | Around | Generator | Threads | Checkpoint | Custom | Raise | Compiled
Block: TypeAlias = tuple[Node, ...]


class Runs(nn.Module):
    """A module that runs a function, which a pickle has by its number."""

    functions: ClassVar[list[Callable[..., None]]] = []

    def __init__(self, body: Callable[..., None], rules: Rules) -> None:
        super().__init__()
        self.number = len(self.functions)
        self.functions.append(body)
        polycast.assign(self, {"": rules})

    def forward(self, *args: object) -> None:
        self.functions[self.number](*args)


class Found(NamedTuple):
    """An op, the dtype of its first input, and the dtype that it gives."""

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


def made(block: Block, state: State, found: list[Found]) -> Run:
    """Return a function that runs a block, and add the dtype that each of its ops gives."""
    runs = [made_of(node, state, found) for node in block]

    def run(out: list[Tensor]) -> None:
        for each in runs:
            each(out)

    return run


def made_of(node: Node, state: State, found: list[Found]) -> Run:
    match node:
        case Op(name, kind):
            found.append(Found(name, kind, state.computed(name, kind)))
            x, half = input_of(kind, state.device), input_of("float16", state.device)
            call = CALLS[name]
            return lambda out: out.append(call(x, half).detach())
        case Region() | Around():
            return entered(node, state.device, made(node.body, node.inside(state), found))
        case Generator(region, rest, rules):
            state = state if rules is None else replace(state, modules=(*state.modules, rules))
            first, then = made_each((region.body, rest), region.inside(state), found)
            return generating(region.opened(state.device), first, then, rules)
        case Threads(bodies):
            return together(made_each(bodies, started(state.device, state.process), found))
        case Checkpoint(body):
            run, _again = made_each((body, body), node.forward.inside(state), found)
            return backward(node, state.device, lambda x, out: rerun(node, run, x, out))
        case Custom(bodies):
            inside = node.forward.inside(state)
            inside = replace(inside, enabled=inside.enabled and node.cast_inputs is None)
            first, then = made_each(bodies, inside, found)
            return backward(node, state.device, lambda x, out: custom(node, first, then, out).apply(x))  # type: ignore[no-untyped-call]
        case Compiled(body, region):
            first, *_ = [made(body, inside, found) for inside in (state, region.inside(state), state)]
            return compiled(first, region.opened(state.device))
        case Raise():
            return stop


def entered(node: Region | Around, device: str, body: Run) -> Run:
    """Return a function that runs a body in a region, a module, or another context."""
    match node:
        case Region(decorates=False):
            return around(node.opened(device), body)
        case Region():
            region = node.opened(device)
            return lambda out: region()(body)(out)
        case Around("module", _, rules, copy):
            return Runs(body, rules) if copy is None else copied(Runs(body, rules), COPIES[copy])
        case Around("use", _, rules):
            return around(lambda: polycast.use(rules), body)
        case Around("keep"):
            return around(lambda: polycast.cast_cache.keep(WEIGHT), body)
        case Around():
            return around(lambda: suppress(StoppedError), body)


def copied(module: nn.Module, copy: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """Return a copy of a module, which keeps its rules when the original loses them."""
    made = copy(module)
    polycast.assign(module, {"": None})
    return made


def backward(node: Checkpoint | Custom, device: str, call: Callable[[Tensor, list[Tensor]], Tensor]) -> Run:
    """Return a function that calls another in one context, and runs backward in another, maybe in another thread."""

    def run(out: list[Tensor]) -> None:
        results: list[Tensor] = []
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            x = VALUES.to(device, copy=True).requires_grad_()
            entered(node.forward, device, lambda out: results.append(call(x, out).sum()))(out)
        back = entered(node.backward, device, lambda _: results.pop().backward())  # type: ignore[no-untyped-call]
        if node.in_thread:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(back, out).result()
        else:
            back(out)

    return run


def rerun(node: Checkpoint, body: Run, x: Tensor, out: list[Tensor]) -> Tensor:
    def function(x: Tensor) -> Tensor:
        body(out)
        return x * x

    if x.device.type != "xla":
        return checkpoint(function, x, use_reentrant=node.use_reentrant)  # type: ignore[no-any-return]
    from torch_xla.utils.checkpoint import checkpoint as of_xla  # PyTorch's needs a module torch.xla

    return of_xla(function, x, use_reentrant=True)  # type: ignore[no-any-return]


def custom(node: Custom, first: Run, then: Run, out: list[Tensor]) -> type[torch.autograd.Function]:
    class Function(torch.autograd.Function):
        @staticmethod
        @polycast.custom_fwd(cast_inputs=node.cast_inputs)
        def forward(_: Any, x: Tensor) -> Tensor:
            first(out)
            return x * 2

        @staticmethod
        @polycast.custom_bwd
        def backward(_: Any, grad: Tensor) -> Tensor:
            then(out)
            return grad * 2

    return Function


def made_each(blocks: Iterable[Block], state: State, found: list[Found]) -> list[Run]:
    return [made(block, state, found) for block in blocks]


def stop(_: list[Tensor]) -> None:
    raise StoppedError


def around(context: Callable[[], AbstractContextManager[object]], body: Run) -> Run:
    def run(out: list[Tensor]) -> None:
        with context():
            body(out)

    return run


def generating(region: Callable[[], Any], first: Run, rest: Run, rules: Rules | None) -> Run:
    def steps(out: list[Tensor]) -> Generates:
        with region():
            first(out)
            yield

    def enter(out: list[Tensor], started: Generates) -> None:
        next(started)
        rest(out)

    body = enter if rules is None else Runs(enter, rules)

    def run(out: list[Tensor]) -> None:
        with closing(steps(out)) as started:
            body(out, started)

    return run


def together(bodies: list[Run]) -> Run:
    meet = Barrier(len(bodies))

    def start(body: Run) -> list[Tensor]:
        meet.wait()
        out: list[Tensor] = []
        body(out)
        return out

    def run(out: list[Tensor]) -> None:
        with ThreadPoolExecutor(len(bodies)) as pool:
            for future in [pool.submit(start, body) for body in bodies]:
                out += future.result()

    return run


def compiled(body: Run, region: Callable[[], Any]) -> Run:
    def function() -> list[Tensor]:
        out: list[Tensor] = []
        body(out)
        return out

    def run(out: list[Tensor]) -> None:
        code = function.__code__.replace()  # as if no other had been compiled at its place
        anew = torch.compile(FunctionType(code, globals(), "anew", None, function.__closure__), backend="eager")
        out += anew()
        with region():
            out += anew()
        out += anew()

    return run


def started(device: str, process: Rules) -> State:
    """Return what a new thread is in."""
    return State(device, str(lower_precision(device)[0]).removeprefix("torch."), process)
