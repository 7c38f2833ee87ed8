"""Random programs of nested rules, as Python that uses the public names alone, and what each of their ops has to give.

A program is a tree. `source_of` writes it down as a function, and `expected` walks it with rules of its own. It asks
polycast nothing, and reads in policy.yaml what holds on the device. The ranks are those of the README: inner module,
outer module, inner region, outer region, process, policy.yaml. `blocks` draws programs by hypothesis.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

from hypothesis import strategies as st
from polycast._compiled import DEVICES_LIKE
from polycast.backends import device_of

from tests.support.cases import ALL_CASES
from tests.support.devices import lower_precision

Rules: TypeAlias = dict[str, object]

# The op that each runs where it is unlisted.
BELOW = {"matmul": "mm", "einsum": "bmm", "programs::product": "matmul"}
CALLS = {
    "bmm": "torch.bmm({0}[None], {0}[None])",
    "cat": "torch.cat([{0}, half])",
    "einsum": "torch.einsum('bij,bjk->bik', {0}[None], {0}[None])",
    "matmul": "{0} @ {0}",
    "mm": "torch.mm({0}, {0})",
    "programs::product": "torch.ops.programs.product({0})",
    "relu": "torch.relu({0})",
}
ONE_TENSOR = ("relu", "programs::product")  # which do not promote
GIVEN = {"single": "float32", "brain": "bfloat16", "double": "float64"}


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


class Node:
    """A part of a program: what it has to give, and how it is written."""

    def expect(self, state: State, found: list[str]) -> None:
        raise NotImplementedError

    def write(self, to: "Writer") -> None:
        raise NotImplementedError


Block: TypeAlias = tuple[Node, ...]


def expect(block: Block, state: State, found: list[str]) -> None:
    for node in block:
        node.expect(state, found)


@dataclass(frozen=True)
class Op(Node):
    name: str
    given: str

    def expect(self, state: State, found: list[str]) -> None:
        found.append(state.computed(self.name, GIVEN[self.given]))

    def write(self, to: "Writer") -> None:
        to.line(f"out.append({CALLS[self.name].format(self.given)})")


@dataclass(frozen=True)
class Region(Node):
    """One of polycast, with a policy or without, or of torch; decorating a function, or around a block."""

    body: Block
    rules: Rules | None = None
    dtype: str | None = None
    enabled: bool = True
    is_torchs: bool = False
    decorates: bool = False

    def inside(self, state: State) -> State:
        regions = (*state.regions, self.rules) if self.rules is not None else state.regions
        return replace(state, enabled=self.enabled, dtype=self.dtype or state.dtype, regions=regions)

    def call(self, to: "Writer") -> str:
        dtype = "" if self.dtype is None else f", dtype=torch.{self.dtype}"
        policy = "" if self.rules is None else f", policy={to.policy(self.rules)}"
        place = "torch" if self.is_torchs else "polycast"
        return f'{place}.autocast("{to.device}"{dtype}, enabled={self.enabled}{policy})'

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.body, self.inside(state), found)

    def write(self, to: "Writer") -> None:
        if not self.decorates:
            to.inside(f"with {self.call(to)}:", self.body)
            return
        to.line(f"@{self.call(to)}")
        name = to.name("decorated")
        to.inside(f"def {name}(out):", self.body)
        to.line(f"{name}(out)")


@dataclass(frozen=True)
class Module(Node):
    """A module whose forward is a block, with rules of its own; made above all blocks, so that nobody compiles that."""

    body: Block
    rules: Rules

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.body, replace(state, modules=(*state.modules, self.rules)), found)

    def write(self, to: "Writer") -> None:
        inner = Writer(to.device, count=to.count + 100)
        name = inner.name("module")
        with inner.indented(f"class {name}(torch.nn.Module):"):
            inner.inside("def forward(self, out):", self.body)
        to.count = inner.count
        to.made += [*inner.made, *inner.lines, f"    {name} = {name}()"]
        to.made.append(f"    polycast.assign({name}, {{'': {to.policy(self.rules)}}})")
        if not any(isinstance(node, Suspended) for node in self.body):
            to.line(f"{name}(out)")
            return
        to.line(f"{name}_before = len(suspended)")
        to.line(f"try: {name}(out)")
        to.line("finally:")
        to.line(f"    while len(suspended) > {name}_before: suspended.pop().close()")


@dataclass(frozen=True)
class Suspended(Node):
    """In a generator's first step, a region that it leaves only after the module around it has ended."""

    region: Region
    rest: Block

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.region.body + self.rest, self.region.inside(state), found)

    def write(self, to: "Writer") -> None:
        to.line(f"suspended.append({to.generator(self.region)})")
        to.line("next(suspended[-1])")
        to.block(self.rest)


@dataclass(frozen=True)
class Use(Node):
    """The process's rules, for as long as a block runs."""

    body: Block
    rules: Rules

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.body, replace(state, process=self.rules), found)

    def write(self, to: "Writer") -> None:
        to.inside(f"with polycast.use({to.policy(self.rules)}):", self.body)


@dataclass(frozen=True)
class Threads(Node):
    """A block in a thread each, all at once."""

    bodies: tuple[Block, ...]

    def expect(self, state: State, found: list[str]) -> None:
        for body in self.bodies:
            expect(body, started(state.device, state.process), found)

    def write(self, to: "Writer") -> None:
        names = [to.function("thread", body) for body in self.bodies]
        to.line(f"out.extend(together({', '.join(names)}))")


@dataclass(frozen=True)
class Generator(Node):
    """A region that a generator enters and leaves, with a block between, which runs in it all the same."""

    region: Region
    between: Block

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.region.body + self.between + self.region.body, self.region.inside(state), found)

    def write(self, to: "Writer") -> None:
        name = to.name("run")
        to.line(f"{name} = {to.generator(self.region, self.region.body)}")
        to.line(f"next({name})")
        to.block(self.between)
        to.line(f"next({name}, None)")


@dataclass(frozen=True)
class Try(Node):
    """A block that may raise inside of what it has entered."""

    body: Block

    def expect(self, state: State, found: list[str]) -> None:
        with suppress(StoppedError):
            expect(self.body, state, found)

    def write(self, to: "Writer") -> None:
        to.inside("with suppress(StoppedError):", self.body)


@dataclass(frozen=True)
class Raise(Node):
    """The error of a Try around it."""

    def expect(self, state: State, found: list[str]) -> None:  # noqa: ARG002
        raise StoppedError

    def write(self, to: "Writer") -> None:
        to.line("raise StoppedError")


@dataclass(frozen=True)
class Compiled(Node):
    """A block that is compiled, called here, in a region, and here again."""

    body: Block
    region: Region

    def expect(self, state: State, found: list[str]) -> None:
        for inside in (state, self.region.inside(state), state):
            expect(self.body, inside, found)

    def write(self, to: "Writer") -> None:
        name = to.function("compiled", self.body)
        to.line(f"{name} = compile_anew({name})")
        to.line(f"out.extend({name}())")
        to.line(f"with {self.region.call(to)}: out.extend({name}())")
        to.line(f"out.extend({name}())")


def started(device: str, process: Rules) -> State:
    """Return what a new thread is in."""
    return State(device, str(lower_precision(device)[0]).removeprefix("torch."), process)


def expected(program: Block, device: str) -> list[str]:
    """Return the dtype that each op of a program gives, in the order in which their results are listed."""
    found: list[str] = []
    expect(program, started(device, {}), found)
    return found


@dataclass
class Writer:
    """Writes a program: what is made once above, the blocks below."""

    device: str
    made: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def indented(self, text: str) -> Iterator[None]:
        self.line(text)
        self.indent += 1
        yield
        self.indent -= 1

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def policy(self, rules: Rules) -> str:
        name = self.name("policy")
        self.made.append(f"    {name} = polycast.Policy({rules!r})")
        return name

    def block(self, block: Block) -> None:
        for node in block:
            node.write(self)

    def inside(self, text: str, block: Block, last: str = "pass") -> None:
        with self.indented(text):
            self.block(block)
            self.line(last)

    def function(self, kind: str, body: Block) -> str:
        """Write a function that returns the results of a block."""
        name = self.name(kind)
        with self.indented(f"def {name}():"):
            self.line("out = []")
            self.block(body)
            self.line("return out")
        return name

    def generator(self, region: Region, after: Block = ()) -> str:
        """Write a generator that yields once in a region, and return its call."""
        name = self.name("generator")
        with self.indented(f"def {name}():"), self.indented(f"with {region.call(self)}:"):
            self.block(region.body)
            self.line("yield")
            self.block(after)
        return f"{name}()"


def source_of(block: Block, device: str) -> str:
    """Return a program as the source of a function, `program`, that returns its results."""
    writer = Writer(device)
    writer.line("out = []")
    writer.block(block)
    writer.line("return out")
    return "\n".join(["def program():", *writer.made, *writer.lines])


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


ops = st.builds(Op, st.sampled_from(sorted(CALLS)), st.sampled_from(sorted(GIVEN)))


@st.composite
def regions(draw: st.DrawFn, body: st.SearchStrategy[Block], *, has_rules: bool = False) -> Region:
    """Draw a region; torch's own where it has no policy, now and then."""
    rules = draw(drawn_rules() if has_rules else st.none() | drawn_rules())
    dtype = draw(st.sampled_from([None, None, "bfloat16", "float16"]))
    enabled = draw(st.sampled_from([True, True, True, False]))
    is_torchs = rules is None and draw(st.booleans())
    return Region(draw(body), rules, dtype, enabled, is_torchs, draw(st.sampled_from([False, False, True])))


def blocks(depth: int, kinds: str = "utgsrc") -> st.SearchStrategy[Block]:
    """Draw a block. The letters allow `use`, threads, generators, suspended ones, errors that are raised, compiling."""
    if depth == 0:
        return st.lists(ops, min_size=1, max_size=2).map(tuple)
    within = blocks(depth - 1, kinds)
    nodes: list[st.SearchStrategy[Node]] = [ops, ops, regions(within), regions(within)]
    nodes.append(st.builds(Module, within, drawn_rules()))
    if "u" in kinds:
        nodes.append(st.builds(Use, within, drawn_rules()))
    if "t" in kinds:
        threads = blocks(depth - 1, "".join(set(kinds) - {*"ucs"}))  # `use` would be seen by the others
        nodes.append(st.builds(Threads, st.lists(threads, min_size=1, max_size=2).map(tuple)))
    if "g" in kinds:
        nodes.append(st.builds(Generator, regions(blocks(0)), within))
    if "s" in kinds:  # a region of torch's own would stay entered
        suspending = st.tuples(st.builds(Suspended, regions(blocks(0), has_rules=True), within))
        nodes.append(st.builds(Module, suspending, drawn_rules()))
    if "r" in kinds:
        raising = st.builds(lambda body: (*body, Raise()), within)
        region = st.builds(replace, regions(within), body=raising)
        nodes.append(st.builds(Try, st.tuples(ops, region | st.builds(Module, raising, drawn_rules()), ops)))
    if "c" in kinds:
        nodes.append(st.builds(Compiled, blocks(min(depth - 1, 2), ""), regions(blocks(0))))
    return st.lists(st.one_of(nodes), min_size=1, max_size=3).map(tuple)
