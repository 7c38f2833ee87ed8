"""The ops that each call of a program runs below autograd and autocast."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from polycast._extension import held_calls, held_count, set_step, start_holding
from polycast.debug.calls import Site
from polycast.debug.observer import Observer
from polycast.debug.program_calls import StepCalls
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Spoil = Callable[[Tensor], object]


class Op(NamedTuple):
    """An op that a call of the program ran."""

    call: int
    """The number of the program's call that runs the op."""
    function: Any
    dtypes: set[torch.dtype]
    """The dtypes of the floating-point tensors among the inputs."""
    has_values: bool
    """Whether the first result is not a view and has a nonzero value. False unless ``reads_values`` is set."""


class OpsBelow(TorchDispatchMode):
    """A dispatch mode that lists the ops of a program.

    Args:
        spoil: The number of an op, and a function that changes the op's first result.
        reads_values: Whether to read each result, which makes XLA compile each op.
    """

    def __init__(self, spoil: tuple[int, Spoil] | None = None, *, reads_values: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.spoil = spoil
        self.reads_values = reads_values
        self.ops: list[Op] = []

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        outputs = floating((result, args[:1] if function._schema.is_mutable else ()))
        is_view = bool(function.is_view) or function._schema.name in (
            "aten::detach",
            "aten::_unsafe_view",
            "aten::empty_like",
        )
        has_values = self.reads_values and not is_view and bool(outputs) and bool(outputs[0].detach().any())
        dtypes = {tensor.dtype for tensor in floating((args, kwargs))}
        if self.spoil is not None and self.spoil[0] == len(self.ops):
            self.spoil[1](outputs[0].detach())
        self.ops.append(Op(held_count(), function, dtypes, has_values))
        return result


def is_cast(op: Op) -> bool:
    """Return whether an op only changes the dtype or the device of its input."""
    return op.function._schema.name in ("aten::to", "aten::_to_copy")


def floating(values: Any) -> list[Tensor]:
    """Return the floating-point tensors in nested values."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def calls_of(run: Callable[[], object], model: nn.Module, *, reads_values: bool = False) -> tuple[StepCalls, list[Op]]:
    """Return the calls of a program and the ops that they run."""
    with contextlib.ExitStack() as stack:
        observer = stack.enter_context(Observer("a test", model))
        stack.callback(register_optimizer_step_pre_hook(lambda *_: set_step(True)).remove)
        stack.callback(register_optimizer_step_post_hook(lambda *_: set_step(False)).remove)
        start_holding([], lambda _: None, False)
        below = stack.enter_context(OpsBelow(reads_values=reads_values))
        run()
        step = StepCalls(held_calls(), observer.take_calls(), observer.modules)
    return step, below.ops


def results_of(run: Callable[[], object], model: nn.Module) -> dict[int, Site]:
    """Return the site of each call, keyed by the number of the last op with nonzero values that the call runs.

    The result excludes casts, and calls that draw random numbers.
    """
    step, ops = calls_of(run, model, reads_values=True)
    last = {op.call: number for number, op in enumerate(ops) if op.has_values}
    random = {op.call for op in ops if torch.Tag.nondeterministic_seeded in op.function.tags}
    return {
        number: step.sites[call] for call, number in last.items() if call not in random and not is_cast(ops[number])
    }
