"""The runner of random programs of nested rules.

A program is a tree of the parts in ``tests/policies/program_parts.py``. ``made`` converts a program to a function that
uses public names only, and lists the expected dtypes of its ops. The tests compare the values with the results of the
same ops on inputs that are cast by hand.
"""

import io
import pickle
from collections import abc
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from threading import Barrier
from types import FunctionType
from typing import Any, ClassVar, TypeAlias

import polycast
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.policies import program_parts as parts

Generates: TypeAlias = abc.Generator[None, None, None]
Call: TypeAlias = Callable[[Tensor, list[Tensor]], Tensor]  # A `Call` runs a forward.
Run: TypeAlias = Callable[[list[Tensor]], None]  # A `Run` runs a block and appends its results to a list.


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
    """An error that a program raises on purpose."""


class Runs(nn.Module):
    """A module that runs a function. A pickle contains only the function's number."""

    functions: ClassVar[list[Callable[..., None]]] = []

    def __init__(self, body: Callable[..., None], rules: parts.Rules) -> None:
        super().__init__()
        self.number = len(self.functions)
        self.functions.append(body)
        polycast.assign(self, {"": rules})

    def forward(self, *args: object) -> None:
        self.functions[self.number](*args)


def made(block: parts.Block, state: parts.State, found: list[parts.Found]) -> Run:
    """Return a function that runs a block, and append the expected dtype for each run of an op to ``found``."""
    return partial(run_each, [made_of(node, state, found) for node in block])


def run_each(runs: list[Run], out: list[Tensor]) -> None:
    for run in runs:
        run(out)


def made_of(node: parts.Node, state: parts.State, found: list[parts.Found]) -> Run:
    match node:
        case parts.Op(name, kind):
            found.append(parts.Found(name, kind, state.computed(name, kind)))
            x, half = parts.input_of(kind, state.device), parts.input_of("float16", state.device)
            call = parts.CALLS[name]
            return lambda out: out.append(call(x, half).detach())
        case parts.Region() | parts.Around():
            return entered(node, state.device, made(node.body, node.inside(state), found))
        case parts.Generator(region, rest, rules):
            state = state if rules is None else replace(state, modules=(*state.modules, rules))
            first, then = made_each((region.body, rest), region.inside(state), found)
            return generating(region.opened(state.device), first, then, rules)
        case parts.Threads(bodies):
            return partial(together, made_each(bodies, parts.started(state.device, state.process), found))
        case parts.Checkpoint(body):
            run, _again = made_each((body, body), node.forward.inside(state), found)
            return partial(backward, node, state.device, lambda x, out: rerun(node, run, x, out))
        case parts.Custom(bodies):
            inside = node.forward.inside(state)
            inside = replace(inside, enabled=inside.enabled and node.cast_inputs is None)
            first, then = made_each(bodies, inside, found)
            return partial(backward, node, state.device, lambda x, out: custom(node, first, then, out).apply(x))  # type: ignore[no-untyped-call]
        case parts.Compiled(body, region):
            first, *_ = [made(body, inside, found) for inside in (state, region.inside(state), state)]
            return partial(compiled, first, region.opened(state.device))
        case parts.Raise():
            return stop


def entered(node: parts.Region | parts.Around, device: str, body: Run) -> Run:
    """Return a function that runs a body in a region, a module, or another context manager."""
    match node:
        case parts.Region(decorates=False):
            return partial(around, node.opened(device), body)
        case parts.Region():
            region = node.opened(device)
            # `torch.compile` cannot trace a region that decorates a `functools.partial`.
            return lambda out: region()(lambda out: body(out))(out)
        case parts.Around("module", _, rules, copy):
            return Runs(body, rules) if copy is None else copied(Runs(body, rules), COPIES[copy])
        case parts.Around("use", _, rules):
            return partial(around, lambda: polycast.use(rules), body)
        case parts.Around("keep"):
            return partial(around, lambda: polycast.cast_cache.keep(parts.WEIGHT), body)
        case parts.Around():
            return partial(around, lambda: suppress(StoppedError), body)


def copied(module: nn.Module, copy: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """Return a copy of a module, and remove the original's rules. The copy's rules must remain."""
    made = copy(module)
    polycast.assign(module, {"": None})
    return made


def backward(node: parts.Checkpoint | parts.Custom, device: str, call: Call, out: list[Tensor]) -> None:
    """Run a call in ``node.forward``, and backward in ``node.backward``, optionally in another thread."""
    results: list[Tensor] = []
    with torch.enable_grad():  # type: ignore[no-untyped-call]
        x = parts.VALUES.to(device, copy=True).requires_grad_()
        entered(node.forward, device, lambda out: results.append(call(x, out).sum()))(out)
    back = entered(node.backward, device, lambda _: results.pop().backward())  # type: ignore[no-untyped-call]
    if node.in_thread:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(back, out).result()
    else:
        back(out)


def rerun(node: parts.Checkpoint, body: Run, x: Tensor, out: list[Tensor]) -> Tensor:
    def function(x: Tensor) -> Tensor:
        body(out)
        return x * x

    if x.device.type != "xla":
        return checkpoint(function, x, use_reentrant=node.use_reentrant)  # type: ignore[no-any-return]
    from torch_xla.utils.checkpoint import checkpoint as of_xla  # PyTorch's checkpoint needs the module `torch.xla`.

    return of_xla(function, x, use_reentrant=True)  # type: ignore[no-any-return]


def custom(node: parts.Custom, first: Run, then: Run, out: list[Tensor]) -> type[torch.autograd.Function]:
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


def made_each(blocks: Iterable[parts.Block], state: parts.State, found: list[parts.Found]) -> list[Run]:
    return [made(block, state, found) for block in blocks]


def stop(_: list[Tensor]) -> None:
    raise StoppedError


def around(context: Callable[[], AbstractContextManager[object]], body: Run, out: list[Tensor]) -> None:
    with context():
        body(out)


def generating(region: Callable[[], Any], first: Run, rest: Run, rules: parts.Rules | None) -> Run:
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


def together(bodies: list[Run], out: list[Tensor]) -> None:
    meet = Barrier(len(bodies))

    def start(body: Run) -> list[Tensor]:
        meet.wait()
        out: list[Tensor] = []
        body(out)
        return out

    with ThreadPoolExecutor(len(bodies)) as pool:
        for future in [pool.submit(start, body) for body in bodies]:
            out += future.result()


def compiled(body: Run, region: Callable[[], Any], out: list[Tensor]) -> None:
    def function() -> list[Tensor]:
        out: list[Tensor] = []
        body(out)
        return out

    code = function.__code__.replace()  # Dynamo has not compiled this new code object.
    fresh = torch.compile(FunctionType(code, globals(), "fresh", None, function.__closure__), backend="eager")
    out += fresh()
    with region():
        out += fresh()
    out += fresh()
