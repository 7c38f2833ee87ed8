"""The proof of plans by whole runs."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles
from time import perf_counter

from polycast.debug.progress import Progress
from polycast.debug.tuning.choices import FLOAT32, Key, can_lose, category, plan_of
from polycast.debug.tuning.losses import Check, Curve, Tolerance, final
from polycast.debug.tuning.runs import Program, Run
from polycast.policy.plan import Plan, shown
from polycast.policy.policy import Policy
from polycast.policy.sides import BUILT_IN_NAME

FLOAT32_NAME = "float32"
ROUNDS, FEWEST, CONTESTANTS = 9, 3, 3
"""Of the race: its rounds, the fewest that decide, and the plans beside the ends."""
ROUND_SECONDS, FEWEST_STEPS, MOST_STEPS = 0.5, 12, 500
"""Of a plan in a round of the race."""
SEARCH = 0.75  # the share of the budget for the search; the rest is for the race
_NAMED = 3  # of what is taken back so much is named
_RAISED = "it raised "
SPENT, INTERRUPTED = "the budget is spent", "it was interrupted"


class OutOfTimeError(Exception):
    """The budget is spent."""


@dataclass
class Trial:
    """A plan that was tried, and why."""

    name: str
    plan: Plan
    reason: str = ""
    runs: dict[int, Run] = field(default_factory=dict)
    """The whole runs by seed."""
    complaint: str = "it was not tried with all seeds"
    """Why the plan does not keep the loss; empty if it does."""
    rounds: list[float] = field(default_factory=list)
    """The seconds of a step in each round of the race."""

    @property
    def curves(self) -> dict[int, Curve]:
        """The losses of each step, by seed."""
        return {seed: run.losses for seed, run in self.runs.items()}

    @property
    def loss(self) -> float:
        """The final loss, as the mean over the seeds."""
        return fmean(map(final, self.curves.values())) if self.runs else float("nan")

    @property
    def seconds(self) -> float:
        """The seconds of a step: the median of the rounds, or of the seeds if there was no race."""
        times = self.rounds if len(self.rounds) >= FEWEST else [run.seconds for run in self.runs.values()]
        return median(times) if times else float("nan")

    @property
    def peak(self) -> int | None:
        """The peak of the memory in bytes, over all seeds."""
        return max((run.peak for run in self.runs.values() if run.peak is not None), default=None)

    def ratios(self, other: "Trial") -> tuple[float, float, float]:
        """Return how many times the time of another this takes: lower quartile, median, upper quartile.

        They are of pairs that ran one after the other: of the rounds of the race, or of the seeds if there was none.
        """
        pairs = [*zip(self.rounds, other.rounds, strict=False)]
        if len(pairs) < FEWEST:
            pairs = [(run.seconds, other.runs[seed].seconds) for seed, run in self.runs.items() if seed in other.runs]
        found = [mine / its for mine, its in pairs]
        low, middle, high = quantiles(found, n=4, method="inclusive") if len(found) > 1 else [*found, *found, *found]
        return low, middle, high


class Proof:
    """Whole runs of a program under plans, beside those in float32 and under the built-in policy.

    Args:
        program: What runs.
        seeds: What it runs with, at least one.
        times: How many times the spread over the seeds the loss may be higher; see :class:`Tolerance`.
        check: Replaces this comparison.
        budget: Seconds, after which no further run begins; None for as many as it takes.

    Raises:
        ValueError: The number of times is none, or negative.
        TypeError: The check cannot be called.
    """

    def __init__(
        self,
        program: Program,
        seeds: Sequence[int],
        times: float,
        check: Check | None,
        budget: float | None,
        progress: Progress,
    ) -> None:
        self.program, self.seeds, self.progress = program, seeds, progress
        self.float32 = Trial(FLOAT32_NAME, Plan(Policy(FLOAT32)))
        self.built_in = Trial(BUILT_IN_NAME, Plan())
        self.trials = [self.float32, self.built_in]
        self.stopped = ""
        """Why not all was tried; empty if all was."""
        if not isinstance(times, int | float) or not 0 <= times < math.inf:
            raise ValueError(f"the tolerance is {times!r:.60}; give how many times the spread, as in tolerance=1.0")
        if check is not None and not callable(check):
            raise TypeError(f"the check is {check!r:.60}; give a function of the losses of a plan and of float32")
        self._times, self._check = times, check
        self._budget = math.inf if budget is None else budget
        self._start = perf_counter()
        self._end = self._start + SEARCH * self._budget
        self._plans = 0

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """End what is inside when the budget is spent, or by Ctrl-C once float32 has run with one seed."""
        try:
            yield
        except OutOfTimeError:
            self.stopped = SPENT
        except KeyboardInterrupt:
            if not self.float32.runs:
                raise
            self.stopped = INTERRUPTED

    def begin(self) -> None:
        """Run float32 and the built-in policy in turn, which says what the tolerance is.

        Raises:
            ValueError: A loss of float32 is not finite.
        """
        self._expect(2 * len(self.seeds))
        for seed in self.seeds:
            self.float32.runs[seed] = run = self._timed(self.float32, seed)
            self.progress.say(
                f"{FLOAT32_NAME}, seed {seed}: loss {final(run.losses):.4g}, {run.seconds * 1e3:.4g} ms a step"
            )
            curve = {seed: self.float32.curves[seed]}
            if wrong := Tolerance(curve, self._times).complaint(curve):
                raise ValueError(f"{wrong} in float32, so there is no curve to compare with; mend the program first")
            self.tolerance = Tolerance(self.float32.curves, self._times, self._check)
            self.float32.complaint = ""
            if not self.built_in.complaint.startswith(_RAISED):
                self._attempt(self.built_in, seed)
        self._judge(self.built_in)

    def prove(self, plan: Plan, reason: str, keys: Sequence[Key]) -> None:
        """Try a plan. If it does not keep the loss, give float32 to parts of it, by halves, until it does.

        Args:
            plan: The plan.
            reason: Why it is one to try.
            keys: All that the program calls, the most suspect first.
        """
        self._plans += 1
        trial = self.tried(plan, f"plan {self._plans}", reason)
        if not trial.complaint:
            return
        suspects = [key for key in keys if can_lose(plan, key)]
        held = {key: category(plan, key) for key in keys}
        back, groups = set(suspects), _halves(suspects)
        while groups:
            group = groups.pop()
            rest = [key for key in suspects if key in back.difference(group)]
            less = plan_of({key: FLOAT32 if key in rest else held[key] for key in keys})
            names = [f"{key.op} in {shown(key.model, key.module)}" if key.model else key.op for key in rest]
            what = f"{', '.join(names[:_NAMED])}{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}"
            name = f"{trial.name}.{len(self.trials)}, {len(rest)} taken back"
            if self.tried(less, name, f"float32 for {what}").complaint:
                groups += _halves(group)
            else:
                back = {*rest}

    def race(self) -> None:
        """Time the fastest plans that keep the loss beside float32 and the built-in policy, in rounds, in turns."""
        ends = [self.float32, *([] if self.built_in.complaint else [self.built_in])]
        others = sorted((trial for trial in self.trials[2:] if not trial.complaint), key=self._ratio)
        raced = [*ends, *others[:CONTESTANTS]]
        steps = min(MOST_STEPS, max(FEWEST_STEPS, int(ROUND_SECONDS / self.float32.seconds)))
        self._expect(ROUNDS * len(raced))
        self._end = self._start + self._budget
        for number in range(ROUNDS if len(raced) > 1 else 0):
            seed = self.seeds[number % len(self.seeds)]
            for place in range(len(raced)):
                trial = raced[(place + number) % len(raced)]
                trial.rounds.append(self._timed(trial, seed, steps).seconds)

    def best(self) -> Trial:
        """Return the fastest plan that keeps the loss: float32 or the built-in one, unless another is faster than both
        by more than the noise, which is the quartiles of the rounds."""
        kept = [trial for trial in self.trials if not trial.complaint]
        if len(self.float32.rounds) >= FEWEST:
            kept = [trial for trial in kept if trial.rounds]
        ends = (self.float32, self.built_in)
        end = min((trial for trial in kept if trial in ends), key=self._ratio)
        faster = [trial for trial in kept if trial not in ends and trial.ratios(end)[2] < 1]
        return min(faster, key=self._ratio, default=end)

    def tried(self, plan: Plan, name: str, reason: str = "") -> Trial:
        """Run a plan with all seeds, until the first with which it does not keep the loss; return the trial."""
        for trial in self.trials:
            if trial.plan == plan:
                return trial
        self.trials.append(trial := Trial(name, plan, reason))
        self._expect(len(self.seeds))
        for seed in self.seeds:
            self._attempt(trial, seed)
            if trial.complaint.startswith(_RAISED) or self.tolerance.complaint(trial.curves):
                break
        self._judge(trial)
        return trial

    def _ratio(self, trial: Trial) -> float:
        """Return how many times the time of float32 a plan takes: a ratio is the same on a busy machine."""
        return trial.ratios(self.float32)[1]

    def _expect(self, runs: int) -> None:
        self.progress.expect(self.progress.done + runs)

    def _attempt(self, trial: Trial, seed: int) -> None:
        try:
            trial.runs[seed] = self._timed(trial, seed)
        except OutOfTimeError:
            raise
        except Exception as error:  # of the user's program, as an op refuses a dtype
            trial.complaint = _RAISED + f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.200}"

    def _judge(self, trial: Trial) -> None:
        if not trial.complaint.startswith(_RAISED):
            trial.complaint = self.tolerance.complaint(trial.curves)
        verdict = trial.complaint or f"keeps the loss, {trial.seconds * 1e3:.4g} ms a step"
        self.progress.say(f"{trial.name}{f' ({trial.reason})' if trial.reason else ''}: {verdict}")

    def _timed(self, trial: Trial, seed: int, steps: int | None = None) -> Run:
        if self.float32.runs and perf_counter() > self._end:  # but the first run is always made
            raise OutOfTimeError
        run = self.program.run(trial.plan, seed, steps)
        self.progress.advance()
        return run


def _halves(group: Sequence[Key]) -> list[Sequence[Key]]:
    """Return both halves of a group; nothing of a single one."""
    middle = len(group) // 2
    return [group[:middle], group[middle:]] if middle else []
