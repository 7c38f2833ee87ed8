"""A file of rules that tune wrote, measured again."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from polycast._calls import called_as
from polycast.debug.progress import Progress
from polycast.debug.tuning import tuning
from polycast.debug.tuning.evidence import Evidence
from polycast.debug.tuning.losses import Check
from polycast.debug.tuning.proof import Proof, Trial
from polycast.debug.tuning.runs import Step, Training
from polycast.debug.tuning.tuned import LOSSES, RATIOS, TUNED_NAME, facts_here, facts_of, measured, table_of, with_notes
from polycast.policy.plan import Plan, shown

SLOWER = 1.03  # how many times the time of the faster end a plan may take, if that is more than the noise
_OF_LOSSES, _OF_RATIOS, _OF_RULES = 1.01, 1.2, 2.0  # by which factor numbers have moved


@dataclass(frozen=True)
class Verified:
    """What :func:`verify_tuned` found. It prints as what no longer holds."""

    broken: tuple[str, ...]
    """What breaks the promise: that the loss stays with float32's, and that nothing is slower."""
    moved: tuple[str, ...]
    """The evidence that no longer holds: what it was, and what it is."""
    table: str
    """The runs, a line for each plan."""

    @property
    def holds(self) -> bool:
        """Whether the promise holds."""
        return not self.broken

    def __str__(self) -> str:
        """Return whether the promise holds, what has moved, and the runs."""
        lines = ["the promise holds" if self.holds else "the promise is broken: " + "; ".join(self.broken), ""]
        lines += [*self.moved] if self.moved else ["all evidence holds"]
        return "\n".join([*lines, "", self.table])


@called_as("polycast.debug.verify_tuned('tuned.yaml', make, batches), as polycast.debug.tune was called")
def verify_tuned(
    path: str | os.PathLike[str],
    make: Callable[[], Step],
    batches: Iterable[Any],
    *,
    check: Check | None = None,
    tolerance: float | None = None,
    seeds: int | Iterable[int] | None = None,
    steps: int | None = None,
) -> Verified:
    """Measure again what a file of rules by :func:`tune` promises: here, with this torch, on this device.

    Args:
        path: The file.
        make: As for tune, and all others as well.
        batches: The same as those that tune was given, or others.
        check: As for tune.
        tolerance: As for tune; None for that of the file.
        seeds: As for tune; None for those of the file.
        steps: As for tune.

    Raises:
        ValueError: The file is not by tune, or as for tune.
    """
    program = Training(make, tuning.batches_of(batches, steps))
    facts = facts_of(path)
    chosen = tuning.seeds_of(facts["seeds"] if seeds is None else seeds)
    times = float(facts["tolerance"]) if tolerance is None else tolerance
    dtype = tuning.lower_precision(facts["dtype"])
    return verified(path, Proof(program, chosen, times, check, None, Progress("verify")), dtype)


def verified(path: str | os.PathLike[str], proof: Proof, dtype: torch.dtype) -> Verified:
    """Run what a file says beside float32 and the built-in policy; return what no longer holds."""
    was, plan = facts_of(path), Plan.load(path)
    with proof.progress:
        found = proof.program.evidence(proof.seeds[0], dtype)
        proof.begin()
        trial = proof.tried(plan, TUNED_NAME)
        proof.race()
    now = {**measured(proof, trial), **facts_here(found)}
    return Verified(tuple(_broken(proof, trial)), tuple(_moved(was, now, plan, found)), table_of(proof.trials, trial))


def _broken(proof: Proof, trial: Trial) -> Iterator[str]:
    if trial.complaint:
        yield trial.complaint
        return
    for end in (proof.float32, proof.built_in):
        low, middle, _ = trial.ratios(end)
        if end is not trial and not end.complaint and low > 1 and middle > SLOWER:
            yield f"a step takes {middle:.2f} times the time of {end.name}"


def _moved(was: dict[str, Any], now: dict[str, Any], plan: Plan, found: Sequence[Evidence]) -> Iterator[str]:
    """Yield what a file says otherwise than the runs and the evidence here."""
    for name, text in facts_here(found).items():
        if was.get(name, text) != text:
            yield f"{name} was {was[name]} and is {text}"
    losses = [{name: fmean(many) for name, many in facts[LOSSES].items()} for facts in (was, now)]
    ratios = [{name: many["median"] for name, many in facts[RATIOS].items()} for facts in (was, now)]
    devices = {one.device for one in found}
    notes, here = _notes(plan, devices), _notes(with_notes(plan, found), devices)
    yield from (f"{name} is not called" for name in notes if name not in here and _numbers(notes[name]))
    told = {
        LOSSES: _differences(losses[0], losses[1], _OF_LOSSES),
        RATIOS: _differences(ratios[0], ratios[1], _OF_RATIOS),
    }
    for name in (name for name in notes if name in here):
        told[name] = _differences(_numbers(notes[name]), _numbers(here[name]), _OF_RULES)
    yield from (f"{name}: {text}" for name, text in told.items() if text)


def _notes(plan: Plan, devices: Collection[str]) -> dict[str, str]:
    """Return the notes of the rules for some devices, by what the rules are for."""
    held = [("", plan.ops), *((shown(model, name), policy) for model, name, policy in plan.by_module())]
    return {
        f"{rule.op} in {module}, {rule.device}" if module else f"{rule.op}, {rule.device}": rule.note
        for module, policy in held
        for rule in policy.by_overload()
        if rule.device in devices
    }


def _numbers(note: str) -> dict[str, float]:
    """Return the numbers that a note holds, by name; words that are none are left out."""
    found = {}
    for name, _, text in (word.partition("=") for word in note.split()):
        try:
            found[name] = float(text)
        except ValueError:  # a user's own words
            continue
    return found


def _differences(was: Mapping[str, float], now: Mapping[str, float], factor: float) -> str:
    """Return which numbers differ by more than a factor, as text; empty if none does."""
    found = []
    for name in (name for name in was if name in now):
        low, high = sorted((abs(was[name]), abs(now[name])))
        if high > factor * low:
            found.append(f"{name} was {was[name]:.3g} and is {now[name]:.3g}")
    return ", ".join(found)
