"""The errors of mixed precision, op by op, against another run of the same program."""

import math
from collections.abc import Callable

from torch import nn

from polycast.debug.comparison import Comparison
from polycast.debug.measure import Error, read_numbers
from polycast.debug.program_state import ProgramState
from polycast.debug.runs import First, Second
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope import scopes
from polycast.scope.compiled_code import disabled

FLOAT32 = "float32"


@disabled
def compare(
    run: Callable[[], object],
    model: nn.Module | None = None,
    *,
    reference: PolicyLike = FLOAT32,
) -> Comparison:
    """Run a program twice, as it is and under a reference policy, and return the errors of its ops.

    The ops are those below autograd and autocasting, in forward and backward, without casts. Ops of the two runs belong
    together where they have the same phase, module, name and number. The results of the first run are held until the
    second comes to them. Both start from the same random state (torch's, Python's, NumPy's global one), buffers and
    gradients; what the first run leaves of these remains. Compiled code is not seen. The second run takes the random
    numbers of the first, dropout's too. Numbers that a kernel draws for itself, as attention with dropout does on a
    GPU, cannot be given to it; the result names such calls.

    An error is relative to the norm of what the result should be. A sum whose terms cancel but for their rounding is
    zero in theory, as the gradient of a bias before a normalization: its error is relative to its terms.

    Args:
        run: The program, with its regions: forward, and backward where that is of interest. It must do the same each
            time that it is called, with the same batch, and take no step, since weights are not put back.
        model: Calls are named after its modules. Its buffers and gradients are put back.
        reference: What :class:`polycast.Policy` takes: it decides over all other policies in the second run. "float32"
            runs every op that the built-in policy lists in float32.

    Raises:
        ValueError: The reference is none of these.
        TypeError: The program is no function, the model no module, or no policy can be made of the reference.
        RuntimeError: The program changed a weight of the model. Without a model this is not seen.

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
    _check(run, model)
    policy = Policy(reference)
    with ProgramState(model) as state:
        first = First(model)
        with first.values:
            run()
        second = Second(model, first)
        state.put_back()
        with second.values, scopes.over(policy):
            run()
    return _comparison(first, second)


def _check(run: object, model: object) -> None:
    if not callable(run) or isinstance(run, nn.Module):
        what = f"the module {type(run).__name__}" if isinstance(run, nn.Module) else f"{run!r:.60}"
        raise TypeError(f"the program is {what}; give a function without arguments, as in: lambda: model(inputs)")
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"model: expected a torch.nn.Module or None, got {type(model).__name__}")


def _comparison(first: First, second: Second) -> Comparison:
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
        mine = _largest(so_far[op.site]) if op.site in so_far else None
        rows.append(Error(op.site, op.dtypes, own, mine, _largest([0.0, *given])))
    comparison = Comparison(rows)
    comparison.missing = second.missing + sum(row.so_far is None for row in rows)
    comparison.redrawn = second.redrawn
    return comparison


def _largest(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors)
