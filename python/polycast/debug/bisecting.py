"""A bisection: the search for the rules that make a program bad."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from torch import nn

from polycast.debug.bisection import Bisection, Culprit
from polycast.debug.calls import Call
from polycast.debug.candidate_policies import Candidate, CandidatePolicies, Switch
from polycast.debug.observer import Observer
from polycast.debug.search import minimal_sets
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope.assignment import assign
from polycast.scope.process import ENVIRONMENT_POLICY, use

BUILT_IN = "built-in"
_GOOD, _SKIP, _MOST = 0, 125, 127  # `git bisect run` reads these exit statuses in the same way
# Note [How likely is a wrong result?]
# If a program fails at random, a run can give a wrong answer, and the search can find the wrong rules. A result is
# right if these answers are right: each set is bad, each set without one of its rules is good, and the fix is good.
# The search repeats the runs of these answers, and the runs of "good" and of "bad", until it has found each answer n
# times. Assume that runs under good rules fail with a probability p. A wrong result needs n false "bad" answers and n
# passes of "good". Its probability is p**n * (1 - p)**n, at most 1 / 4**n for every p. The same bound applies if runs
# under bad rules pass by accident.
_TIMES = 3
_CHANCE = (
    f"Each answer that the result depends on was the same {_TIMES} times. If the program fails at random, at "
    f"most {0.25**_TIMES:.1%} of searches end with a wrong result, and the others end with an error."
)


class Run(NamedTuple):
    """One run of the program under some rules."""

    status: int
    """0 is good, 125 cannot be tested, and any other status up to 127 is bad. A higher status ends the search."""
    message: str
    """A description of the run's end; for a command, also the last lines of its output."""


def bisect(
    check: Callable[[], object],
    good: PolicyLike = "fp32",
    bad: PolicyLike = BUILT_IN,
    repeat: int = 1,
    progress: Callable[[str], object] = lambda _: None,
    *,
    model: nn.Module | None = None,
) -> Bisection:
    """Find minimal sets of rules that make a program bad, and a fix.

    The program runs under mixes of a good and a bad policy. Each op, or with a model each op in each module, follows
    the rule of one of the two. If only the rules of a set are as in ``bad``, the program is bad. The set is minimal: if
    any one of these rules is as in ``good``, the program is good. The search ends when the program is good with the
    rules of all sets as in ``good`` and all others as in ``bad``. The fix has only the rules that a good run needs.

    The search records the first run, and tries the recorded ops and modules first. It checks each answer on which
    the result depends at least three times. Child processes that import polycast use the same process-wide policy.

    Args:
        check: A function that runs the program, and returns whether it is good, as a true or false value. An exception
            counts as bad. Each call runs the same program: it seeds random numbers, and creates the models it trains.
        good: A policy under which the program is good: a value for :func:`polycast.use`, or "built-in".
        bad: A policy under which the program is bad, in one of the forms of ``good``.
        repeat: The largest number of runs for an answer. The answer is bad after the first bad run. If a share p of the
            runs is bad, the answer is good with probability (1 - p) ** repeat: 0.8 % for p = 1/3, repeat = 12.
        progress: A function that is called with a line of text after each run except the recorded one.
        model: The model that the program runs, directly or as copies. Each run assigns rules to modules of the model,
            as :func:`polycast.assign` does.

    Returns:
        The rules, a fix, and the number of runs. The result prints as a table.

    Raises:
        ValueError: If ``repeat`` is not an integer of at least 1, a policy has problems, or both policies are equal. If
            the program is bad under ``good`` or good under ``bad``, or if two answers for the same rules differ.
        TypeError: If ``check`` returns None, or if a policy or the model has another type.

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
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"model: expected a torch.nn.Module or None, got {type(model).__name__}; pass the model")

    def run() -> Run:
        try:
            result = check()
            message = f"check returned {result!r:.60}"
        except Exception as error:
            result, message = False, f"check raised {type(error).__name__}: {error}"
        if result is None:
            raise TypeError("check: expected a true or a false result, got None; return whether the program is good")
        return Run(int(not result), message)

    return Search(run, good, bad, repeat, progress, model, is_recorded=True).run()


@contextmanager
def _followed(candidate: Candidate, model: nn.Module | None) -> Iterator[None]:
    """Apply the rules of a candidate to this process, its child processes and a model."""
    before = os.environ.get(ENVIRONMENT_POLICY)
    with TemporaryDirectory(prefix="polycast-") as folder, ExitStack() as stack:
        stack.enter_context(use(candidate.policy))
        if model is not None:
            stack.enter_context(assign(model, candidate.modules))
        candidate.policy.save(file := Path(folder, "rules.yaml"))
        os.environ[ENVIRONMENT_POLICY] = str(file)
        try:
            yield
        finally:
            os.environ.pop(ENVIRONMENT_POLICY)
            os.environ.update({} if before is None else {ENVIRONMENT_POLICY: before})


class Search:
    """The search of a bisection.

    Args:
        run: A function that runs the program.
        good, bad, repeat, progress, model: The arguments of ``bisect``.
        is_recorded: Whether to record the calls of a first run, because the program runs in this process.

    Raises:
        ValueError: If ``repeat`` is not an integer of at least 1, if a policy has problems, or if both are equal.
    """

    def __init__(
        self,
        run: Callable[[], Run],
        good: PolicyLike,
        bad: PolicyLike,
        repeat: int,
        progress: Callable[[str], object],
        model: nn.Module | None = None,
        is_recorded: bool = False,
    ) -> None:
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise ValueError(f"repeat: expected an integer of at least 1, got {repeat!r}; pass 1 for a single run")
        self._good, self._bad = (Policy(None if end == BUILT_IN else end) for end in (good, bad))
        if self._good == self._bad:
            raise ValueError("good, bad: expected different policies, got equal ones; change one of them")
        self._run, self._repeat, self._progress, self._model = run, repeat, progress, model
        self._is_recorded = is_recorded
        self._tried: defaultdict[Hashable, list[tuple[bool | None, Run]]] = defaultdict(list)
        self._among = 0  # the next culprit is among this many switches; 0 means that no search runs
        self._runs = 0

    def run(self) -> Bisection:
        """Search for the culprits and a fix, and return them with the result of the last run.

        Raises:
            ValueError: If the program is not good under "good" or not bad under "bad", or if ``_try`` raises it.
        """
        seen = self._record(Candidate(self._bad, {})) if self._is_recorded else []
        policies = CandidatePolicies(self._good, self._bad, self._model, seen)
        switches = policies.switches
        good = policies.candidate(switches)
        self._check_end("good", good, policies)
        bad = policies.candidate([])
        self._check_end("bad", bad, policies)

        def is_bad(chosen: Sequence[Switch], among: int, is_claim: bool) -> bool:
            self._among = among
            what = f"{chosen[0]} alone" if len(chosen) == 1 else f"{len(chosen)} of {len(switches)} rules"
            times = _TIMES if is_claim else 1
            return self._try(policies.candidate({*switches} - {*chosen}), f'{what} as in "bad"', times)[0] is True

        groups = []
        for group in minimal_sets(switches, is_bad, len(policies.seen)):
            groups.append(group)
            self._try(good, "good", _TIMES - 1 + len(groups))
        self._among = 0
        self._try(bad, "bad", _TIMES)
        fix, candidate, proved = self._fix(policies, [switch for group in groups for switch in group])
        culprits = (
            Culprit(*switch, *policies.categories(switch), number)
            for number, group in enumerate(groups)
            for switch in group
            if switch in fix or not any(one in fix and policies.runs(one, switch) for one in group)
        )
        notes = (*self._notes(policies, fix), _CHANCE)
        return Bisection((*culprits,), *candidate, self._runs, len(switches), proved, notes)

    def _record(self, candidate: Candidate) -> list[Call]:
        """Run the program under a candidate, and return the recorded calls."""
        self._runs += 1
        with _followed(candidate, self._model), Observer("polycast.debug.bisect", self._model) as observer:
            self._run()
            return observer.take_calls()

    def _fix(self, policies: CandidatePolicies, culprits: list[Switch]) -> tuple[list[Switch], Candidate, bool]:
        """Return the culprits to set as in "good", the candidate for them, and whether the program is then good."""

        def made(fix: Sequence[Switch]) -> Candidate:
            return policies.candidate([one for switch in fix for one in policies.widened(switch)])

        # An op that runs others is preferred, because its rule changes fewer calls. If more rules as in "good" can make
        # the program bad again, the omission of one rule can make another superfluous.
        fix, before = sorted(culprits, key=lambda switch: policies.runs_others(switch.op)), list[Switch]()
        while fix != before:
            before = fix
            for switch in before:
                fewer = [other for other in fix if other != switch]
                if self._try(made(fewer), f'all except {len(fewer)} of the culprits as in "bad"')[0] is False:
                    fix = fewer
        is_bad_still, _ = self._try(made(fix), "the fix", _TIMES)
        return fix, made(fix), is_bad_still is False

    def _notes(self, policies: CandidatePolicies, fix: Sequence[Switch]) -> list[str]:
        notes = []
        for switch in fix if self._is_recorded else ():
            if switch not in policies.seen and not policies.runs_others(switch.op):
                notes.append(f"{switch} was not recorded: a compiled part, another thread or another process calls it.")
        if policies.regions:
            notes.append(
                f"A region has its own rules for {', '.join(policies.regions)}. Rules of modules override them."
            )
        return notes

    def _check_end(self, end: str, candidate: Candidate, policies: CandidatePolicies) -> None:
        is_bad, run = self._try(candidate, end)
        is_bad, run = self._try(candidate, end, 2) if end == "good" and is_bad else (is_bad, run)
        if is_bad is None:
            got = f"status {run.status}; pass another policy. The last run: {run.message}"
            raise ValueError(f"{end}: expected a policy under which the program can be tested, got {got}")
        if is_bad is (end == "bad"):
            return
        remedy = "pass another policy"
        if end == "bad" and self._repeat == 1:
            expected = "runs ops in a region" if self._is_recorded else "imports polycast"
            remedy = f"check that it {expected}, or if it fails only sometimes, pass repeat=12 (--repeat 12)"
        elif end == "good" and policies.regions and self._model is None:
            ops = ", ".join(policies.regions)
            remedy = f"remove its regions' rules for {ops}, which override this policy, or pass model=model"
        elif end == "good" and self._good == Policy("fp32"):
            condition = "" if self._is_recorded else "if it imports polycast, "
            remedy = f"{condition}look for causes other than mixed precision, because the program also fails in float32"
        got = f"one under which it is {'bad' if is_bad else 'good'}; {remedy}. The last run: {run.message}"
        raise ValueError(f"{end}: expected a policy under which the program is {end}, got {got}")

    def _try(self, candidate: Candidate, what: str, times: int = 1) -> tuple[bool | None, Run]:
        """Return whether the program is bad under a candidate (None if it cannot be tested), and the last run.

        The program runs until the candidate has ``times`` answers, including the answers of earlier calls.

        Raises:
            ValueError: If the status of a run is above 127, or if two answers for the candidate differ.
        """
        answers = self._tried[candidate.policy, frozenset(candidate.modules.items())]
        while len(answers) < times:
            answers.append(self._answer(candidate, what))
            if answers[-1][0] is not answers[0][0]:
                raise ValueError(
                    f"the program was good and bad under the same rules ({what}), so it fails at random; seed its "
                    "random numbers, or if it fails only under bad rules, pass repeat=12 (--repeat 12)"
                )
        return answers[-1]

    def _answer(self, candidate: Candidate, what: str) -> tuple[bool | None, Run]:
        """Run the program up to ``repeat`` times, until a run is not good, and return the answer and the last run."""
        for _ in range(self._repeat):
            start = time.perf_counter()
            with _followed(candidate, self._model):
                run = self._run()
            seconds = time.perf_counter() - start
            self._runs += 1
            if run.status > _MOST:
                remedy = "to count such a status as bad, replace COMMAND with sh -c 'COMMAND || exit 1'"
                got = f"{run.status} in run {self._runs} ({what}); {remedy}. The run: {run.message}"
                raise ValueError(f"COMMAND: expected an exit status up to {_MOST}, got {got}")
            is_bad = None if run.status == _SKIP else run.status != _GOOD
            how = "cannot be tested" if is_bad is None else "bad" if is_bad else "good"
            left = f"; {self._among} rule{'s' * (self._among > 1)} left" if self._among else ""
            self._progress(f"run {self._runs}: {what}: {how}, {seconds:.1f} s{left}")
            if is_bad is not False:
                break
        return is_bad, run
