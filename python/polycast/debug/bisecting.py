"""A bisection: the search for the rules that make a program bad."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from polycast._text_table import lines_of
from polycast.debug.bisect_log import Log, Run
from polycast.debug.candidate_policies import Candidate, CandidatePolicies, Switch
from polycast.debug.search import minimal_sets
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope.assignment import assign
from polycast.scope.process import use

BUILT_IN = "built-in"
_GOOD, _SKIP, _MOST = 0, 125, 127  # as for git bisect run


class Culprit(NamedTuple):
    """A rule that makes the program bad."""

    op: str
    module: str
    """The module that calls the op, by its name in the model: "encoder.0"; "" for the model itself, for calls outside
    of it, and if no model was given."""
    good: str
    """Its category in "good"."""
    bad: str
    """Its category in "bad"."""
    group: int
    """The rules of one group make the program bad only together."""


@dataclass(frozen=True)
class Bisection:
    """The rules that make a program bad. It prints as a table."""

    culprits: tuple[Culprit, ...]
    """The rules. Each group is minimal: without any one of its rules the program is good."""
    policy: Policy
    """The "bad" policy with the culprits outside of modules as in "good"."""
    modules: dict[str, Policy]
    """The rules of modules that go with it, for :func:`polycast.assign`."""
    runs: int
    """How often the program ran."""
    switches: int
    """How many rules of ops differ between "good" and "bad", counted in each module of the model."""
    proved: bool
    """Whether the last run, under these rules, was good."""

    def __str__(self) -> str:
        """Return the table, and the number of runs."""
        groups: dict[int, list[str]] = {}
        for one in self.culprits:
            groups.setdefault(one.group, []).append(str(Switch(one.op, one.module)))
        rows: list[tuple[str, ...]] = [("op", "module", "good", "bad"), *(one[:4] for one in self.culprits)]
        if not any(one.module for one in self.culprits):
            rows = [(op, *categories) for op, _, *categories in rows]
        together = [f"{', '.join(names[:-1])} and {names[-1]}" for names in groups.values() if len(names) > 1]
        return "\n".join(
            [
                *lines_of(rows),
                "",
                *(f"{names} fail only together." for names in together),
                f"{self.runs} runs for {self.switches} rules that differ.",
                f"With these rules as in good, the last run was {'good' if self.proved else 'not good'}.",
            ]
        )


def bisect(
    check: Callable[[], object],
    good: PolicyLike = "fp32",
    bad: PolicyLike = BUILT_IN,
    repeat: int = 1,
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] = lambda _: None,
    *,
    model: nn.Module | None = None,
) -> Bisection:
    """Find a smallest set of rules that makes a program bad.

    The program runs under candidates between a good policy and a bad one: single ops have the rule of one or of the
    other; with a model, single ops in single modules of it. Each set that is found is minimal: with any one of its
    rules as in `good`, and all that are not in the set, the program is good. Sets are searched until the program is
    good with the rules of all of them as in `good`, and all others as in `bad`.

    Args:
        check: Runs the program, and returns a true value if it is good, a false one if it is bad. An exception is bad
            as well. It must do the same each time, so it seeds random numbers itself, and makes its model again if it
            trains it.
        good: A policy under which the program is good: a value for :func:`polycast.use`, or "built-in".
        bad: A policy under which it is bad.
        repeat: How often the program runs under the same rules, until a run is bad. If a program fails in a share p of
            its runs, bad rules count as good with a probability of (1 - p) ** repeat: 0.8 % for one in three and 12
            runs.
        log: A file to which each run is written. If it has runs of the same search, these are not run again, so an
            interrupted search continues.
        progress: Called with a line after each run.
        model: The model that the program runs, or copies of which it runs. Its modules are given rules by
            :func:`polycast.assign` during a run.

    Returns:
        The rules, others under which the program is good, and the number of runs. It prints as a table.

    Raises:
        ValueError: If the program is bad under `good`, or good under `bad`; or if the log is that of another search.
        TypeError: If `check` returns None.

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

    def run(candidate: Candidate) -> Run:
        start = time.perf_counter()
        with ExitStack() as stack:
            stack.enter_context(use(candidate.policy))
            if model is not None:
                stack.enter_context(assign(model, candidate.modules))
            try:
                result = check()
                message = f"check returned {result!r:.60}"
            except Exception as error:
                result, message = False, f"check raised {type(error).__name__}: {error}"
        if result is None:
            raise TypeError("check returned None; return a true value if the program is good, and else a false one")
        return Run(int(not result), time.perf_counter() - start, message)

    search = {"check": getattr(check, "__qualname__", "check")}
    return Search(run, good, bad, repeat, None if log is None else Path(log), search, progress, model).run()


class Search:
    """The search of a bisection.

    Args:
        run: Runs the program under a candidate.
        good, bad, repeat, progress, model: As for `bisect`.
        path: The log, if any.
        search: What the log must have about the search, in addition to the rules and the number of runs.

    Raises:
        ValueError: If an argument is wrong, or the log is that of another search.
    """

    def __init__(
        self,
        run: Callable[[Candidate], Run],
        good: PolicyLike,
        bad: PolicyLike,
        repeat: int,
        path: Path | None,
        search: dict[str, Any],
        progress: Callable[[str], object],
        model: nn.Module | None = None,
    ) -> None:
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise ValueError(f"the program is to run {repeat!r} times; give 1 or more")
        self._good, self._bad = (Policy(None if end == BUILT_IN else end) for end in (good, bad))
        if self._good == self._bad:
            raise ValueError('"good" and "bad" are the same policy; give two that differ')
        digests = {"the digest of good": self._good.digest, "the digest of bad": self._bad.digest}
        self._log = Log(path, {**search, "repeat": repeat, **digests})
        self._run, self._repeat, self._progress, self._model = run, repeat, progress, model
        self._tried: dict[str, tuple[bool | None, Run]] = {}
        self._among = 0  # the number of switches among which the next culprit is, once that is known
        self._runs = 0

    @property
    def is_searching(self) -> bool:
        """Whether both ends are as they should be."""
        return self._among > 0

    def run(self) -> Bisection:
        """Search, run the program under the result, and return it.

        Raises:
            ValueError: If the program is not good under "good" or not bad under "bad".
        """
        self._check_end("good", self._good)
        self._check_end("bad", self._bad)
        policies = CandidatePolicies(self._good, self._bad, self._model)
        switches = policies.switches

        def is_bad(chosen: Sequence[Switch], among: int) -> bool:
            self._among = among
            what = f"{chosen[0]} alone" if len(chosen) == 1 else f"{len(chosen)} of {len(switches)} rules"
            return self._try(policies.candidate({*switches} - {*chosen}), f"{what} as in bad")[0] is True

        groups = [*minimal_sets(switches, is_bad)]
        candidate = policies.candidate([switch for group in groups for switch in group])
        is_bad_still, _ = self._try(candidate, "all except the culprits as in bad", again=True)
        culprits = (
            Culprit(*switch, *policies.categories(switch.op), number)
            for number, group in enumerate(groups)
            for switch in group
        )
        return Bisection((*culprits,), *candidate, self._runs, len(switches), is_bad_still is False)

    def _check_end(self, end: str, policy: Policy) -> None:
        is_bad, run = self._try(Candidate(policy, {}), end)
        if is_bad is None:
            raise ValueError(f'"{end}" cannot be tested: {run.message}')
        if is_bad is not (end == "bad"):
            remedy = (
                "; it must fail there, and follow the rules of the process, as a program that imports polycast does "
                "(if it fails only sometimes, run it more often: repeat=12 or --repeat 12)"
                if end == "bad" and self._repeat == 1
                else ""
            )
            raise ValueError(f'"{end}" is {"bad" if is_bad else "good"}{remedy}: {run.message}')

    def _try(self, candidate: Candidate, what: str, *, again: bool = False) -> tuple[bool | None, Run]:
        """Return whether the program is bad under some rules, or None if that cannot be tested; and its last run."""
        digest = candidate.digest
        if digest in self._tried and not again:
            return self._tried[digest]
        is_bad: bool | None = False
        for _ in range(self._repeat):
            run = self._log.replay(digest)
            if run is None:
                run = self._run(candidate)
                self._log.add(digest, run)
            self._runs += 1
            if run.status > _MOST:
                remedy = "to count that as bad, run sh -c 'COMMAND || exit 1'"
                raise ValueError(f"a run under {what} was killed, which ends the search; {remedy}: {run.message}")
            is_bad = None if run.status == _SKIP else run.status != _GOOD
            self._tried[digest] = is_bad, run
            how = "cannot be tested" if is_bad is None else "bad" if is_bad else "good"
            left = f"; {self._among} rules left" if self._among else ""
            self._progress(f"run {self._runs}: {what}: {how}, {run.seconds:.1f} s{left}")
            if is_bad is not False:
                break
        return self._tried[digest]
