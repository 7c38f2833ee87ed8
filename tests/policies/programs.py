"""Random programs of nested rules, as Python that uses the public names alone, and what each of their ops has to give.

A program is a tree. `source_of` writes it down as a function, and `expected` walks it with rules of its own. It asks
polycast nothing, and reads in policy.yaml what holds on the device. The ranks are those of the README: inner module,
outer module, inner region, outer region, process, policy.yaml.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from polycast._compiled import DEVICES_LIKE
from polycast.backends import device_of

from tests.support.cases import ALL_CASES
from tests.support.devices import lower_precision

Rules: TypeAlias = dict[str, object]

OPS = ("bmm", "cat", "einsum", "matmul", "mm", "programs::product", "relu")
# The op that each runs where it is unlisted.
BELOW = {"matmul": "mm", "einsum": "bmm", "programs::product": "matmul"}
CALLS = {
    "matmul": "{0} @ {0}",
    "mm": "torch.mm({0}, {0})",
    "bmm": "torch.bmm({0}[None], {0}[None])",
    "einsum": "torch.einsum('bij,bjk->bik', {0}[None], {0}[None])",
    "relu": "torch.relu({0})",
    "cat": "torch.cat([{0}, half])",
    "programs::product": "torch.ops.programs.product({0})",
}
ONE_TENSOR = ("relu", "programs::product")  # which do not promote
GIVEN = {"single": "float32", "brain": "bfloat16", "double": "float64"}


class StoppedError(Exception):
    """A program's own error."""


@dataclass(frozen=True)
class Device:
    """What a program runs on: a device type, its device of the policy, the one that this is like, and what holds."""

    type: str
    name: str
    like: str
    dtype: str
    built_in: Rules


def device(type: str) -> Device:  # noqa: A002
    """Return a device type as policy.yaml has it."""
    name = device_of(type)
    categories: Rules = {case.name: case.category for case in ALL_CASES if case.device == name}
    dtype = str(lower_precision(type)[0]).removeprefix("torch.")
    built_in: Rules = {op: categories.get(op, "unlisted") for op in OPS}
    return Device(type, name, DEVICES_LIKE[name] or name, dtype, built_in)


@dataclass(frozen=True)
class State:
    """What a thread is in: the dtype and switch of the innermost region, and rules, the inner ones last."""

    device: Device
    process: Rules
    enabled: bool = False
    region_dtype: str | None = None
    regions: tuple[Rules, ...] = ()
    modules: tuple[Rules, ...] = ()

    @property
    def dtype(self) -> str:
        return self.region_dtype or self.device.dtype

    def value(self, op: str) -> str:
        for rules in (*reversed(self.modules), *reversed(self.regions), self.process):
            value = rules.get(op)
            if isinstance(value, dict):
                of_all = value.get("others")  # "unlisted" also keeps what a device that it is like has from it
                of_like = of_all if of_all == "unlisted" else value.get(self.device.like, of_all)
                value = value.get(self.device.name, of_like)
            if value is not None:
                return str(value)
        return str(self.device.built_in[op])

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


class Node(Protocol):
    """A part of a program: what it has to give, and how it is written."""

    def expect(self, state: State, found: list[str]) -> None: ...
    def write(self, to: "Writer") -> None: ...


Block: TypeAlias = tuple[Node, ...]


def expect(block: Block, state: State, found: list[str]) -> None:
    for node in block:
        node.expect(state, found)


@dataclass(frozen=True)
class Op:
    name: str
    given: str

    def expect(self, state: State, found: list[str]) -> None:
        found.append(state.computed(self.name, GIVEN[self.given]))

    def write(self, to: "Writer") -> None:
        to.line(f"out.append({CALLS[self.name].format(self.given)})")


@dataclass(frozen=True)
class Region:
    """One of polycast, with a policy or without, or of torch; decorating a function, or around a block."""

    body: Block
    rules: Rules | None = None
    dtype: str | None = None
    enabled: bool = True
    is_torchs: bool = False
    decorates: bool = False

    def inside(self, state: State) -> State:
        regions = (*state.regions, self.rules) if self.rules is not None else state.regions
        return replace(state, enabled=self.enabled, region_dtype=self.dtype or state.region_dtype, regions=regions)

    def call(self, to: "Writer") -> str:
        dtype = "" if self.dtype is None else f", dtype=torch.{self.dtype}"
        policy = "" if self.rules is None else f", policy={to.policy(self.rules)}"
        place = "torch" if self.is_torchs else "polycast"
        return f'{place}.autocast("{to.device}"{dtype}, enabled={self.enabled}{policy})'

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.body, self.inside(state), found)

    def write(self, to: "Writer") -> None:
        if not self.decorates:
            with to.inside(f"with {self.call(to)}:"):
                to.block(self.body)
            return
        to.line(f"@{self.call(to)}")
        with to.inside(f"def {(name := to.name('decorated'))}(out):"):
            to.block(self.body)
        to.line(f"{name}(out)")


@dataclass(frozen=True)
class Module:
    """A module whose forward is a block, with rules of its own; made above all blocks, so that nobody compiles that."""

    body: Block
    rules: Rules

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.body, replace(state, modules=(*state.modules, self.rules)), found)

    def write(self, to: "Writer") -> None:
        inner = Writer(to.device, count=to.count + 100)
        name = inner.name("module")
        with inner.inside(f"class {name}(torch.nn.Module):"), inner.inside("def forward(self, out):"):
            inner.block(self.body)
        to.count = inner.count
        to.made += [*inner.made, *inner.lines, f"    {name} = {name}()"]
        to.made.append(f"    polycast.assign({name}, {{'': {to.policy(self.rules)}}})")
        if not any(isinstance(node, Suspended) for node in self.body):
            to.line(f"{name}(out)")
            return
        to.line(f"{name}_before = len(suspended)")
        with to.inside("try:"):
            to.line(f"{name}(out)")
        with to.inside("finally:"):
            to.line(f"while len(suspended) > {name}_before: suspended.pop().close()")


@dataclass(frozen=True)
class Suspended:
    """In a generator's first step, a region that it leaves only after the module around it has ended."""

    region: Region
    rest: Block

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.region.body, self.region.inside(state), found)
        expect(self.rest, self.region.inside(state), found)

    def write(self, to: "Writer") -> None:
        name = to.name("suspended")
        with to.inside(f"def {name}():"), to.inside(f"with {self.region.call(to)}:"):
            to.block(self.region.body)
            to.line("yield")
        to.line(f"suspended.append({name}())")
        to.line("next(suspended[-1])")
        to.block(self.rest)


@dataclass(frozen=True)
class Use:
    """The process's rules, for as long as a block runs."""

    body: Block
    rules: Rules

    def expect(self, state: State, found: list[str]) -> None:
        expect(self.body, replace(state, process=self.rules), found)

    def write(self, to: "Writer") -> None:
        to.line(f"in_process.append({to.policy(self.rules)})")
        to.line("polycast.use(in_process[-1])")
        with to.inside("try:"):
            to.block(self.body)
        with to.inside("finally:"):
            to.line("in_process.pop()")
            to.line("polycast.use(in_process[-1])")


@dataclass(frozen=True)
class Threads:
    """A block in a thread each, all at once."""

    bodies: tuple[Block, ...]

    def expect(self, state: State, found: list[str]) -> None:
        for body in self.bodies:
            expect(body, State(state.device, state.process), found)

    def write(self, to: "Writer") -> None:
        names = [to.function("thread", body) for body in self.bodies]
        to.line(f"out.extend(together({', '.join(names)}))")


@dataclass(frozen=True)
class Generator:
    """A region that a generator enters and leaves, with a block between, which runs in it all the same."""

    region: Region
    between: Block

    def expect(self, state: State, found: list[str]) -> None:
        for body in (self.region.body, self.between, self.region.body):
            expect(body, self.region.inside(state), found)

    def write(self, to: "Writer") -> None:
        name = to.name("generator")
        with to.inside(f"def {name}():"), to.inside(f"with {self.region.call(to)}:"):
            to.block(self.region.body)
            to.line("yield")
            to.block(self.region.body)
        to.line(f"{name}_run = {name}()")
        to.line(f"next({name}_run)")
        to.block(self.between)
        to.line(f"next({name}_run, None)")


@dataclass(frozen=True)
class Try:
    """A block that raises inside of what it has entered."""

    body: Block

    def expect(self, state: State, found: list[str]) -> None:
        with suppress(StoppedError):
            expect(self.body, state, found)

    def write(self, to: "Writer") -> None:
        with to.inside("try:"):
            to.block(self.body)
        with to.inside("except StoppedError:"):
            to.line("pass")


@dataclass(frozen=True)
class Raise:
    """The error of a Try around it."""

    def expect(self, state: State, found: list[str]) -> None:  # noqa: ARG002
        raise StoppedError

    def write(self, to: "Writer") -> None:
        to.line("raise StoppedError")


@dataclass(frozen=True)
class Compiled:
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
        with to.inside(f"with {self.region.call(to)}:"):
            to.line(f"out.extend({name}())")
        to.line(f"out.extend({name}())")


def expected(program: Block, on: Device) -> list[str]:
    """Return the dtype that each op of a program gives, in the order in which their results are listed."""
    found: list[str] = []
    expect(program, State(on, {}), found)
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
    def inside(self, text: str) -> Iterator[None]:
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
        self.line("pass")

    def function(self, kind: str, body: Block) -> str:
        """Write a function that returns the results of a block."""
        name = self.name(kind)
        with self.inside(f"def {name}():"):
            self.line("out = []")
            self.block(body)
            self.line("return out")
        return name


def source_of(block: Block, device_type: str) -> str:
    """Return a program as the source of a function, `program`, that returns its results."""
    writer = Writer(device_type)
    writer.line("out = []")
    writer.block(block)
    writer.line("return out")
    return "\n".join(["def program():", *writer.made, *writer.lines])
