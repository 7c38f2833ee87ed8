"""A policy for one program, on one device: proposed by evidence, proved by whole runs."""

import re
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from typing import Any

import torch

from polycast._calls import called_as
from polycast._dtypes import dtype_of
from polycast.debug.calls import LOWER, text
from polycast.debug.progress import Progress
from polycast.debug.tuning.choices import Key
from polycast.debug.tuning.evidence import Evidence
from polycast.debug.tuning.losses import Check
from polycast.debug.tuning.proof import INTERRUPTED, Proof
from polycast.debug.tuning.propose import propose
from polycast.debug.tuning.runs import Step, Training
from polycast.debug.tuning.tuned import Tuned, facts_here, measured, with_notes

SEEDS = 5
TOLERANCE = 1.0
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


@called_as("polycast.debug.tune(make, batches), where make() returns a function step(batch) -> loss of a new model")
def tune(
    make: Callable[[], Step],
    batches: Iterable[Any],
    *,
    dtype: torch.dtype | str = torch.bfloat16,
    check: Check | None = None,
    tolerance: float = TOLERANCE,
    seeds: int | Iterable[int] = SEEDS,
    steps: int | None = None,
    budget: float | str | None = None,
    data: str = "",
) -> Tuned:
    """Find the fastest policy for a program on this device whose loss stays with that of float32, and prove it.

    First one pass gathers what each op in each module is given, what the lower precision makes of it, and its time in
    each precision. From this evidence come plans. Each plan then runs the program as a whole for several seeds, beside
    float32 and the built-in policy. Where a plan does not keep the loss, parts of it are taken back to float32, by
    halves, until it does. Last, the fastest are timed in turns. The result is float32 or the built-in policy, unless a
    plan is faster than both by more than the noise.

    Ctrl-C ends it with the best that is proved until then; before float32 has run it is a KeyboardInterrupt. What the
    program raises under a plan speaks against that plan; what it raises in float32 is raised.

    Args:
        make: Called after ``torch.manual_seed(seed)`` for each run. It makes a model and an optimizer, and returns a
            function that takes a batch, trains on it, and returns the loss: a tensor with one element, or a number. The
            step opens its autocast region itself, and uses its scaler. Policies of its regions and modules hold in all
            runs, also in float32.
        batches: What every run is given, in order; it is read once. The step gets copies, which it may change,
            of all that Python can copy.
        dtype: The lower precision of the step's region.
        check: Called with the losses of a plan and those of float32 for the same seed; returns whether the former are
            good enough. Without it see `tolerance`.
        tolerance: How much higher than in float32 the final loss and the mean of the losses may be, over all seeds: as
            many times the spread. The spread is the standard deviation over the seeds in float32, at least 1 % of the
            loss. The final loss is the mean of the last tenth of the steps.
        seeds: One run each; a number stands for as many.
        steps: How many batches a run takes, beginning anew if there are fewer; None for all batches.
        budget: Seconds, or text such as "90s", "10min" or "1h"; None for as long as it takes.
        data: What the batches are, in your words, for the file of rules.

    Raises:
        ValueError: There are no batches or seeds, a loss of float32 is not finite, or an argument is wrong.
        TypeError: `make` returns no function, the step no number, or `check` None; or an argument is wrong.

    Example:
        >>> import torch, polycast
        >>> def make():
        ...     model = torch.nn.Linear(8, 8)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     def step(batch):
        ...         optimizer.zero_grad()
        ...         with torch.autocast("cpu"):
        ...             loss = model(batch).square().mean()
        ...         loss.backward()
        ...         optimizer.step()
        ...         return loss
        ...     return step
        >>> tuned = polycast.debug.tune(make, [torch.ones(4, 8)] * 4, seeds=[0, 1], budget="20s")
        >>> tuned.name in ("tuned", "float32", "built-in")
        True
    """
    if not isinstance(data, str):
        raise TypeError(f"data is {data!r:.60}; say in words what the batches are")
    lower, program = lower_precision(dtype), Training(make, batches_of(batches, steps))
    proof = Proof(program, seeds_of(seeds), tolerance, check, seconds_of(budget), Progress("tune"))
    return searched(proof, lower, {"data": data} if data else {})


def searched(proof: Proof, dtype: torch.dtype, told: dict[str, Any]) -> Tuned:
    """Prove what the evidence proposes, and return the best with its evidence and facts."""
    found: list[Evidence] = []
    with proof.progress:
        with proof.until_stopped():
            proof.progress.say("the evidence is gathered from the first steps, in float32")
            found = proof.program.evidence(proof.seeds[0], dtype)
            proof.begin()
            for candidate in propose(found, dtype):
                proof.prove(candidate.plan, candidate.reason, keys_of(found))
        if proof.stopped != INTERRUPTED:
            with proof.until_stopped():
                proof.race()
    best = proof.best()
    # The rules of float32 stay, too, for the ops that the evidence did not see: it is of a few steps.
    plan = best.plan | with_notes(best.plan, found)
    facts = {**facts_here(found), "dtype": text(dtype), **told, **measured(proof, best)}
    return Tuned(plan, tuple(proof.trials), best, facts, proof.stopped)


def lower_precision(dtype: torch.dtype | str) -> torch.dtype:
    """Return the lower precision of a program.

    Raises:
        ValueError: It is none.
        TypeError: It is no dtype.
    """
    found = dtype_of(dtype)
    if found not in LOWER:
        raise ValueError(f"the dtype is {text(found)}; give a lower precision, float16 or bfloat16")
    return found


def keys_of(found: Iterable[Evidence]) -> list[Key]:
    """Return the ops of the evidence, those with the greatest danger first."""
    worst = sorted(found, key=lambda one: (one.overflow, max(one.error, one.rounding)), reverse=True)
    return [one.key for one in worst]


def seconds_of(budget: float | str | None) -> float | None:
    """Return the seconds of a budget.

    Raises:
        ValueError: It is no time.
    """
    if budget is None:
        return None
    found = re.fullmatch(r"([\d.]+) *([a-z]*)", str(budget).strip().lower())
    try:
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    except (KeyError, ValueError):
        seconds = 0.0
    if seconds <= 0:
        raise ValueError(f"the budget is {budget!r:.60}; give seconds, or text such as '90s', '10min' or '1h'")
    return seconds


def seeds_of(seeds: int | Iterable[int]) -> list[int]:
    """Return the seeds as a list; a number stands for as many.

    Raises:
        ValueError: There are none.
        TypeError: They are no whole numbers.
    """
    given: Any = range(seeds) if isinstance(seeds, int) else seeds
    found: list[Any] = [*given] if isinstance(given, Iterable) else [None]
    if not all(isinstance(seed, int) for seed in found):
        raise TypeError(f"the seeds are {seeds!r:.60}; give whole numbers, as in seeds=range(5)")
    if not found:
        raise ValueError("there are no seeds; give one for each run, as in seeds=range(5)")
    return found


def batches_of(batches: Iterable[Any], steps: int | None) -> list[Any]:
    """Return the batches of a run.

    Raises:
        ValueError: There are none, or nobody knows how many.
        TypeError: They are no batches.
    """
    if not isinstance(batches, Iterable):
        raise TypeError(f"the batches are {batches!r:.60}; give a list of what step(batch) takes")
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        raise ValueError(f"steps is {steps!r:.60}; give the number of batches of a run, 1 or more")
    if steps is None and not hasattr(batches, "__len__"):
        raise ValueError("the batches have no length; say how many a run takes, as in steps=100")
    found = [*islice(batches, steps)]
    if not found:
        raise ValueError("there are no batches; give those that a run trains on, as in batches=[...]")
    return [*islice(cycle(found), steps or len(found))]
