"""The observer of trace, watch and compare: each op that a program runs, and each call that autocast intercepts."""

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from polycast import devices
from polycast._extension import current_call, start_recording, stop_recording, take_calls
from polycast.debug.calls import BACKWARD, FORWARD, LOWER, STEP, Call, Cast, Site, SiteCounter
from polycast.debug.module_tracker import OUTSIDE, ModuleTracker
from polycast.debug.ops import Kind, can_rerun, floating, is_empty, read, tensors, unique, written
from polycast.policy.categories import UNLISTED, Category
from polycast.policy.rules import BUILT_IN, qualified, shown
from polycast.torch_internals import (
    FakeTensor,
    OpOverload,
    TorchDispatchMode,
    current_autograd_node,
    has_storage,
    is_only_traced,
    tree_leaves,
    tree_map,
)

T = TypeVar("T")
# A line of the program is in none of these folders.
_LIBRARIES = [str(folder) + os.sep for folder in (Path(str(torch.__file__)).parent, Path(__file__).parents[1])]


@dataclass(eq=False)
class Op:
    """A call of an op below autograd and autocast. The visitor runs it."""

    site: Site
    function: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    call: int | None
    """The order of the recorded call that it is a part of."""
    node: int | None
    """The number of the autograd node that it is a part of; None in forward, and if it accumulates a gradient."""
    result: Any = None
    makers: tuple[int, ...] = ()
    """In backward, if a gradient has a lower precision: the autograd nodes of the ops that made the tensor."""
    outputs: list[Tensor] = field(default_factory=list)
    """The floating-point tensors of the result, and those that it writes into. They are released after the visit."""

    def run(self) -> None:
        """Run the op."""
        self.result = self.function(*self.args, **self.kwargs)
        self.outputs = unique([*floating(self.result), *written(self.function, self.args, self.kwargs)])

    def release(self) -> None:
        """Drop the references to the inputs and the results."""
        self.result, self.outputs, self.args, self.kwargs = None, [], (), {}

    def reads(self, of: Kind = floating) -> list[Tensor]:
        """Return the tensors whose values the op reads; by default the floating-point ones."""
        return list(read(self.function, self.args, self.kwargs, of))

    def results(self) -> list[Tensor]:
        """Return the tensors of the result, and the tensors that it writes into, integers included."""
        return unique([*tensors(self.result), *written(self.function, self.args, self.kwargs, tensors)])

    def in_wider_dtype(self) -> list[Tensor] | None:
        """Return the results in the next wider dtype, from copies of the inputs; None if the op cannot run again."""
        is_lower = any(tensor.dtype in LOWER for tensor in floating((self.args, self.kwargs)))
        return self._again(partial(_copy, torch.float32 if is_lower else torch.float64))

    def _again(self, change: Callable[[Any], Any]) -> list[Tensor] | None:
        if not can_rerun(self.function, self.args, self.kwargs):
            return None
        with torch.no_grad(), contextlib.suppress(Exception):  # kernels refuse dtypes by errors of any kind
            args, kwargs = tree_map(change, (self.args, self.kwargs))
            returned = self.function(*args, **kwargs)
            return unique([*floating(returned), *written(self.function, args, kwargs)])
        return None


def _copy(dtype: torch.dtype, leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        copied = leaf.detach().clone()
        return copied.to(dtype) if leaf.is_floating_point() and leaf.dtype is not torch.float64 else copied
    return dtype if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf


class Observer(TorchDispatchMode):
    """Observes a program: records the calls that autocast intercepts, and shows each op below to a visitor.

    The calls are those of this thread, and of the threads that torch runs its backward in. With no visitor, nothing
    but the program runs: torch reports the calls, and polycast's kernels report the rules that they follow.

    Args:
        tool: Who observes, as errors name it. A process has one observer at a time.
        model: Calls are named after its modules.
        visit: Runs each op.
        lines: Whether to record the program's line for each call.
        limit: How many calls to record before they are taken.
    """

    def __init__(
        self,
        tool: str,
        model: nn.Module | None,
        visit: Callable[[Op], None] | None = None,
        *,
        lines: bool = False,
        limit: int = sys.maxsize,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.supports_higher_order_operators = True  # which are passed on
        self.modules = ModuleTracker(model)
        self.is_complete = True
        """Whether no call was dropped because of the limit."""
        self._recording = tool, _LIBRARIES if lines else None, limit
        self._visit = visit
        self._last: list[Call] = []
        self.begin_step()

    def __enter__(self) -> "Observer":
        with contextlib.ExitStack() as stack:
            start_recording(*self._recording)
            stack.callback(stop_recording)
            stack.callback(lambda: self._last.extend(self._take()))
            stack.enter_context(self.modules)
            if self._visit is not None:
                stack.callback(register_optimizer_step_pre_hook(self._enter_optimizer).remove)
                stack.callback(register_optimizer_step_post_hook(self._leave_optimizer).remove)
                super().__enter__()  # type: ignore[no-untyped-call]
                stack.callback(super().__exit__, None, None, None)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin_step(self) -> None:
        """Number the calls of each op from 0 again, and forget the autograd nodes so far."""
        self._sites = SiteCounter()
        self._optimizers = 0
        self.modules.forget_nodes()

    def take_calls(self) -> list[Call]:
        """Return the calls with a floating-point tensor since the last time, in order; after the end, the last ones."""
        last, self._last = self._last, []
        return last or self._take()

    def _take(self) -> list[Call]:
        taken = take_calls()
        self.is_complete = len(taken) < self._recording[2]
        sites = SiteCounter()
        calls = []
        for order, node, name, device, rule, origin, module, backward, given, arrived, returned, casts, source in taken:
            if any(dtype.is_floating_point for dtype in (*given, *returned)):
                call = Call(
                    sites.next(BACKWARD if backward else FORWARD, self.modules.name(module), shown(name)),
                    device,
                    rule,
                    origin or _origin(name, rule, device),
                    tuple(given),
                    tuple(arrived or given),
                    tuple(returned),
                    tuple(
                        Cast(dtype, to, elements, reused, self.modules.weights.get(address))
                        for dtype, to, elements, reused, address in casts
                    ),
                    source,
                    order,
                    node,
                )
                calls.append(call)
        return calls

    def _enter_optimizer(self, *_: object) -> None:
        self._optimizers += 1

    def _leave_optimizer(self, *_: object) -> None:
        self._optimizers = max(0, self._optimizers - 1)

    def __torch_dispatch__(self, function: OpOverload, types: object, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._visit is None or not isinstance(function, OpOverload) or _has_no_values(args, kwargs):
            return function(*args, **kwargs)  # of higher order, or only traced
        node: Any = current_autograd_node()
        name = shown(function._schema.name, function._schema.overload_name or None)
        site = self._sites.next(*self._place(node), name)
        # The node that adds to a weight's gradient is of no call of forward; its number is larger than all others.
        number = None if node is None or hasattr(node, "variable") else node._sequence_nr()
        op = Op(site, function, args, kwargs, current_call(), number)
        try:
            self._visit(op)
            return op.result
        finally:
            op.release()

    def _place(self, node: torch.autograd.graph.Node | None) -> tuple[str, str]:
        """Return the phase and the module."""
        module = self.modules.current()
        if node is not None:  # a module's forward may run again in backward
            outside = module == OUTSIDE
            return BACKWARD, self.modules.name_in_backward(node) if outside else self.modules.name(module)
        if module == OUTSIDE and self._optimizers > 0:  # otherwise a forward in an optimizer's closure
            return STEP, ""
        return FORWARD, self.modules.name(module)


def _has_no_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a program is only traced: there are no values, and what we compute would get into its graph."""
    return is_only_traced() or any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs)))


def _origin(name: str, rule: str, device: str) -> str:
    """Return the origin of a rule that no policy of a process, a region or a module has made."""
    if rule in (UNLISTED, Category.STOCK.value):
        return "" if rule == UNLISTED else "torch"
    note = _notes().get((name, devices.device_of(device)))
    return f"policy.yaml: {note}" if note else "policy.yaml"


@cache
def _notes() -> dict[tuple[str, str], str]:
    """Return the notes of policy.yaml, by the dispatcher's name of an overload and by device."""
    return {(qualified(rule.name), rule.device): rule.note for rule in BUILT_IN}


class Contents(Generic[T]):
    """The results that were written last into the memory of tensors.

    Views, saved tensors and gradients are other objects that share the memory. The references to it keep the address of
    freed memory from being taken for that of other memory.
    """

    def __init__(self) -> None:
        self._held: dict[StorageWeakRef, tuple[T, ...]] = {}

    def of(self, *tensors: Tensor) -> tuple[T, ...]:
        """Return the results that tensors may hold values of."""
        held = (self._held.get(_memory(tensor), ()) for tensor in tensors if has_storage(tensor))
        return tuple(dict.fromkeys(result for results in held for result in results))

    def write(self, tensor: Tensor, *results: T) -> None:
        """Set the results in the memory of a tensor; if the tensor is a part of the memory, add them to it."""
        if has_storage(tensor):
            is_part = tensor.numel() * tensor.itemsize < tensor.untyped_storage().nbytes()
            self._held[_memory(tensor)] = tuple(dict.fromkeys((*(self.of(tensor) if is_part else ()), *results)))

    def follow(self, op: Op) -> tuple[T, ...]:
        """Run an op whose outputs hold what it reads, such as a view; return the results that they hold."""
        held = () if is_empty(op.function) else self.of(*op.reads(tensors))
        op.run()
        for tensor in op.results():
            if held or is_empty(op.function):
                self.write(tensor, *held)
        return held


def _memory(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
