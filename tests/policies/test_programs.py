"""Random programs of nested rules, against dtypes that are computed by hand; TIMES=100 runs 4,000.

A program is a tree. `made` makes it a function that uses the public names alone, and tells which dtypes its ops give.
The latter asks polycast nothing, and reads in policy.yaml what holds on the device. The ranks are those of the README:
inner module, outer module, inner region, outer region, process, policy.yaml.
"""

import re
from collections import abc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from threading import Barrier
from types import FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias

import polycast
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from polycast._extension import DEVICES_LIKE, scope_depth, scope_in_force
from polycast.devices import device_of
from torch import Tensor, nn

from tests.support.cases import ALL_CASES
from tests.support.devices import lower_precision
from tests.support.properties import examples

Rules: TypeAlias = dict[str, object]
Generates: TypeAlias = abc.Generator[None, None, None]
Run: TypeAlias = Callable[[list[Tensor]], None]  # runs a block, and adds the results of its ops to a list

LIBRARY = torch.library.Library("programs", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define("product(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
LIBRARY.impl("product", lambda x: x @ x, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]

# The op that each runs where it is unlisted.
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
GIVEN = ("float32", "bfloat16", "float64")


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
        value = self.value(op) if self.enabled else "unlisted"
        if self.enabled and value == "unlisted" and op in BELOW:
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
    """A block in a module with rules, in `polycast.use`, or in what catches its error."""

    what: Literal["module", "use", "try"]
    body: "Block"
    rules: Rules


class Generator(NamedTuple):
    """A region that a generator enters before a block and leaves after it, or after the module with rules around it."""

    region: Region
    rest: "Block"
    rules: Rules | None


class Threads(NamedTuple):
    """A block in a thread each, all at once."""

    bodies: "tuple[Block, ...]"


class Raise(NamedTuple):
    """The error at the end of a block, which one around it catches."""


class Compiled(NamedTuple):
    """A block that is compiled, called here, in a region, and here again."""

    body: "Block"
    region: Region


Node: TypeAlias = Op | Region | Around | Generator | Threads | Raise | Compiled
Block: TypeAlias = tuple[Node, ...]


class Runs(nn.Module):
    """A module that runs a function."""

    def __init__(self, body: Callable[..., None], rules: Rules) -> None:
        super().__init__()
        self.body = body
        polycast.assign(self, {"": rules})

    def forward(self, *args: object) -> None:
        self.body(*args)


def made(block: Block, state: State, found: list[str]) -> Run:
    """Return a function that runs a block, and add the dtype that each of its ops gives."""
    runs = [made_of(node, state, found) for node in block]

    def run(out: list[Tensor]) -> None:
        for each in runs:
            each(out)

    return run


def made_of(node: Node, state: State, found: list[str]) -> Run:  # noqa: C901
    match node:
        case Op(name, given):
            found.append(state.computed(name, given))
            x, half = (torch.eye(2, dtype=getattr(torch, kind)).to(state.device) for kind in (given, "float16"))
            call = CALLS[name]
            return lambda out: out.append(call(x, half))
        case Region(body, decorates=False):
            return around(node.opened(state.device), made(body, node.inside(state), found))
        case Region(body):
            region, decorated = node.opened(state.device), made(body, node.inside(state), found)
            return lambda out: region()(decorated)(out)
        case Around("module", body, rules):
            return Runs(made(body, replace(state, modules=(*state.modules, rules)), found), rules)
        case Generator(region, rest, rules):
            state = state if rules is None else replace(state, modules=(*state.modules, rules))
            first, then = made_each((region.body, rest), region.inside(state), found)
            return generating(region.opened(state.device), first, then, rules)
        case Around("use", body, rules):
            return around(lambda: polycast.use(rules), made(body, replace(state, process=rules), found))
        case Threads(bodies):
            return together(made_each(bodies, started(state.device, state.process), found))
        case Around(_, body, _):
            return around(lambda: suppress(StoppedError), made(body, state, found))
        case Compiled(body, region):
            first, *_ = [made(body, inside, found) for inside in (state, region.inside(state), state)]
            return compiled(first, region.opened(state.device))
        case Raise():
            return stop


def made_each(blocks: Iterable[Block], state: State, found: list[str]) -> list[Run]:
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


def _values(op: str) -> st.SearchStrategy[str]:
    names = ["lower_precision_fp", "fp32", "bfloat16", "float16", "float64", "input_dtype", "unlisted"]
    return st.sampled_from(names if op in ONE_TENSOR else [*names, "promote"])


@st.composite
def drawn_rules(draw: st.DrawFn) -> Rules:
    """Draw rules for some of the ops: for all devices, for the CPU, or for others than it."""
    made: Rules = {}
    for op in draw(st.lists(st.sampled_from(sorted(CALLS)), max_size=3, unique=True)):
        value, form = draw(_values(op)), draw(st.sampled_from(["all", "all", "cpu", "cuda", "others"]))
        made[op] = value if form == "all" else {form: value}
        if form == "others":
            made[op] = {"cuda": draw(_values(op)), "others": value}
    return made


ops = st.builds(Op, st.sampled_from(sorted(CALLS)), st.sampled_from(GIVEN))


@st.composite
def regions(draw: st.DrawFn, body: st.SearchStrategy[Block], *, has_rules: bool = False) -> Region:
    """Draw a region; torch's own where it has no policy, now and then."""
    rules = draw(drawn_rules() if has_rules else st.none() | drawn_rules())
    dtype = draw(st.sampled_from([None, None, "bfloat16", "float16"]))
    enabled = draw(st.sampled_from([True, True, True, False]))
    is_torchs = rules is None and draw(st.booleans())
    return Region(draw(body), rules, dtype, enabled, is_torchs, draw(st.sampled_from([False, False, True])))


def blocks(depth: int, kinds: str = "utgrc") -> st.SearchStrategy[Block]:
    """Draw a block. The letters allow `use`, threads, generators, errors that are raised, compiling."""
    if depth == 0:
        return st.lists(ops, min_size=1, max_size=2).map(tuple)
    within = blocks(depth - 1, kinds)
    nodes: list[st.SearchStrategy[Node]] = [ops, ops, regions(within), regions(within)]
    nodes.append(st.builds(Around, st.just("module"), within, drawn_rules()))
    if "u" in kinds:
        nodes.append(st.builds(Around, st.just("use"), within, drawn_rules()))
    if "t" in kinds:
        threads = blocks(depth - 1, "".join(set(kinds) - {*"uc"}))  # `use` would be seen by the others
        nodes.append(st.builds(Threads, st.lists(threads, min_size=1, max_size=2).map(tuple)))
    if "g" in kinds:  # torch's own region would stay entered after the module
        nodes.append(st.builds(Generator, regions(blocks(0)), within, st.none()))
        nodes.append(st.builds(Generator, regions(blocks(0), has_rules=True), within, drawn_rules()))
    if "r" in kinds:
        raising = st.builds(lambda body: (*body, Raise()), within)
        inside = regions(raising) | st.builds(Around, st.just("module"), raising, drawn_rules())
        nodes.append(st.builds(Around, st.just("try"), st.tuples(ops, inside), st.just({})))
    if "c" in kinds:
        nodes.append(st.builds(Compiled, blocks(min(depth - 1, 2), ""), regions(blocks(0))))
    return st.lists(st.one_of(nodes), min_size=1, max_size=3).map(tuple)


@pytest.fixture(autouse=True)
def _nothing_used() -> Iterator[None]:
    yield
    polycast.use(None)


def check(program: Block, device: str) -> None:
    expected: list[str] = []
    results: list[Tensor] = []
    made(program, started(device, {}), expected)(results)
    assert [str(result.dtype)[6:] for result in results] == expected
    x = torch.eye(2).to(device)
    with polycast.autocast(device):  # and nothing of it is left
        assert (x @ x).dtype == lower_precision(device)[0]
    assert polycast.policy.current() == polycast.Policy()
    assert (scope_depth(), scope_in_force(), torch.is_autocast_enabled(device)) == (0, None, False)


@examples(40)
@given(program=blocks(3, "utgr"))
def test_ops_run_in_the_dtypes_that_nested_rules_give_them(real_device: str, program: Block) -> None:
    """Specification 2.6, 2.7, 3.1, 3.7, 4.3 and 5.1."""
    regions = set(re.findall(r"dtype='(\w+)'", repr(program)))
    assume(regions <= {str(dtype).removeprefix("torch.") for dtype in lower_precision(real_device)})
    check(program, real_device)


@examples(5)
@given(blocks(2, "utgrc"))
def test_ops_of_compiled_programs_do_too(program: Block) -> None:
    """Specification 6.1."""
    check(program, "cpu")
    torch._dynamo.reset()
