"""The ops that compute a program's values, below autograd and autocasting."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from polycast._compiled import current_call
from polycast.debug.calls import BACKWARD, FORWARD, LOWER, STEP, Site, Sites
from polycast.debug.ops import can_rerun, floating, is_empty, read, unique, written
from polycast.debug.places import OUTSIDE, Places
from polycast.policy.operators import shown

T = TypeVar("T")


@dataclass(eq=False)
class Op:
    """A call of an op below autograd and autocasting. Its visitor runs it, and may keep it, but not its tensors."""

    site: Site
    function: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    call: int | None
    """The order of the recorded call that it is a part of."""
    node: int | None
    """The number of the autograd node that it is a part of; None in forward, and where a gradient is accumulated."""
    result: Any = None
    outputs: list[Tensor] = field(default_factory=list)
    """The floating-point tensors of the result, and those that it writes into."""

    def run(self) -> None:
        """Run the op."""
        self.result = self.function(*self.args, **self.kwargs)
        self.outputs = unique([*floating(self.result), *written(self.function, self.args, self.kwargs)])

    def forget(self) -> None:
        """Let go of the tensors."""
        self.args, self.kwargs, self.result, self.outputs = (), {}, None, []

    def reads(self) -> list[Tensor]:
        """Return the floating-point tensors whose values the op reads."""
        return list(read(self.function, self.args, self.kwargs))

    def writes(self) -> bool:
        """Return whether the op writes into an argument."""
        return next(written(self.function, self.args, self.kwargs), None) is not None

    def in_wider_dtype(self) -> list[Tensor] | None:
        """Return what the op, before it runs, would give in the next wider dtype; None where it cannot be run twice."""
        is_lower = any(tensor.dtype in LOWER for tensor in floating((self.args, self.kwargs)))
        return self.in_dtype(torch.float32 if is_lower else torch.float64)

    def in_dtype(self, dtype: torch.dtype, stays: Callable[[Tensor], bool] = lambda _: False) -> list[Tensor] | None:
        """Return what the op, before it runs, would give in a dtype; None where it cannot run so.

        Tensors of float64, and those that shall stay, stay as they are.
        """
        return self._again(partial(_copied, dtype, stays))

    def copy(self, dtype: torch.dtype, stays: Callable[[Tensor], bool] = lambda _: False) -> Callable[[], Any] | None:
        """Return a function that runs the op in a dtype, as often as it is called; None where it cannot run twice."""
        if not can_rerun(self.function, self.args, self.kwargs):
            return None
        args, kwargs = tree_map(partial(_copied, dtype, stays), (self.args, self.kwargs))
        return partial(self.function, *args, **kwargs)

    def of_rounded(self, dtype: torch.dtype) -> list[Tensor] | None:
        """Return what the op gives of inputs that are rounded to a dtype; None where it cannot be run twice."""

        def round_off(leaf: Any) -> Any:
            is_number = isinstance(leaf, Tensor) and leaf.is_floating_point()
            return leaf.detach().to(dtype).to(leaf.dtype) if is_number else leaf

        return None if self.writes() else self._again(round_off)

    def _again(self, change: Callable[[Any], Any]) -> list[Tensor] | None:
        if not can_rerun(self.function, self.args, self.kwargs):
            return None
        with torch.no_grad(), contextlib.suppress(Exception):  # kernels refuse dtypes by errors of any kind
            args, kwargs = tree_map(change, self.args), tree_map(change, self.kwargs)
            returned = self.function(*args, **kwargs)
            return unique([*floating(returned), *written(self.function, args, kwargs)])
        return None


def _copied(dtype: torch.dtype, stays: Callable[[Tensor], bool], leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        is_cast = leaf.is_floating_point() and leaf.dtype is not torch.float64 and not stays(leaf)
        copied = leaf.detach().clone()
        return copied.to(dtype) if is_cast else copied
    return dtype if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf


class Values(TorchDispatchMode):
    """Shows each op to a visitor, which runs it."""

    def __init__(
        self,
        model: nn.Module | None,
        visit: Callable[[Op], None],
        on_step: Callable[[Optimizer], None] = lambda _: None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.supports_higher_order_operators = True  # which are passed on
        self.places = Places(model)
        self._visit = visit
        self._on_step = on_step
        self._stack = contextlib.ExitStack()
        self.begin_again()

    def __enter__(self) -> "Values":
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.places)
            stack.callback(register_optimizer_step_pre_hook(self._enter_step).remove)
            stack.callback(register_optimizer_step_post_hook(self._leave_step).remove)
            super().__enter__()  # type: ignore[no-untyped-call]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._stack.close()

    def begin_again(self) -> None:
        """Number calls from 0 again."""
        self._sites = Sites()
        self._steps = 0
        self.places.forget_nodes()

    def _enter_step(self, *_: object) -> None:
        self._steps += 1

    def _leave_step(self, optimizer: Optimizer, *_: object) -> None:
        self._steps = max(0, self._steps - 1)
        self._on_step(optimizer)

    def __torch_dispatch__(
        self, function: torch._ops.OpOverload, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(function, torch._ops.OpOverload) or _is_rehearsal(args, kwargs):
            return function(*args, **kwargs)  # of higher order, or without values
        node: Any = torch._C._current_autograd_node()
        name = shown(function._schema.name, function._schema.overload_name or None)
        site = self._sites.next(*self._place(node), name)
        # The node that adds to a weight's gradient is of no call of forward; its number is larger than all others.
        number = None if node is None or hasattr(node, "variable") else node._sequence_nr()
        op = Op(site, function, args, kwargs, current_call(), number)
        try:
            self._visit(op)
            return op.result
        finally:
            op.forget()

    def _place(self, node: torch.autograd.graph.Node | None) -> tuple[str, str]:
        """Return the phase and the module."""
        place = self.places.here()
        if node is not None:  # a module's forward may run again in backward
            return BACKWARD, self.places.name_in_backward(node) if place == OUTSIDE else self.places.name(place)
        if place == OUTSIDE and self._steps > 0:  # else a forward in an optimizer's closure
            return STEP, ""
        return FORWARD, self.places.name(place)


def _is_rehearsal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a program is only traced: there are no values, and what we compute would get into its graph."""
    keys = torch._C._TorchDispatchModeKey
    if any(torch._C._get_dispatch_mode(key) is not None for key in (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)):
        return True
    return any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs)))


class Contents(Generic[T]):
    """What the memory of tensors holds: the results that were written into it last.

    Views, saved tensors and gradients are other objects that share it. The references keep the address of memory that
    was freed from being taken for that of other memory.
    """

    def __init__(self) -> None:
        self._held: dict[StorageWeakRef, tuple[T, ...]] = {}

    def of(self, *tensors: Tensor) -> tuple[T, ...]:
        """Return the results that tensors may hold values of."""
        held = (self._held.get(_memory(tensor), ()) for tensor in tensors if torch._C._has_storage(tensor))
        return tuple(dict.fromkeys(result for results in held for result in results))

    def is_unwritten(self, tensor: Tensor) -> bool:
        """Return whether nobody has written the memory of a tensor since it was taken."""
        return torch._C._has_storage(tensor) and self._held.get(_memory(tensor)) == ()

    def write(self, tensor: Tensor, *results: T) -> None:
        """Have the memory of a tensor hold these results: with those before, where the tensor is a part of it."""
        if torch._C._has_storage(tensor):
            is_part = tensor.numel() * tensor.itemsize < tensor.untyped_storage().nbytes()
            self._held[_memory(tensor)] = tuple(dict.fromkeys((*(self.of(tensor) if is_part else ()), *results)))

    def follow(self, op: Op) -> tuple[T, ...]:
        """Run an op whose outputs hold what it reads, such as a view; return what that is."""
        held = () if is_empty(op.function) else self.of(*op.reads())
        op.run()
        for tensor in op.outputs:
            if held or is_empty(op.function):
                self.write(tensor, *held)
        return held


def _memory(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
