"""bisect: finds the rules that make a program bad."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import ceil, log2
from pathlib import Path
from typing import Any

from torch import nn

from polycast._suggest import suggestion
from polycast.debug.bisection.log import Log, Run
from polycast.debug.bisection.result import Bisection
from polycast.debug.bisection.search import minimal_sets
from polycast.debug.bisection.switches import Between, Switch, Trial
from polycast.policy.policy import Policy, PolicyLike
from polycast.policy.sides import BUILT_IN_NAME
from polycast.policy.sources import is_file
from polycast.scope.assignment import assign
from polycast.scope.process import use

GOOD, SKIP, MOST = 0, 125, 127  # as for git bisect run


def bisect(
    check: Callable[[], object],
    good: PolicyLike = "fp32",
    bad: PolicyLike = BUILT_IN_NAME,
    repeat: int = 1,
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] = lambda _: None,
    *,
    model: nn.Module | None = None,
) -> Bisection:
    """Find a smallest set of rules that makes a program bad.

    The program runs under rules between those of a good policy and a bad one. Single ops have those of the one or of
    the other; with a model, single ops in single modules of it. Each set that is found is minimal: with any one of its
    rules as in `good`, and all that are not in the set, the program is good. Sets are looked for until the program is
    good with the rules of all of them as in `good`, and all others as in `bad`.

    Args:
        check: Runs the program, and returns a true value if it is good, a false one if it is bad. An exception of its
            own is bad, too. It must do the same each time, so it seeds random numbers itself, and makes its model anew
            if it trains it.
        good: A policy under which the program is good: what :func:`polycast.use` takes, or "built-in".
        bad: A policy under which it is bad.
        repeat: How often the program runs under the same rules, until a run is bad. For a program that fails in a share
            p of its runs, bad rules are taken for good with a probability of (1 - p) ** repeat: 0.8 % for one in three
            and 12 runs.
        log: A file to which each run is written. If it has runs of the same search, these are not run again: so a
            search that was interrupted goes on where it was.
        progress: Called with a line after each run.
        model: The model that the program runs, or copies of which it runs. Its modules are given rules by
            :func:`polycast.assign` during a run.

    Returns:
        The rules, others under which the program is good, and the number of runs. It prints as a table.

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
        >>> found = polycast.debug.bisect(check, model=model)
        >>> [(culprit.op, culprit.module) for culprit in found.culprits]
        [('linear', '0')]
    """

    def run(trial: Trial) -> Run:
        start = time.perf_counter()
        with ExitStack() as stack:
            stack.enter_context(use(trial.policy))
            if model is not None:
                stack.enter_context(assign(model, trial.modules))
            try:
                result = check()
                said = f"check returned {result!r:.60}"
            except Exception as error:
                result, said = False, f"check raised {type(error).__name__}: {error}"
        if result is None:
            raise TypeError("check returned None; return a true value if the program is good, and else a false one")
        return Run(int(not result), time.perf_counter() - start, said)

    search = {"check": getattr(check, "__qualname__", "check")}
    path = None if log is None else Path(log)
    return Bisecting(run, good, bad, repeat, path, search, progress, model=model).run()


class Bisecting:
    """A search for the rules that make a program bad.

    Args:
        run: Runs the program under some rules.
        good: The policy under which it is good.
        bad: The one under which it is bad.
        repeat: How often the program runs under the same rules, until a run is bad.
        log: The file where each run is written, if any.
        search: What the log must say of the search beside the rules and the number of runs.
        say: Called with a line after each run.
        model: The model whose modules are given rules. None searches whole ops.
        killed_is_bad: Whether a status above 127 is bad, and does not end the search.

    Raises:
        ValueError: An argument is wrong, or the log is that of another search.
    """

    def __init__(
        self,
        run: Callable[[Trial], Run],
        good: PolicyLike,
        bad: PolicyLike,
        repeat: int,
        log: Path | None,
        search: dict[str, Any],
        say: Callable[[str], object],
        *,
        model: nn.Module | None = None,
        killed_is_bad: bool = False,
    ) -> None:
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise ValueError(f"the program is to run {repeat!r} times; give 1 or more")
        self._good, self._bad = ends_of(good, bad)
        digests = {"the digest of good": self._good.digest, "the digest of bad": self._bad.digest}
        self._log = Log(log, {**search, "repeat": repeat, **digests})
        self._run, self._repeat, self._say, self._killed_is_bad = run, repeat, say, killed_is_bad
        self._model = model
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
            ValueError: The program is not good under "good" or not bad under "bad".
        """
        self._end("good", self._good)
        self._end("bad", self._bad)
        between = Between(self._good, self._bad, self._model)
        switches = between.switches

        def is_bad(chosen: Sequence[Switch], among: int) -> bool:
            self._among = among
            what = f"{chosen[0]} alone" if len(chosen) == 1 else f"{len(chosen)} of {len(switches)} rules"
            return self._try(between.rules({*switches} - {*chosen}), f"{what} as in bad")[0] is True

        for group in minimal_sets(switches, is_bad):
            self._found.append(group)
        trial = between.rules([switch for group in self._found for switch in group])
        is_bad_still, _ = self._try(trial, "all but the culprits as in bad", again=True)
        culprits = (between.culprit(switch, number) for number, group in enumerate(self._found) for switch in group)
        return Bisection((*culprits,), *trial, self._runs, len(switches), is_bad_still is False)

    def _end(self, side: str, policy: Policy) -> None:
        """Check an end."""
        is_bad, run = self._try(Trial(policy, {}), side)
        if is_bad is None:
            raise ValueError(f'"{side}" cannot be tested: {run.said}')
        if is_bad is not (side == "bad"):
            remedy = (
                "; it must fail there, and obey the rules of the process, as what imports polycast does (if it fails "
                "only sometimes, run it more often: repeat=12 or --repeat 12)"
                if side == "bad" and self._repeat == 1
                else ""
            )
            raise ValueError(f'"{side}" is {"bad" if is_bad else "good"}{remedy}: {run.said}')

    def _try(self, trial: Trial, what: str, *, again: bool = False) -> tuple[bool | None, Run]:
        """Return whether the program is bad under some rules, or None if that cannot be tested; and its last run."""
        digest = trial.digest
        if digest in self._tried and not again:
            return self._tried[digest]
        is_bad: bool | None = False
        for _ in range(self._repeat):
            run = self._log.replay(digest)
            if run is None:
                run = self._run(trial)
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
            line += f"{known}; {self._among} rules left, at least {left} more to try, {seconds:.0f} s"
        return line


def ends_of(good: PolicyLike, bad: PolicyLike) -> tuple[Policy, Policy]:
    """Return the policies that two values stand for, "built-in" for the built-in policy.

    Raises:
        ValueError: One stands for none, or both for the same.
    """
    ends = _policy_of(good), _policy_of(bad)
    if ends[0] == ends[1]:
        raise ValueError('"good" and "bad" are the same policy; give two that differ')
    return ends


def _policy_of(value: PolicyLike) -> Policy:
    if isinstance(value, str) and value == BUILT_IN_NAME:
        return Policy()
    if isinstance(value, str) and not is_file(value) and (close := suggestion(value, [BUILT_IN_NAME])):
        raise ValueError(f"there is no policy '{value}'{close}")
    return Policy(value)
