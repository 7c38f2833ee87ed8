"""A comparison of a program in mixed precision with a reference run of the same program, op by op."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polycast._text_table import lines_of
from polycast.debug.calls import LOWER, Site, dtype_name
from polycast.debug.observer import Contents, Observer, Op
from polycast.debug.ops import by_name, draws_within, is_cast, is_draw, is_view
from polycast.debug.program_state import ProgramState
from polycast.debug.tensor_stats import local, locals_of, moved_by_rounding, read_numbers, relative_errors
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope import scopes
from polycast.torch_internals import disabled

_TOOL = "polycast.debug.compare"


class Error(NamedTuple):
    """The error of an op's result, relative to the norm of the correct result; of several results the worst."""

    site: Site
    dtypes: tuple[torch.dtype, ...]
    """The dtypes of its results."""
    local: float | None
    """Against the same op in a wider dtype with the same inputs: the error that the op itself makes. None for an op
    that cannot be run twice, such as a random op."""
    so_far: float | None
    """Against the reference run: the error that has accumulated until here. None if the reference has no such call."""
    before: float
    """The largest error so far among its inputs."""


class Comparison(tuple[Error, ...]):
    """The errors of a run's ops, in the order of the calls; it prints as the worst of them."""

    missing: int
    """How many calls of one run the other does not have."""
    redrawn: list[Site]
    """Calls whose kernels drew other random numbers in the reference run. Errors below them come from these as well."""

    def worst(self) -> list[Error]:
        """Return the errors that have a counterpart, sorted by growth: by how much `so_far` exceeds `before`.

        Non-finite results come first.
        """
        known = [(row.so_far - row.before, row) for row in self if row.so_far is not None]
        known.sort(key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0], reverse=True)
        return [row for _, row in known]

    @property
    def first_non_finite(self) -> Error | None:
        """The first call whose result is non-finite where the reference's is not."""
        return next((row for row in self if row.so_far is not None and not math.isfinite(row.so_far)), None)

    def table(self, count: int = 20) -> str:
        """Return a line for each of the worst errors."""
        head = ("phase", "module", "op", "call", "dtype", "local", "so far", "given")
        return "\n".join(lines_of([head, *(_cells(row) for row in self.worst()[:count])]))

    def __str__(self) -> str:
        """Return where errors grow, the worst ten, and the first non-finite result."""
        lines = [f"{len(self)} calls, {self.missing} without a counterpart; errors relative to the result"]
        if not any(dtype in LOWER for row in self for dtype in row.dtypes):
            lines += ["no call returned float16 or bfloat16: does the program open its region itself?"]
        if self.redrawn:
            count = f", and {len(self.redrawn) - 1} more" if len(self.redrawn) > 1 else ""
            lines += [
                f"the reference may have drawn other random numbers, whose errors are below: {self.redrawn[0]}{count}"
            ]
        lines += ["", "where errors grow, next to what was given:", self.table(count=10)]
        if (first := self.first_non_finite) is not None:
            lines += ["", f"the first that is not finite: {first.site}"]
        return "\n".join(lines)


@disabled
def compare(
    run: Callable[[], object],
    model: nn.Module | None = None,
    *,
    reference: PolicyLike = "float32",
) -> Comparison:
    """Run a program twice, as it is and under a reference policy, and return the errors of its ops.

    The ops are those below autograd and autocast, in forward and backward, without casts. Ops of the two runs belong
    together if they have the same phase, module, name and number. The results of the first run are held until the
    second run has computed them too. Both runs start from the same random state (torch's, Python's, NumPy's global
    one), buffers and gradients; afterwards these are as the first run left them. Compiled code is not seen. The second
    run gets the random numbers of the first, dropout's too. Numbers that a kernel draws for itself, as attention with
    dropout does on a GPU, cannot be given to it; the result names such calls.

    An error is relative to the norm of the correct result. A sum whose terms cancel except for their rounding is zero
    in theory, as the gradient of a bias before a normalization: its error is relative to its terms.

    Args:
        run: The program, with its regions: forward, and backward if that is of interest. It must do the same each
            time that it is called, with the same batch, and must not call an optimizer, because weights are not
            restored.
        model: Calls are named after its modules. Its buffers and gradients are restored.
        reference: A value for :class:`polycast.Policy`. In the second run it takes precedence over all other policies.
            "float32" runs every op that the built-in policy lists in float32.

    Raises:
        ValueError: If the reference is an unknown name.
        TypeError: If the program is not a function, the model not a module, or the reference not a policy.
        RuntimeError: If the program changed a weight of the model (unseen without a model), or if a trace or a watch is
            active.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        >>> @polycast.autocast("cpu")
        ... def run():
        ...     model(torch.ones(2, 4))
        >>> errors = polycast.debug.compare(run, model)
        >>> [(row.site.module, row.so_far < 0.02) for row in errors if row.site.op in ("addmm", "tanh")]
        [('0', True), ('1', True)]
    """
    if not callable(run) or isinstance(run, nn.Module):
        what = f"the module {type(run).__name__}" if isinstance(run, nn.Module) else f"{run!r:.60}"
        raise TypeError(f"the program is {what}; give a function without arguments, as in: lambda: model(inputs)")
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"model: expected a torch.nn.Module or None, got {type(model).__name__}")
    policy = Policy(reference)
    before, first = ProgramState(model), _FirstRun()
    with Observer(_TOOL, model, first.visit):
        run()
    before.check_weights()
    after, second = ProgramState(model), _SecondRun(first)
    try:
        before.restore()
        with Observer(_TOOL, model, second.visit), scopes.over(policy):
            run()
    finally:
        after.restore()
    return _comparison(first, second)


class _Ran(NamedTuple):
    """An op that has run."""

    site: Site
    dtypes: tuple[torch.dtype, ...]
    local: Tensor | None
    inputs: tuple[tuple[int, int], ...]
    """The results that it was computed from: indices of ops, and of their results."""


class _FirstRun:
    """The run that is looked at: its results are held, and each op runs a second time in a wider dtype."""

    def __init__(self) -> None:
        self.ops: list[_Ran] = []
        self.results: dict[Site, list[Tensor]] = {}
        self.masks: dict[Site, Tensor] = {}
        self._contents: Contents[tuple[int, int]] = Contents()

    def visit(self, op: Op) -> None:
        if is_cast(op.function) or is_view(op.function):
            self._contents.follow(op)
            return
        inputs = self._contents.of(*op.reads())
        wider = op.in_wider_dtype()
        op.run()
        outputs = {tensor: part for tensor in op.outputs if (part := local(tensor)) is not None}
        if not outputs:
            return
        for index, tensor in enumerate(outputs):
            self._contents.write(tensor, (len(self.ops), index))
        if _is_dropout(op):
            self.masks[op.site] = op.result[1].clone()
        errors = None if wider is None else relative_errors([*outputs.values()], locals_of(wider))
        self.results[op.site] = [part.clone() for part in outputs.values()]
        dtypes = tuple(tensor.dtype for tensor in outputs)
        self.ops.append(_Ran(op.site, dtypes, None if errors is None else errors.max(), inputs))


class _SecondRun:
    """The reference run: each result is compared at once, and the first run's is released."""

    def __init__(self, first: _FirstRun) -> None:
        self.errors: dict[Site, list[Tensor]] = {}
        self.missing = 0
        self.redrawn: list[Site] = []
        self._first = first

    def visit(self, op: Op) -> None:
        op.run()
        if is_cast(op.function) or is_view(op.function) or not (results := locals_of(op.outputs)):
            return
        if is_draw(op.function):
            self._draw_again(op.site, results)
        elif _is_dropout(op):
            self._drop_again(op)
        elif draws_within(op.function, op.args, op.kwargs):
            self.redrawn.append(op.site)
        errors = relative_errors(self._first.results.pop(op.site, []), results, moved_by_rounding(op, results))
        if errors is None:
            self.missing += 1
        else:
            self.errors[op.site] = [*errors.unbind()]

    @torch.no_grad()
    def _draw_again(self, site: Site, results: list[Tensor]) -> None:
        held = self._first.results.get(site, [])
        if [one.shape for one in held] == [one.shape for one in results]:
            for result, first in zip(results, held, strict=True):
                result.copy_(first)

    @torch.no_grad()
    def _drop_again(self, op: Op) -> None:
        held, (output, mask) = self._first.masks.get(op.site), op.result
        if held is not None and held.shape == mask.shape:
            given = by_name(op.function, op.args, op.kwargs)
            drawn_first = given["input"] * held / max(1 - given["p"], torch.finfo(output.dtype).tiny)
            # Elements that both runs keep or drop stay as the kernel has rounded them.
            output.copy_(torch.where(mask == held, output, drawn_first))
            mask.copy_(held)


def _is_dropout(op: Op) -> bool:
    """Return whether an op is dropout in one kernel, and drops something."""
    return op.function._schema.name == "aten::native_dropout" and draws_within(op.function, op.args, op.kwargs)


def _comparison(first: _FirstRun, second: _SecondRun) -> Comparison:
    scalars = [op.local for op in first.ops if op.local is not None]
    scalars += [error for errors in second.errors.values() for error in errors]
    numbers = iter(read_numbers(scalars))
    locals_ = [None if op.local is None else next(numbers) for op in first.ops]
    so_far = {site: [next(numbers) for _ in errors] for site, errors in second.errors.items()}
    rows: list[Error] = []
    for op, own in zip(first.ops, locals_, strict=True):
        given = [
            so_far[maker.site][index] if (maker := first.ops[number]).site in so_far else rows[number].before
            for number, index in op.inputs
        ]
        mine = _largest(so_far[op.site]) if op.site in so_far else None
        rows.append(Error(op.site, op.dtypes, own, mine, _largest([0.0, *given])))
    comparison = Comparison(rows)
    comparison.missing = second.missing + sum(row.so_far is None for row in rows)
    comparison.redrawn = second.redrawn
    return comparison


def _largest(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def _cells(row: Error) -> tuple[str, ...]:
    dtypes = ", ".join(dict.fromkeys(map(dtype_name, row.dtypes)))
    numbers = ("" if size is None else f"{size:.2g}" for size in (row.local, row.so_far, row.before))
    return (row.site.phase, row.site.module, row.site.op, str(row.site.n), dtypes, *numbers)
