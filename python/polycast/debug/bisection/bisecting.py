"""bisect: finds the rules that make a program bad."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import ceil, log2
from pathlib import Path
from typing import Any

from polycast._suggest import suggestion
from polycast.debug.bisection.log import Log, Run
from polycast.debug.bisection.result import Bisection
from polycast.debug.bisection.search import minimal_sets
from polycast.debug.bisection.switches import Between, Switch
from polycast.debug.distinct_calls import DistinctCalls
from polycast.policy.plan import Plan, PlanLike
from polycast.policy.sides import BUILT_IN_NAME
from polycast.policy.sources import is_file
from polycast.scope.process import use

GOOD, SKIP, MOST = 0, 125, 127  # as for git bisect run


def bisect(
    check: Callable[[], object],
    good: PlanLike = "fp32",
    bad: PlanLike = BUILT_IN_NAME,
    repeat: int = 1,
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Bisection:
    """Find a smallest set of rules that makes a program bad.

    The program runs under plans between a good one and a bad one, which differ in the rules of single ops in single
    modules. Each set that is found is minimal: with any one of its rules as in `good`, and all that are not in the set,
    the program is good. Sets are looked for until the program is good with the rules of all of them as in `good`, under
    the plan `bad` else. Where the calls of ops are not seen, as in compiled code and in other threads, the search is
    for whole ops.

    Args:
        check: Runs the program, and returns a true value if it is good, a false one if it is bad. An exception of its
            own is bad, too. It must do the same each time, so it seeds random numbers itself, and makes its model anew
            if it trains it.
        good: A plan under which the program is good: what :func:`polycast.use` takes, or "built-in".
        bad: A plan under which it is bad.
        repeat: How often each plan is run, until a run is bad. For a program that fails in a share p of its runs, a bad
            plan is taken for good with a probability of (1 - p) ** repeat: 0.8 % for one in three and 12 runs.
        log: A file to which each run is written. If it has runs of the same search, these are not run again: so a
            search that was interrupted goes on where it was.
        progress: Called with a line after each run.

    Returns:
        The rules, a plan under which the program is good, and the number of runs. It prints as a table.

    Raises:
        ValueError: The program is bad under `good`, or good under `bad`; or the log is that of another search.
        TypeError: `check` returns None.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
        >>> for weight in model.parameters():
        ...     _ = torch.nn.init.constant_(weight, 1e-3)
        >>> def check():
        ...     with polycast.autocast("cpu", torch.float16):
        ...         return model(torch.full((1, 4), 1e6)).isfinite().all()
        >>> found = polycast.debug.bisect(check)
        >>> [(culprit.op, culprit.module) for culprit in found.culprits]
        [('linear', 'Sequential.0')]
    """

    def run(plan: Plan, find_calls: bool) -> Run:
        calls, start = DistinctCalls(), time.perf_counter()
        with use(plan), calls if find_calls else nullcontext():
            try:
                result = check()
                said = f"check returned {result!r:.60}"
            except Exception as error:
                result, said = False, f"check raised {type(error).__name__}: {error}"
        if result is None:
            raise TypeError("check returned None; return a true value if the program is good, and else a false one")
        return Run(int(not result), time.perf_counter() - start, said, [*calls.found] if find_calls else None)

    search = {"check": getattr(check, "__qualname__", "check")}
    return Bisecting(run, good, bad, repeat, None if log is None else Path(log), search, progress).run()


class Bisecting:
    """A search for the rules that make a program bad.

    Args:
        run: Runs the program under a plan, and also finds its calls if they are asked for.
        good: The plan under which it is good.
        bad: The one under which it is bad.
        repeat: How often each plan is run, until a run is bad.
        log: The file where each run is written, if any.
        search: What the log must say of the search beside the rules and the number of runs.
        say: Called with a line after each run.
        killed_is_bad: Whether a status above 127 is bad, and does not end the search.

    Raises:
        ValueError: An argument is wrong, or the log is that of another search.
    """

    def __init__(
        self,
        run: Callable[[Plan, bool], Run],
        good: PlanLike,
        bad: PlanLike,
        repeat: int,
        log: Path | None,
        search: dict[str, Any],
        say: Callable[[str], object],
        *,
        killed_is_bad: bool = False,
    ) -> None:
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise ValueError(f"each plan is to run {repeat!r} times; give 1 or more")
        self._good, self._bad = ends_of(good, bad)
        digests = {"the digest of good": self._good.digest, "the digest of bad": self._bad.digest}
        self._log = Log(log, {**search, "repeat": repeat, **digests})
        self._run, self._repeat, self._say, self._killed_is_bad = run, repeat, say, killed_is_bad
        self._tried: dict[str, tuple[bool | None, Run]] = {}
        self._found: list[list[Switch]] = []
        self._among = 0  # how many switches the next culprit is, if that is known
        self._runs, self._seconds = 0, 0.0

    @property
    def is_searching(self) -> bool:
        """Whether both ends are as they should be."""
        return self._among > 0

    def run(self) -> Bisection:
        """Search, prove what was found, and return it.

        Raises:
            ValueError: The program is not good under "good" or not bad under "bad", or no rule decides.
        """
        between = self._between([self._end("good", self._good), self._end("bad", self._bad)])
        switches = between.switches

        def is_bad(chosen: Sequence[Switch], among: int) -> bool:
            self._among = among
            what = f"{chosen[0]} alone" if len(chosen) == 1 else f"{len(chosen)} of {len(switches)} rules"
            return self._try(between.plan({*switches} - {*chosen}), f"{what} as in bad")[0] is True

        for group in minimal_sets(switches, is_bad):
            self._found.append(group)
        plan = between.plan([switch for group in self._found for switch in group])
        is_bad_still, _ = self._try(plan, "all but the culprits as in bad", again=True)
        culprits = tuple(switch.culprit(number) for number, group in enumerate(self._found) for switch in group)
        return Bisection(culprits, plan, self._runs, len(switches), is_bad_still is False)

    def _end(self, side: str, plan: Plan) -> Run:
        """Check an end; return its last run."""
        is_bad, run = self._try(plan, side, find_calls=True)
        if is_bad is None:
            raise ValueError(f'"{side}" cannot be tested: {run.said}')
        if is_bad is not (side == "bad"):
            remedy = (
                "; it must fail there (if it fails only sometimes, run each plan more often: repeat=12 or --repeat 12)"
                if side == "bad" and self._repeat == 1
                else ""
            )
            raise ValueError(f'"{side}" is {"bad" if is_bad else "good"}{remedy}: {run.said}')
        return run

    def _between(self, ends: Sequence[Run]) -> Between:
        """Return the plans between the ends. If the calls that were seen do not decide, whole ops are switched."""
        for calls in dict.fromkeys(call for run in ends for call in run.calls or ()), None:
            between = Between(self._good, self._bad, calls)
            if between.switches:
                is_bad, run = self._try(between.plan(between.switches), "all rules of its calls as in good")
                if is_bad is False:
                    return between
        if not between.switches:
            raise ValueError('"good" and "bad" have different rules for modules alone, and the calls of none were seen')
        raise ValueError(
            f"with all rules of ops as in good, it is not good: {run.said}\n"
            "The program must be the same each time, and obey the rules of the process."
        )

    def _try(self, plan: Plan, what: str, *, find_calls: bool = False, again: bool = False) -> tuple[bool | None, Run]:
        """Return whether the program is bad under a plan, or None if that cannot be tested; and its last run."""
        digest = plan.digest
        if digest in self._tried and not again:
            return self._tried[digest]
        is_bad: bool | None = False
        for _ in range(self._repeat):
            run = self._log.replay(digest)
            if run is None:
                run = self._run(plan, find_calls)
                self._log.add(digest, run)
            self._runs += 1
            self._seconds += run.seconds
            if run.status > MOST and not self._killed_is_bad:
                raise ValueError(f"a run under {what} was killed; --killed-is-bad takes that for bad: {run.said}")
            is_bad = None if run.status == SKIP else run.status != GOOD
            self._tried[digest] = is_bad, run
            self._say(self._line(what, is_bad, run.seconds))
            if is_bad is not False:
                break
        return self._tried[digest]

    def _line(self, what: str, is_bad: bool | None, seconds: float) -> str:
        how = "cannot be tested" if is_bad is None else "bad" if is_bad else "good"
        line = f"run {self._runs}: {what}: {how}, {seconds:.1f} s"
        if self._among:
            left = ceil(log2(self._among)) + 1
            known = "".join(f"; found {' and '.join(map(str, group))}" for group in self._found)
            seconds = left * self._seconds / len(self._tried)
            line += f"{known}; {self._among} rules left, at least {left} more plans, {seconds:.0f} s"
        return line


def ends_of(good: PlanLike, bad: PlanLike) -> tuple[Plan, Plan]:
    """Return the plans that two values stand for, "built-in" for the built-in policy.

    Raises:
        ValueError: One stands for none, or both for the same.
    """
    ends = _plan_of(good), _plan_of(bad)
    if ends[0] == ends[1]:
        raise ValueError('"good" and "bad" are the same policy; give two that differ')
    return ends


def _plan_of(value: PlanLike) -> Plan:
    if isinstance(value, str) and value == BUILT_IN_NAME:
        return Plan()
    if isinstance(value, str) and not is_file(value) and (close := suggestion(value, [BUILT_IN_NAME])):
        raise ValueError(f"there is no policy '{value}'{close}")
    return Plan.of(value)
