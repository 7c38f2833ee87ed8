"""The ops that compute a program's values, below autograd and autocasting, each with where it is called."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from polycast.debug.places import OUTSIDE, Places
from polycast.policy.operators import shown

T = TypeVar("T")
FORWARD, BACKWARD, STEP = "forward", "backward", "step"
LOWER = (torch.float16, torch.bfloat16)
DRAWS = tuple(f"aten::{name}_" for name in ("bernoulli", "cauchy", "exponential", "log_normal", "normal", "uniform"))
# What writes over all that was there.
FILLS = ("aten::copy_", "aten::fill_", "aten::zero_", *DRAWS)
# Of random ops those whose result is not what they draw: they change what they are given by it.
WITHIN = ("dropout", "attention", "rnn", "lstm", "gru", "rrelu")


class Site(NamedTuple):
    """Where an op is called: in which phase, in which module, and after how many calls of it there."""

    phase: str
    module: str
    op: str
    n: int

    def __str__(self) -> str:
        """Return it as people read it."""
        where = f" of '{self.module}'" if self.module else ", in no submodule"
        return f"{self.op}, call {self.n}, in {self.phase}{where}"


class Computed(NamedTuple):
    """An op that has run: what it was given, and what it returned or wrote into."""

    site: Site
    function: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    outputs: list[Tensor]
    """The floating-point tensors of the result, and those that it wrote into."""
    call: int | None
    """The order of the call that autocasting met and that it is a part of; in backward only of what is run again."""
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
        self.supports_higher_order_operators = True  # which are passed on
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
        self._steps = 0
        self.places.forget_nodes()

    def _enter_step(self, *_: object) -> None:
        self._steps += 1

    def _leave_step(self, *_: object) -> None:
        self._steps = max(0, self._steps - 1)

    def __torch_dispatch__(
        self, function: torch._ops.OpOverload, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(function, torch._ops.OpOverload) or _is_rehearsal(args, kwargs):
            return function(*args, **kwargs)  # of higher order, or without values
        kept = self._before(function, args, kwargs)
        result = function(*args, **kwargs)
        node = torch._C._current_autograd_node()
        key = (*self._place(node), _name(function))
        outputs = [*floating(result), *(leaf for leaf in written(function, args, kwargs))]
        number = None if node is None else node._sequence_nr()  # type: ignore[attr-defined]
        call = self._current()
        site = Site(*key, self._counts[key])
        computed = Computed(site, function, args, kwargs, result, unique(outputs), call, number)
        self._counts[key] += 1
        self._visit(computed, kept)
        return result

    def _place(self, node: torch.autograd.graph.Node | None) -> tuple[str, str]:
        """Return the phase and the module."""
        place = self.places.here()
        if node is not None:  # in a module's forward that is run again in backward, that module
            return BACKWARD, self.places.name_in_backward(node) if place == OUTSIDE else self.places.name(place)
        if place == OUTSIDE and self._steps > 0:  # else a forward in an optimizer's closure
            return STEP, ""
        return FORWARD, self.places.name(place)


def _is_rehearsal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a program is only traced: what is computed beside it would get into its graph, or has no values."""
    keys = torch._C._TorchDispatchModeKey
    if any(torch._C._get_dispatch_mode(key) is not None for key in (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)):
        return True
    return any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs)))


def floating(values: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors in nested values."""
    for leaf in tree_leaves(values):
        if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            yield leaf


def written(function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Yield the floating-point tensors that a call writes into."""
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from floating(args[place] if place < len(args) else kwargs.get(argument.name))


def read_arguments(function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments whose values an op reads: not what it writes over."""
    fills = function._schema.name in FILLS
    found = []
    for place, argument in enumerate(function._schema.arguments):
        writes = argument.alias_info is not None and argument.alias_info.is_write
        if not (writes and (fills or argument.is_out)):
            found.append(args[place] if place < len(args) else kwargs.get(argument.name))
    return found


class Contents(Generic[T]):
    """What the memory of tensors holds: the results that were written into it last.

    Views, saved tensors and gradients come as other objects that share it. The references keep the address of memory
    that was freed from being taken for that of other memory.
    """

    def __init__(self) -> None:
        self._held: dict[StorageWeakRef, tuple[T, ...]] = {}

    def of(self, tensor: Tensor) -> tuple[T, ...]:
        """Return the results that a tensor may hold values of."""
        return self._held.get(_reference(tensor), ()) if torch._C._has_storage(tensor) else ()

    def write(self, tensor: Tensor, *results: T) -> None:
        """Have a tensor hold these results: also these, where it is a part of its memory."""
        if torch._C._has_storage(tensor):
            is_part = tensor.numel() * tensor.itemsize < tensor.untyped_storage().nbytes()
            self._held[_reference(tensor)] = tuple(dict.fromkeys((*(self.of(tensor) if is_part else ()), *results)))


def _reference(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def named(function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names, without those that are left out."""
    return dict(zip((argument.name for argument in function._schema.arguments), args, strict=False)) | kwargs


def unique(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors once each."""
    return list({id(tensor): tensor for tensor in tensors}.values())


def is_cast(function: torch._ops.OpOverload) -> bool:
    """Whether an op only changes the type or the place of its input."""
    return function._schema.name in ("aten::_to_copy", "aten::to")


def is_draw(function: torch._ops.OpOverload) -> bool:
    """Whether an op returns, or writes, the random numbers that it draws."""
    is_random = torch.Tag.nondeterministic_seeded in function.tags and function.namespace == "aten"
    return is_random and not any(name in function._schema.name for name in WITHIN)


def draws_within(function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an op draws random numbers that only its kernel knows."""
    if torch.Tag.nondeterministic_seeded not in function.tags or is_draw(function):
        return False
    given = named(function, args, kwargs)
    drops = [given[name] for name in ("p", "dropout_p", "dropout") if name in given]
    is_on = given.get("train") is not False and given.get("training") is not False
    return is_on and any(drops or ["training" in given or function.namespace != "aten"])


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


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has values, strided in memory of its own, that ops below the mode can read."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_nested
        and not tensor._is_zerotensor()
    )


def local(tensor: Tensor) -> Tensor | None:
    """Return what a tensor holds in this process, dense; None where there is nothing that can be read."""
    with contextlib.suppress(Exception):  # subclasses refuse by errors of any kind
        part = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # a DTensor's shard
        part = part.detach()
        part = part if part.layout is torch.strided else part.to_dense()
        part = torch.view_as_real(part.resolve_conj()) if part.is_complex() else part
        return part if is_plain(part) and part.numel() > 0 else None
    return None


def widened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in the next wider type than the narrowest of theirs, as copies."""
    kinds = {tensor.dtype for tensor in floating((args, kwargs))}
    wide = torch.float32 if kinds & {*LOWER} else torch.float64

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            copied = leaf.detach().clone()
            return copied.to(wide) if leaf.is_floating_point() and leaf.dtype is not torch.float64 else copied
        return wide if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf

    return tree_map(widen, args), tree_map(widen, kwargs)


def rounded(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in their types, rounded to the precision of bfloat16."""

    def round_off(leaf: Any) -> Any:
        is_number = isinstance(leaf, Tensor) and leaf.is_floating_point()
        return leaf.detach().to(torch.bfloat16).to(leaf.dtype) if is_number else leaf

    return tree_map(round_off, args), tree_map(round_off, kwargs)


def before_rerun(
    function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what rerun takes of an op that is about to run: copies where it writes into its arguments."""
    return widened(args, kwargs) if any(True for _ in written(function, args, kwargs)) else (args, kwargs)


def can_rerun(function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an op may be run once more, in another type.

    It is ATen's own, so that it only computes, and the same each time. What it is given as bytes may be the workspace
    that a forward kernel has left for its backward in the one type.
    """
    return (
        function.namespace == "aten"
        and torch.Tag.nondeterministic_seeded not in function.tags
        and all(map(is_plain, floating((args, kwargs))))
        and not any(isinstance(leaf, Tensor) and leaf.dtype is torch.uint8 for leaf in tree_leaves((args, kwargs)))
    )


def rerun(computed: Computed, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor] | None:
    """Return what an op gives in a wider type; None where it cannot be run in that."""
    with torch.no_grad(), contextlib.suppress(Exception):  # kernels refuse types by errors of any kind
        if args is computed.args:
            args, kwargs = widened(args, kwargs)
        returned = computed.function(*args, **kwargs)
        outputs = unique([*floating(returned), *written(computed.function, args, kwargs)])
        if [one.shape for one in outputs] == [one.shape for one in computed.outputs]:
            return outputs
    return None
