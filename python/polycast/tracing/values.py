"""The ops that compute a program's values, below autograd and autocasting, each with where it is called."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from polycast.rules.operators import shown
from polycast.tracing.places import OUTSIDE, Places

FORWARD, BACKWARD, STEP = "forward", "backward", "step"


class Site(NamedTuple):
    """Where an op is called: in which phase, in which module, and after how many calls of it there."""

    phase: str
    module: str
    op: str
    n: int

    def __str__(self) -> str:
        """Return it as people read it."""
        where = f"'{self.module}'" if self.module else "the model itself, or outside of it"
        return f"{self.op}, call {self.n}, in {self.phase} of {where}"


class Computed(NamedTuple):
    """An op that has run: what it was given, and what it returned or wrote into."""

    site: Site
    function: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Tensor]
    call: int | None
    """The order of the call that autocasting met and that it is a part of; None in backward."""
    node: int | None
    """The number of the autograd node that it is a part of; None in forward."""


class Values(TorchDispatchMode):
    """Shows each op to a visitor, after it has run; `before` sees it before, and may return what it keeps for then."""

    def __init__(
        self,
        model: nn.Module | None,
        visit: Callable[[Computed, Any], None],
        before: Callable[[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any]], Any] = lambda *_: None,
        current: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places = Places(model)
        self._visit = visit
        self._before = before
        self._current = current
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._steps = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Values":
        self._stack.enter_context(self.places)
        for handle in (
            register_optimizer_step_pre_hook(self._enter_step),
            register_optimizer_step_post_hook(self._leave_step),
        ):
            self._stack.callback(handle.remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        self._stack.close()

    def begin_again(self) -> None:
        """Count calls from the start."""
        self._counts.clear()

    def _enter_step(self, *_: object) -> None:
        self._steps += 1

    def _leave_step(self, *_: object) -> None:
        self._steps -= 1

    def __torch_dispatch__(
        self, function: torch._ops.OpOverload, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        kept = self._before(function, args, kwargs)
        result = function(*args, **kwargs)
        node = torch._C._current_autograd_node()
        phase = STEP if self._steps > 0 else FORWARD if node is None else BACKWARD
        key = phase, self._module(phase, node), _name(function)
        outputs = [*floating(result), *(leaf for leaf in written(function, args, kwargs))]
        number = None if node is None else node._sequence_nr()  # type: ignore[attr-defined]
        call = self._current() if node is None else None
        computed = Computed(Site(*key, self._counts[key]), function, args, kwargs, unique(outputs), call, number)
        self._counts[key] += 1
        self._visit(computed, kept)
        return result

    def _module(self, phase: str, node: torch.autograd.graph.Node | None) -> str:
        place = self.places.here()
        if phase == STEP:
            return ""
        if node is not None and place == OUTSIDE:  # else a forward that is run again in backward
            return self.places.name_in_backward(node)
        return self.places.name(place)


def floating(values: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors in nested values."""
    for leaf in tree_leaves(values):
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            yield leaf


def written(function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Yield the floating-point tensors that a call writes into."""
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from floating(args[place] if place < len(args) else kwargs.get(argument.name))


def unique(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors once each."""
    return list({id(tensor): tensor for tensor in tensors}.values())


def is_cast(function: torch._ops.OpOverload) -> bool:
    """Whether an op only changes the type or the place of its input."""
    return function._schema.name in ("aten::_to_copy", "aten::to")


def is_empty(function: torch._ops.OpOverload) -> bool:
    """Whether an op returns memory as it finds it."""
    return function._schema.name.startswith(("aten::empty", "aten::new_empty"))


def is_view(function: torch._ops.OpOverload) -> bool:
    """Whether an op computes no values: it returns its input's own memory, or some that holds none yet."""
    named = function._schema.name in ("aten::detach", "aten::_unsafe_view")
    return named or function.is_view or is_empty(function) or torch.Tag.view_copy in function.tags


def _name(function: torch._ops.OpOverload) -> str:
    schema = function._schema
    return shown(schema.name, schema.overload_name or "default")


def read_numbers(scalars: list[Tensor]) -> list[float]:
    """Return the numbers in tensors of one element each, in one copy from each device."""
    by_device: dict[torch.device, list[int]] = {}
    for place, scalar in enumerate(scalars):
        by_device.setdefault(scalar.device, []).append(place)
    numbers = [0.0] * len(scalars)
    for places in by_device.values():
        wide = any(scalars[place].dtype is torch.float64 for place in places)
        together = torch.stack([scalars[place].to(torch.float64 if wide else torch.float32) for place in places])
        for place, number in zip(places, together.tolist(), strict=True):
            numbers[place] = number
    return numbers
