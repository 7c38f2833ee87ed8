"""Random programs of nested rules, as Python that uses the public names alone, and what each of their ops has to give.

A program is a tree. `source_of` writes it down as a function, and `expected` walks it with rules of its own. It asks
polycast nothing, and reads in policy.yaml what holds on the device. The ranks are those of the README: inner module,
outer module, inner region, outer region, process, policy.yaml. `blocks` draws programs by hypothesis.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeAlias

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


class Module(NamedTuple):
    """A module whose forward is a block, with rules of its own; made above all blocks, so that nobody compiles that."""

    body: "Block"
    rules: Rules


class Suspended(NamedTuple):
    """In a generator's first step, a region that it leaves only after the module around it has ended."""

    region: Region
    rest: "Block"


class Generator(NamedTuple):
    """A region that a generator enters and leaves, with a block between, which runs in it all the same."""

    region: Region
    between: "Block"


class Use(NamedTuple):
    """The process's rules, for as long as a block runs."""

    body: "Block"
    rules: Rules


class Threads(NamedTuple):
    """A block in a thread each, all at once."""

    bodies: "tuple[Block, ...]"


class Try(NamedTuple):
    """A block that may raise inside of what it has entered."""

    body: "Block"


class Raise(NamedTuple):
    """The error of a Try around it."""


class Compiled(NamedTuple):
    """A block that is compiled, called here, in a region, and here again."""

    body: "Block"
    region: Region


Node: TypeAlias = Op | Region | Module | Suspended | Generator | Use | Threads | Try | Raise | Compiled
Block: TypeAlias = tuple[Node, ...]


def expect(block: Block, state: State, found: list[str]) -> None:  # noqa: C901
    """Add the dtype that each op of a block gives."""
    for node in block:
        match node:
            case Op(name, given):
                found.append(state.computed(name, GIVEN[given]))
            case Region(body):
                expect(body, node.inside(state), found)
            case Module(body, rules):
                expect(body, replace(state, modules=(*state.modules, rules)), found)
            case Suspended(region, rest):
                expect(region.body + rest, region.inside(state), found)
            case Generator(region, between):
                expect(region.body + between + region.body, region.inside(state), found)
            case Use(body, rules):
                expect(body, replace(state, process=rules), found)
            case Threads(bodies):
                for body in bodies:
                    expect(body, started(state.device, state.process), found)
            case Try(body):
                with suppress(StoppedError):
                    expect(body, state, found)
            case Raise():
                raise StoppedError
            case Compiled(body, region):
                for inside in (state, region.inside(state), state):
                    expect(body, inside, found)


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

    def line(self, *texts: str) -> None:
        self.lines += ["    " * self.indent + text for text in texts]

    @contextmanager
    def inside(self, text: str) -> Iterator[None]:
        self.line(text)
        self.indent += 1
        yield
        self.line("pass")
        self.indent -= 1

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def policy(self, rules: Rules) -> str:
        name = self.name("policy")
        self.made.append(f"    {name} = polycast.Policy({rules!r})")
        return name

    def region(self, region: Region) -> str:
        dtype = "" if region.dtype is None else f", dtype=torch.{region.dtype}"
        policy = "" if region.rules is None else f", policy={self.policy(region.rules)}"
        place = "torch" if region.is_torchs else "polycast"
        return f'{place}.autocast("{self.device}"{dtype}, enabled={region.enabled}{policy})'

    def function(self, kind: str, body: Block) -> str:
        """Write a function that returns the results of a block."""
        name = self.name(kind)
        with self.inside(f"def {name}():"):
            self.line("out = []")
            self.block(body)
            self.line("return out")
        return name

    def generator(self, region: Region, after: Block = ()) -> str:
        """Write a generator that yields once in a region, and return its call."""
        name = self.name("generator")
        with self.inside(f"def {name}():"), self.inside(f"with {self.region(region)}:"):
            self.block(region.body)
            self.line("yield")
            self.block(after)
        return f"{name}()"

    def module(self, module: Module) -> str:
        inner = Writer(self.device, count=self.count + 100)
        name = inner.name("module")
        with inner.inside(f"class {name}(torch.nn.Module):"), inner.inside("def forward(self, out):"):
            inner.block(module.body)
        self.count = inner.count
        self.made += [*inner.made, *inner.lines, f"    {name} = {name}()"]
        self.made.append(f"    polycast.assign({name}, {{'': {self.policy(module.rules)}}})")
        return name

    def block(self, block: Block) -> None:  # noqa: C901
        for node in block:
            match node:
                case Op(name, given):
                    self.line(f"out.append({CALLS[name].format(given)})")
                case Region(body, decorates=False):
                    with self.inside(f"with {self.region(node)}:"):
                        self.block(body)
                case Region(body):
                    name = self.name("decorated")
                    self.line(f"@{self.region(node)}")
                    with self.inside(f"def {name}(out):"):
                        self.block(body)
                    self.line(f"{name}(out)")
                case Module(body):
                    name = self.module(node)
                    if any(isinstance(part, Suspended) for part in body):
                        self.line("before = len(suspended)", f"try: {name}(out)", "finally:")
                        self.line("    while len(suspended) > before: suspended.pop().close()")
                    else:
                        self.line(f"{name}(out)")
                case Suspended(region, rest):
                    self.line(f"suspended.append({self.generator(region)})", "next(suspended[-1])")
                    self.block(rest)
                case Generator(region, between):
                    run = self.name("run")
                    self.line(f"{run} = {self.generator(region, region.body)}", f"next({run})")
                    self.block(between)
                    self.line(f"next({run}, None)")
                case Use(body, rules):
                    with self.inside(f"with polycast.use({self.policy(rules)}):"):
                        self.block(body)
                case Threads(bodies):
                    threads = [self.function("thread", body) for body in bodies]
                    self.line(f"out.extend(together({', '.join(threads)}))")
                case Try(body):
                    with self.inside("with suppress(StoppedError):"):
                        self.block(body)
                case Raise():
                    self.line("raise StoppedError")
                case Compiled(body, region):
                    name = self.function("compiled", body)
                    self.line(f"{name} = compile_anew({name})", f"out.extend({name}())")
                    self.line(f"with {self.region(region)}: out.extend({name}())", f"out.extend({name}())")


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
        region = st.builds(Region._replace, regions(within), body=raising)
        nodes.append(st.builds(Try, st.tuples(ops, region | st.builds(Module, raising, drawn_rules()), ops)))
    if "c" in kinds:
        nodes.append(st.builds(Compiled, blocks(min(depth - 1, 2), ""), regions(blocks(0))))
    return st.lists(st.one_of(nodes), min_size=1, max_size=3).map(tuple)
