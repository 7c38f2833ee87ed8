"""The errors of mixed precision, op by op, against another run of the same program."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polycast.debug.errors import Comparison, Error
from polycast.debug.program_state import ProgramState
from polycast.debug.values import (
    Computed,
    Contents,
    Site,
    Values,
    before_rerun,
    can_rerun,
    draws_within,
    floating,
    is_cast,
    is_draw,
    is_empty,
    is_view,
    local,
    named,
    read_arguments,
    read_numbers,
    rerun,
    rounded,
    written,
)
from polycast.policy.policy import Policy
from polycast.scope import scopes

FLOAT32 = "float32"
# How much of itself a sum may change by where its terms are rounded to bfloat16: float32 does not know more of it.
KNOWN = 2.0**8


def compare(
    run: Callable[[], object],
    *,
    model: nn.Module | None = None,
    reference: str | os.PathLike[str] | Policy = FLOAT32,
) -> Comparison:
    """Run a program twice, as it is and under a reference policy, and return the errors of its ops.

    Calls of ops are those below autograd and autocasting, in forward, backward and steps, without casts; those of the
    two runs that have the same number in their module belong together. The results of the first run are held until
    the second comes to them. Both start from the same random state (torch's, Python's, NumPy's global one), buffers and
    gradients, and the first one's remain. Compiled code is not seen. Random numbers are drawn once: the second run
    takes those of the first, dropout's too. What a kernel draws for itself, as attention with dropout does on a GPU,
    cannot be given to it; the result names such calls.

    An error is relative to the norm of what the result should be. A sum whose terms cancel but for their rounding, as
    in the gradient of a bias before a normalization, is zero in theory: its error is relative to its terms.

    Args:
        run: The program, with its regions: forward, and backward where that is of interest. It does the same each time
            that it is called, with the same batch, and takes no step, since weights are not put back.
        model: Whose modules calls are named after, and whose buffers and gradients are put back.
        reference: "float32": every op that the policy lists runs in it. Or a policy that decides over all others, or a
            file that :func:`record` wrote, of another policy or another torch.

    Raises:
        ValueError: The reference is neither "float32" nor a file, or one whose modules have other names.
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
    recorded = {} if path is None else _load(path, of_model=model is not None)
    with ProgramState(model) as state:
        first = _First(model)
        with first.values:
            run()
        held = {one.site: one.results for one in first.ops}
        if path is not None:
            second = _Second(model, held, {})
            for site, (results, moved) in recorded.items():
                second.meet(Site(*site), results, moved)
        else:
            state.put_back()
            second = _Second(model, held, first.masks)
            with second.values, scopes.over(policy):
                run()
    return _comparison(first, second)


def record(run: Callable[[], object], path: str | os.PathLike[str], *, model: nn.Module | None = None) -> None:
    """Run a program once and write the results of its ops to a file, as a reference for :func:`compare`.

    Args:
        run: As for compare.
        path: The file. It is as large as all results together.
        model: As for compare, which needs it if this has it.

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
        first = _First(model, is_reference=True)
        with first.values:
            run()
    results = {
        tuple(one.site): ([result.cpu() for result in one.results], None if one.moved is None else one.moved.cpu())
        for one in first.ops
    }
    torch.save({"of_model": model is not None, "results": results}, path)


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
                f"the reference '{os.fspath(reference)}' is neither '{FLOAT32}' nor a file of polycast.record; a "
                "release or a file of rules goes in as a policy: polycast.Policy.load(...)"
            )
        return Policy(), Path(reference)
    raise TypeError(f"the reference is {reference!r:.60}; give '{FLOAT32}', a polycast.Policy, or a file")


def _load(path: Path, *, of_model: bool) -> dict[tuple[str, str, str, int], tuple[list[Tensor], Tensor | None]]:
    try:
        recorded = torch.load(path, weights_only=True)
        results, has_names = recorded["results"], recorded["of_model"]
    except Exception as error:  # unpicklers raise anything
        raise ValueError(f"'{path}' is no file of polycast.record: {str(error).splitlines()[0]:.100}") from None
    if has_names is not of_model:
        how = ("with", "without") if has_names else ("without", "with")
        raise ValueError(
            f"'{path}' was recorded {how[0]} a model and is compared {how[1]} one, so that modules have other names; "
            "give both the model, or neither"
        )
    return results  # type: ignore[no-any-return]


class _Op(NamedTuple):
    site: Site
    types: tuple[torch.dtype, ...]
    results: list[Tensor]
    local: Tensor | None
    moved: Tensor | None
    inputs: tuple[tuple[int, int], ...]
    """The ops, by their numbers, and which of their results this one was given."""


class _First:
    """The run that is looked at: its results are held, and each op is run again in a wider type.

    As a reference, which is not run again, it knows of each op how far rounding moves its sums.
    """

    def __init__(self, model: nn.Module | None, *, is_reference: bool = False) -> None:
        self.ops: list[_Op] = []
        self.masks: dict[Site, Tensor] = {}
        self._is_reference = is_reference
        self._contents: Contents[tuple[int, int]] = Contents()
        self.values = Values(model, self._visit, self._before)

    def _before(self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        read = floating(read_arguments(function, args, kwargs))
        inputs = tuple(dict.fromkeys(made for tensor in read for made in self._contents.of(tensor)))
        if self._is_reference or _is_left_out(function) or not can_rerun(function, args, kwargs):
            return inputs, None
        return inputs, before_rerun(function, args, kwargs)

    def _visit(self, computed: Computed, kept: Any) -> None:
        inputs, wide = kept
        if _is_left_out(computed.function):
            # What it returns holds what it was given, and so its errors.
            for tensor in computed.outputs:
                self._contents.write(tensor, *(() if is_empty(computed.function) else inputs))
            return
        outputs = {tensor: part for tensor in computed.outputs if (part := local(tensor)) is not None}
        if not outputs:
            return
        for place, tensor in enumerate(outputs):
            self._contents.write(tensor, (len(self.ops), place))
        if _is_dropout(computed):
            self.masks[computed.site] = computed.result[1].clone()
        expected = None if wide is None else rerun(computed, *wide)
        error = None if expected is None else _errors(_locals(computed.outputs), _locals(expected)).max()
        types = tuple(tensor.dtype for tensor in outputs)
        results = [part.clone() for part in outputs.values()]
        moved = _moved(computed, results) if self._is_reference else None
        self.ops.append(_Op(computed.site, types, results, error, moved, inputs))


class _Second:
    """The reference run: each result is compared as it comes, and let go."""

    def __init__(self, model: nn.Module | None, held: dict[Site, list[Tensor]], masks: dict[Site, Tensor]) -> None:
        self.errors: dict[Site, list[Tensor]] = {}
        self.missing = 0
        self.redrawn: list[Site] = []
        self._held = held
        self._masks = masks
        self.values = Values(model, self._visit)

    def _visit(self, computed: Computed, _: object) -> None:
        if not _is_left_out(computed.function) and (results := _locals(computed.outputs)):
            if is_draw(computed.function):
                self._draw_again(computed.site, results)
            elif _is_dropout(computed):
                self._drop_again(computed)
            elif draws_within(computed.function, computed.args, computed.kwargs):
                self.redrawn.append(computed.site)
            self.meet(computed.site, results, _moved(computed, results))

    @torch.no_grad()
    def _draw_again(self, site: Site, results: list[Tensor]) -> None:
        held = self._held.get(site, [])
        if [one.shape for one in held] == [one.shape for one in results]:
            for result, first in zip(results, held, strict=True):
                result.copy_(first)

    @torch.no_grad()
    def _drop_again(self, computed: Computed) -> None:
        held, (output, mask) = self._masks.get(computed.site), computed.result
        if held is not None and held.shape == mask.shape:
            given = named(computed.function, computed.args, computed.kwargs)
            mask.copy_(held)
            output.copy_(given["input"] * held / max(1 - given["p"], torch.finfo(output.dtype).tiny))

    def meet(self, site: Site, expected: list[Tensor], moved: Tensor | None) -> None:
        """Compare the results of a call with those that are held of it."""
        results = self._held.pop(site, None)
        if results is None or [one.shape for one in results] != [one.shape for one in expected]:
            self.missing += 1
            return
        others = [other.to(one.device) for one, other in zip(results, expected, strict=True)]
        self.errors[site] = list(_errors(results, others, moved).unbind())


def _is_dropout(computed: Computed) -> bool:
    """Whether an op is dropout in one kernel, and drops something."""
    name = computed.function._schema.name
    return name == "aten::native_dropout" and draws_within(computed.function, computed.args, computed.kwargs)


def _locals(tensors: list[Tensor]) -> list[Tensor]:
    return [part for part in map(local, tensors) if part is not None]


def _is_left_out(function: torch._ops.OpOverload) -> bool:
    return is_cast(function) or is_view(function)


def _comparison(first: _First, second: _Second) -> Comparison:
    scalars = [op.local for op in first.ops if op.local is not None]
    scalars += [error for errors in second.errors.values() for error in errors]
    numbers = iter(read_numbers(scalars))
    local = [None if op.local is None else next(numbers) for op in first.ops]
    so_far = {site: [next(numbers) for _ in errors] for site, errors in second.errors.items()}
    rows: list[Error] = []
    for op, own in zip(first.ops, local, strict=True):
        given = [
            so_far[maker.site][place] if (maker := first.ops[number]).site in so_far else rows[number].before
            for number, place in op.inputs
        ]
        mine = so_far.get(op.site)
        rows.append(Error(op.site, op.types, own, None if mine is None else _largest(mine), _largest([0.0, *given])))
    comparison = Comparison(rows)
    comparison.missing = second.missing + sum(row.so_far is None for row in rows)
    comparison.redrawn = second.redrawn
    return comparison


def _largest(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors)


@torch.no_grad()
def _moved(computed: Computed, results: list[Tensor]) -> Tensor | None:
    """Return how far the results that sum up what an op was given move where that is rounded; 0 for its others.

    None for what has no such result, and for what cannot be run again.
    """
    function, args, kwargs = computed.function, computed.args, computed.kwargs
    most = max((tensor.numel() for tensor in floating((args, kwargs))), default=0)
    if all(result.numel() >= most for result in results) or not can_rerun(function, args, kwargs):
        return None
    if any(True for _ in written(function, args, kwargs)):
        return None
    again = rerun(computed, *rounded(args, kwargs))
    if again is None:
        return None
    moves = []
    for one, two in zip(results, _locals(again), strict=True):
        is_sum, is_finite = one.numel() < most, one.isfinite() & two.isfinite()
        moves.append(_norm(torch.where(is_finite, one - two, 0)) * is_sum)
    return torch.stack(moves)


@torch.no_grad()
def _errors(results: list[Tensor], expected: list[Tensor], moved: Tensor | None = None) -> Tensor:
    """Return the relative error of each result, by its norm, on their device.

    Of what is not finite in what is expected, the same is no error, and all else an infinite one.
    """
    errors = []
    for place, (result, other) in enumerate(zip(results, expected, strict=True)):
        kind = torch.float64 if torch.float64 in (result.dtype, other.dtype) else torch.float32
        one, right = result.to(kind), other.to(kind)
        same = (one == right) | (one.isnan() & right.isnan())
        off = torch.where(same, 0, one - right)
        off = _norm(torch.where(off.isnan(), math.inf, off))
        size = _norm(torch.where(right.isfinite(), right, 0))
        if moved is not None:
            move = moved[place].to(size)
            size = torch.where(move > KNOWN * size, KNOWN * move, size)
        errors.append(torch.where(off == 0, 0, off / torch.where(size == 0, 1, size)))
    return torch.stack(errors)


def _norm(values: Tensor) -> Tensor:
    """Return the norm of what may be too large to be squared."""
    wide = values if values.dtype is torch.float64 else values.float()
    most = torch.linalg.vector_norm(wide, math.inf)  # XLA's amax() reduces nothing
    by = torch.where((most > 0) & most.isfinite(), most, 1)
    norm: Tensor = torch.linalg.vector_norm(wide / by) * by
    return norm
