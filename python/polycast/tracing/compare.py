"""The errors of mixed precision, op by op, against another run of the same program."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakIdKeyDictionary

from polycast import scopes
from polycast.patch import Policy
from polycast.tracing.errors import Comparison, Error
from polycast.tracing.program_state import ProgramState
from polycast.tracing.values import Computed, Site, Values, floating, is_cast, is_view, read_numbers, written

LOWER = (torch.float16, torch.bfloat16)
FLOAT32 = "float32"


def compare(
    run: Callable[[], object],
    *,
    model: nn.Module | None = None,
    reference: str | os.PathLike[str] | Policy = FLOAT32,
) -> Comparison:
    """Run a program twice, as it is and under a reference policy, and return the errors of its ops.

    Calls of ops are those below autograd and autocasting, in forward, backward and steps, without casts; those of the
    two runs that have the same number in their module belong together. The results of the first run are held until
    the second comes to them. Both start from the same random state, buffers and gradients, and the first one's remain.
    Compiled code is not seen.

    Args:
        run: The program, with its regions: forward, and backward where that is of interest. It should not step, since
            weights are not put back.
        model: Whose modules calls are named after, and whose buffers and gradients are put back.
        reference: "float32": every op that the policy lists runs in it. Or a policy that decides over all others, or a
            file that :func:`record` wrote, of another policy or another torch.

    Raises:
        ValueError: The reference is neither "float32" nor a file.
        TypeError: The program cannot be called, the model is no module, or the reference is none of these.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        >>> @polycast.autocast("cpu")
        ... def run():
        ...     model(torch.ones(2, 4))
        >>> errors = polycast.compare(run, model=model)
        >>> [(row.site.module, row.so_far < 0.02) for row in errors if row.site.op in ("addmm", "tanh")]
        [('0', True), ('1', True)]
    """
    _check(run, model)
    policy, path = _reference(reference)
    with ProgramState(model) as state:
        first = _First(model, local=True)
        with first.values:
            run()
        held = {one.site: one.results for one in first.ops}
        if path is not None:
            second = _Second(model, held)
            for site, results in torch.load(path, weights_only=True).items():
                second.meet(Site(*site), results)
        else:
            state.put_back()
            second = _Second(model, held)
            with second.values:
                scopes.run_in(scopes.Scope(over=policy), run)
    return _comparison(first, second)


def record(run: Callable[[], object], path: str | os.PathLike[str], *, model: nn.Module | None = None) -> None:
    """Run a program once and write the results of its ops to a file, as a reference for :func:`compare`.

    Args:
        run: As for compare.
        path: The file. It is as large as all results together.
        model: As for compare.

    Example:
        >>> import torch, polycast, tempfile
        >>> model = torch.nn.Linear(2, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     polycast.record(lambda: model(torch.ones(1, 2)), f"{folder}/run.pt", model=model)
        ...     errors = polycast.compare(lambda: model(torch.ones(1, 2)), model=model, reference=f"{folder}/run.pt")
        >>> max(row.so_far for row in errors)
        0.0
    """
    _check(run, model)
    with ProgramState(model):
        first = _First(model, local=False)
        with first.values:
            run()
    torch.save({tuple(one.site): [result.cpu() for result in one.results] for one in first.ops}, path)


def _check(run: object, model: object) -> None:
    if not callable(run):
        raise TypeError(f"the program is {run!r:.60}; give a function without arguments")
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"the model is {model!r:.60}; give a torch.nn.Module, or none for the names of classes")


def _reference(reference: object) -> tuple[Policy, Path | None]:
    if isinstance(reference, Policy):
        return reference, None
    if reference == FLOAT32:
        return Policy.everywhere(FLOAT32), None
    if isinstance(reference, str | os.PathLike):
        if not Path(reference).is_file():
            raise ValueError(
                f"the reference '{os.fspath(reference)}' is neither '{FLOAT32}' nor a file of polycast.record"
            )
        return Policy(), Path(reference)
    raise TypeError(f"the reference is {reference!r:.60}; give '{FLOAT32}', a polycast.Policy, or a file")


class _Op(NamedTuple):
    site: Site
    types: tuple[torch.dtype, ...]
    results: list[Tensor]
    local: Tensor | None
    inputs: tuple[int, ...]


class _First:
    """The run that is looked at: its results are held, and each op is run again in a wider type."""

    def __init__(self, model: nn.Module | None, *, local: bool) -> None:
        self.ops: list[_Op] = []
        self._local = local
        self._made: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
        self.values = Values(model, self._visit, self._before)

    def _before(self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = tuple({self._made[tensor] for tensor in floating((args, kwargs)) if tensor in self._made})
        wide = None
        if self._local and not _is_left_out(function) and torch.Tag.nondeterministic_seeded not in function.tags:
            wide = _widened(args, kwargs) if any(True for _ in written(function, args, kwargs)) else (args, kwargs)
        return inputs, wide

    def _visit(self, computed: Computed, kept: Any) -> None:
        inputs, wide = kept
        if is_cast(computed.function) or is_view(computed.function):
            # What it returns holds what it was given, and so its errors.
            for tensor in computed.outputs:
                if inputs:
                    self._made[tensor] = max(inputs)
            return
        if not computed.outputs:
            return
        for tensor in computed.outputs:
            self._made[tensor] = len(self.ops)
        local = None if wide is None else _local_error(computed, *wide)
        types = tuple(tensor.dtype for tensor in computed.outputs)
        results = [tensor.detach().clone() for tensor in computed.outputs]
        self.ops.append(_Op(computed.site, types, results, local, inputs))


class _Second:
    """The reference run: each result is compared as it comes, and let go."""

    def __init__(self, model: nn.Module | None, held: dict[Site, list[Tensor]]) -> None:
        self.errors: dict[Site, Tensor] = {}
        self.missing = 0
        self._held = held
        self.values = Values(model, self._visit)

    def _visit(self, computed: Computed, _: object) -> None:
        if not _is_left_out(computed.function) and computed.outputs:
            self.meet(computed.site, computed.outputs)

    def meet(self, site: Site, expected: list[Tensor]) -> None:
        """Compare the results of a call with those that are held of it."""
        results = self._held.pop(site, None)
        if results is None or [one.shape for one in results] != [one.shape for one in expected]:
            self.missing += 1
            return
        pairs = ((one, other.to(one.device)) for one, other in zip(results, expected, strict=True))
        self.errors[site] = _worst(pairs)


def _is_left_out(function: torch._ops.OpOverload) -> bool:
    return is_cast(function) or is_view(function)


def _comparison(first: _First, second: _Second) -> Comparison:
    scalars = [op.local for op in first.ops if op.local is not None] + list(second.errors.values())
    numbers = iter(read_numbers(scalars))
    local = [None if op.local is None else next(numbers) for op in first.ops]
    so_far = dict(zip(second.errors, numbers, strict=True))
    rows: list[Error] = []
    for op, own in zip(first.ops, local, strict=True):
        before = max((rows[place].so_far or 0.0 for place in op.inputs), default=0.0)
        rows.append(Error(op.site, op.types, own, so_far.get(op.site), before))
    comparison = Comparison(rows)
    comparison.missing = second.missing + sum(row.so_far is None for row in rows)
    return comparison


def _widened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in the next wider type than the narrowest of theirs, as copies."""
    kinds = {tensor.dtype for tensor in floating((args, kwargs))}
    wide = torch.float32 if kinds & {*LOWER} else torch.float64

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            copied = leaf.detach().clone()
            return copied.to(wide) if leaf.is_floating_point() and leaf.dtype is not torch.float64 else copied
        return wide if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf

    return tree_map(widen, args), tree_map(widen, kwargs)


def _local_error(computed: Computed, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Return what an op's results differ by from those in a wider type; None where it cannot be run in that."""
    if args is computed.args:
        args, kwargs = _widened(args, kwargs)
    with torch.no_grad(), contextlib.suppress(RuntimeError, NotImplementedError, TypeError):
        returned = computed.function(*args, **kwargs)
        expected = [*floating(returned), *written(computed.function, args, kwargs)]
        unique = list({id(tensor): tensor for tensor in expected}.values())
        if [one.shape for one in unique] == [one.shape for one in computed.outputs]:
            return _worst(zip(computed.outputs, unique, strict=True))
    return None


@torch.no_grad()
def _worst(pairs: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the largest relative error of tensors, each by its norm, on their device."""
    errors = []
    for result, expected in pairs:
        kind = torch.float64 if torch.float64 in (result.dtype, expected.dtype) else torch.float32
        one, other = result.detach().to(kind), expected.detach().to(kind)
        size = torch.linalg.vector_norm(other)
        off = torch.linalg.vector_norm(torch.where(one == other, 0, one - other))
        errors.append(torch.where(off == 0, 0, off / torch.where(size == 0, 1, size)).to(torch.float32))
    return torch.stack(errors).max()  # amax() of everything reduces nothing on XLA
