"""A comparison of a program in mixed precision with a reference run of the same program, op by op."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import nn

from polycast._text_table import lines_of
from polycast.debug.blame import LARGEST, capped, shares
from polycast.debug.calls import BACKWARD, LOWER, Site, dtype_name
from polycast.debug.compared_runs import ProgramRun, Ran, Result
from polycast.debug.program_state import ProgramState
from polycast.debug.random_numbers import RandomNumbers
from polycast.debug.search import minimal_sets
from polycast.debug.tensor_stats import most, read_numbers, relative_errors
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope import scopes
from polycast.torch_internals import disabled

_TRIES = 6  # at most this many rules are tried together


class Error(NamedTuple):
    """The largest error among the results of a call. Each error is relative to the norm of the correct result."""

    site: Site
    op: str
    """The op by its name in policies. A call in backward without a rule has the op whose gradient it computes."""
    dtypes: tuple[torch.dtype, ...]
    """The dtypes of the call's results."""
    local: float | None
    """The error that the op itself makes, compared with a second call of the op in float32 with the same inputs. None
    if the op cannot be called twice, such as a random op or an op of another library."""
    so_far: float | None
    """The accumulated error of the result, compared with the reference run. None for a cast, and if the reference run
    has no call at the same site with results of the same shapes."""
    before: float
    """The largest accumulated error among the inputs."""
    share: float
    """The share of the error of the program's results that the op causes, from 0 to 1."""


class Comparison(tuple[Error, ...]):
    """The errors of a run's ops, in call order. It prints as advice and a table of the ops with most of the error."""

    missing: int
    """The number of calls, except casts, without a counterpart of the same shapes in the reference run."""
    redrawn: list[Site]
    """Calls whose random numbers may differ in the reference run. The difference adds to the errors of later calls."""
    error: float
    """The error of the results of the program: its return values, or the values that no op reads, and its gradients.
    NaN if a result has no counterpart in the reference run."""
    policy: Policy | None
    """Rules that more than halve the error. None if none of the tried rules does."""
    error_under_policy: float
    """The error of the results in a run under ``policy``. The attribute is missing if ``policy`` is None."""

    def worst(self) -> list[Error]:
        """Return the errors, the largest share first. Among equal shares, the largest local error is first."""
        return sorted(self, key=lambda row: (row.share, capped(row.local or 0)), reverse=True)

    def table(self, count: int = 20) -> str:
        """Return a table with a line for each op of each module and phase, for the ``count`` largest shares."""
        groups: dict[tuple[str, str, str], list[Error]] = {}
        for row in self.worst():
            groups.setdefault((row.site.phase, row.site.module, row.op), []).append(row)
        order = sorted(groups, key=lambda key: sum(row.share for row in groups[key]), reverse=True)
        head = ("phase", "module", "op", "calls", "dtype", "share", "local", "so far", "given")
        return "\n".join(lines_of([head, *(_cells(key, groups[key]) for key in order[:count])]))

    def __str__(self) -> str:
        """Return the error of the results, the advice, and the ten lines of the table with the largest shares."""
        lines = [self._advice()]
        if not any(dtype in LOWER for row in self for dtype in row.dtypes):
            lines += ["no call returned float16 or bfloat16; if the program needs a region, enter the region in run"]
        if self.missing:
            lines += [f"{self.missing} of {len(self)} calls have no counterpart in the reference run"]
        if self.redrawn:
            count = f", and {len(self.redrawn) - 1} more" if len(self.redrawn) > 1 else ""
            drawn = "the reference may have drawn other random numbers, which adds to the errors below"
            lines += [f"{drawn}: {self.redrawn[0]}{count}"]
        return "\n".join([*lines, "", self.table(count=10)])

    def _advice(self) -> str:
        if math.isnan(self.error):
            return "error of the results: not measured, because a result has no counterpart in the reference run"
        error = f"error of the results: {self.error:.2g}"
        if self.policy is not None:
            rules = ", ".join(f'"{op}": "{category}"' for op, category in self.policy.rules.items())
            scale = "; a GradScaler may work as well" if self._is_underflow() else ""
            return f"{error}, and {self.error_under_policy:.2g} with polycast.Policy({{{rules}}}){scale}"
        if self.error <= _ordinary(self):
            return f"{error}, which is the rounding error of the dtype, so no rule is needed"
        return f"{error}; no rules of the ops below halve it: polycast.debug.bisect searches among all rules"

    def _is_underflow(self) -> bool:
        """Return whether the largest share is of a float16 gradient and the error is finite: a probable underflow."""
        row = self.worst()[0]
        return row.site.phase == BACKWARD and torch.float16 in row.dtypes and math.isfinite(self.error)


@disabled
def compare(
    run: Callable[[], object],
    model: nn.Module | None = None,
    *,
    reference: PolicyLike = "float32",
) -> Comparison:
    """Run a program as it is and under a reference policy, and return the errors of its ops.

    The result has the errors of the program's calls in forward and of autograd's calls in backward. Calls of the two
    runs are paired by phase, module, op and order. The results of both runs are in memory at once. If the error of the
    program's results exceeds rounding, the program runs again under rules for the ops with the largest shares of the
    error. The ``policy`` of the comparison has the rules that more than halve the error, if any.

    All runs start from the same random state (PyTorch's, Python's, NumPy's global one), buffers and gradients. At the
    end, ``compare`` sets them to their values after the first run. Later runs use the random numbers of the first run,
    including the numbers of dropout. Some kernels draw numbers themselves, such as attention with dropout on a GPU;
    ``redrawn`` lists their calls. Compiled code is not compared.

    An error is relative to the norm of the result in the reference run.

    Args:
        run: A function that runs the program with its regions: forward, and backward to compare gradients. The results
            are the tensors that it returns (if none, the values that no op reads), and the gradients. Each call must
            run the same ops on the same batch. It must not step an optimizer, because weights are not restored.
        model: The model whose module names identify the calls. Its buffers and gradients are restored. Without a model,
            a program with backward must set gradients to None itself; otherwise they add up from run to run.
        reference: A value for :class:`polycast.Policy`. It overrides all other policies in the reference run. "float32"
            sets float32 for every op that the built-in policy lists.

    Raises:
        ValueError: If the reference is an unknown name, or the rules of the reference have problems.
        TypeError: If ``run`` is a module or cannot be called, the model is not a module, or the reference not a policy.
        RuntimeError: If the program changed a weight of the model, or if a debug tool already records calls.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        >>> @polycast.autocast("cpu")
        ... def run():
        ...     model(torch.ones(2, 4))
        >>> errors = polycast.debug.compare(run, model)
        >>> [(row.site.module, row.so_far < 0.02) for row in errors if row.site.op in ("linear", "tanh")]
        [('0', True), ('1', True)]
    """
    if not callable(run) or isinstance(run, nn.Module):
        got = f"the module {type(run).__name__}" if isinstance(run, nn.Module) else f"{run!r:.60}"
        raise TypeError(f"run: expected a function without arguments, got {got}; pass one, as in lambda: model(inputs)")
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"model: expected a torch.nn.Module or None, got {type(model).__name__}; pass the model")
    policy, numbers = Policy(reference), RandomNumbers()
    before = ProgramState(model)
    first = ProgramRun(run, model, numbers, measures=True)
    before.check_weights()
    after = ProgramState(model)
    ends = first.ends()

    def again(rules: Policy) -> ProgramRun:
        before.restore()
        with scopes.over(rules):
            return ProgramRun(run, model, numbers)

    try:
        expected = again(policy)
        comparison = _comparison(first, expected, ends)
        expected.keep([first.calls[index].site for index, _ in ends])

        @cache
        def error_under(*ops: str) -> float:
            with contextlib.suppress(Exception):  # any exception means that a kernel rejects a dtype
                rules = Policy(dict.fromkeys(ops, "fp32"))
                return _error(_squares(first, ends, _errors(again(rules), expected)))
            return math.inf

        if comparison.error > _ordinary(comparison):
            _try_rules(comparison, _candidates(comparison, first.calls), error_under)
    finally:
        after.restore()
    return comparison


def _errors(run: ProgramRun, expected: ProgramRun) -> dict[Site, list[list[float]]]:
    """Return the errors and norms of the results of each call, except casts, that both runs made with equal shapes."""
    errors = {
        site: error
        for site, ran in run.by_site.items()
        if not ran.is_cast and site in expected.by_site
        if (error := relative_errors(ran.results, expected.by_site[site].results)) is not None
    }
    return dict(zip(errors, read_numbers([*errors.values()]), strict=True))


def _squares(
    first: ProgramRun, ends: Sequence[Result], errors: Mapping[Site, list[list[float]]]
) -> dict[Result, float]:
    """Return the square of the error of each result of the program. All gradients count as one vector."""
    found = {}
    for end in ends:
        site = first.calls[end[0]].site
        error, norm = (part[end[1]] for part in errors[site]) if site in errors else (LARGEST, 1.0)
        found[end] = site.phase == BACKWARD, capped(error), capped(norm)
    whole = sum(norm**2 for is_gradient, _, norm in found.values() if is_gradient)
    return {
        end: error**2 * (norm**2 / whole if is_gradient and whole else 1)
        for end, (is_gradient, error, norm) in found.items()
    }


def _error(squares: Mapping[Result, float]) -> float:
    total = sum(squares.values())
    return math.sqrt(total) if total < LARGEST**2 else math.inf


def _comparison(first: ProgramRun, expected: ProgramRun, ends: Sequence[Result]) -> Comparison:
    made = iter(read_numbers([ran.local for ran in first.calls if ran.local is not None]))
    read = _errors(first, expected)
    befores: list[float] = []
    for ran in first.calls:
        ran.error, norm = (None, 0.0) if ran.local is None else next(made)
        befores.append(most([0.0, *(first.calls[index].errors[number] for index, number in ran.inputs)]))
        count = len(ran.dtypes)
        unread = [[math.hypot(befores[-1], ran.error or 0)] * count, [norm] * count]
        ran.errors, ran.norms = read.get(ran.site, unread)
    squares = _squares(first, ends, read)
    rows = []
    for ran, before, share in zip(first.calls, befores, shares(first.calls, squares), strict=True):
        so_far = most(ran.errors) if ran.site in read else None
        rows.append(Error(ran.site, ran.op, ran.dtypes, ran.error, so_far, before, share))
    comparison = Comparison(rows)
    comparison.missing = sum(not ran.is_cast and ran.site not in read for ran in first.calls)
    comparison.redrawn = expected.redrawn
    is_measured = all(first.calls[index].site in read for index, _ in ends)
    comparison.error, comparison.policy = _error(squares) if is_measured else math.nan, None
    return comparison


def _candidates(comparison: Comparison, calls: Sequence[Ran]) -> list[str]:
    """Return the ops whose rules may lower the error, the most likely first."""
    found: Counter[str] = Counter()
    for row, ran in zip(comparison, calls, strict=True):
        if ran.to_rule is not None and any(dtype in LOWER for dtype in row.dtypes):
            found[ran.to_rule] += row.share  # type: ignore[assignment]
    return [op for op, _ in found.most_common(_TRIES)]


def _try_rules(comparison: Comparison, candidates: Sequence[str], error_under: Callable[..., float]) -> None:
    """Find rules for few ops that more than halve the error, and store them in the comparison."""
    least, enough = error_under(*candidates), _ordinary(comparison)
    if least < comparison.error / 2:
        bound = min(max(1.5 * least, enough), comparison.error / 2)
        ops = next(minimal_sets(candidates, lambda chosen, *_: error_under(*chosen) <= bound))
        comparison.policy = Policy(dict.fromkeys(ops, "fp32"))
        comparison.error_under_policy = error_under(*ops)


def _ordinary(comparison: Comparison) -> float:
    """Return twice the largest epsilon of a run's lower precisions: errors up to it count as rounding."""
    return max(
        (2 * torch.finfo(dtype).eps for row in comparison for dtype in row.dtypes if dtype in LOWER), default=0.0
    )


def _cells(key: tuple[str, str, str], rows: Sequence[Error]) -> tuple[str, ...]:
    dtypes = ", ".join(dict.fromkeys(dtype_name(dtype) for row in rows for dtype in row.dtypes))
    made = [row.local for row in rows if row.local is not None]
    so_far = [row.so_far for row in rows if row.so_far is not None]
    numbers = (f"{most(errors):.2g}" if errors else "" for errors in (made, so_far, [row.before for row in rows]))
    return (*key, str(len(rows)), dtypes, f"{sum(row.share for row in rows):.0%}", *numbers)
