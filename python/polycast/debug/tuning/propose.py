"""Plans that the evidence speaks for: float32 where there is danger, else what is faster, neighbours together."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import torch

from polycast.debug.tuning.choices import FLOAT32, WIDE, Key, category, plan_of, takes_float32
from polycast.debug.tuning.evidence import LOWER_PRECISION, Evidence
from polycast.policy.plan import Plan

FOLLOWS = "input_dtype"
GAIN = 0.05  # of an op's own time: where less is gained, the built-in policy stays, as times are no more exact


class Candidate(NamedTuple):
    """A plan, and why it is one to try."""

    plan: Plan
    reason: str


class Caution(NamedTuple):
    """What is a danger: errors of more than so many roundings to the lower precision, or larger shares."""

    roundings: float
    overflow: float
    flushed: float
    far: bool
    """Whether what rounds the inputs of an op in danger is also sought before what is given to it directly."""


# What overflows or is flushed need not matter, as in masks and in softmax: the boldest plan looks at errors alone.
CAUTIONS = (Caution(32, 1, 1, far=False), Caution(8, 0, 1e-3, far=True))


def propose(evidence: Sequence[Evidence], dtype: torch.dtype) -> list[Candidate]:
    """Return the plans to try, the boldest first; the last one is the built-in policy.

    An op has the lower precision where that is safe, and faster here with the casts that it needs. Where ops have no
    times, it has the lower precision if that is safe. Only what the built-in policy casts to the lower precision is
    cast to it. Any other op has it where all that it is given has it already, and then its weights and statistics stay
    in float32.

    Args:
        evidence: What :func:`gather` returned.
        dtype: The lower precision that it is of.
    """
    network = _Network(evidence)
    made = dict[Plan, Candidate]()
    for caution in CAUTIONS:
        dangers = network.dangers(caution, torch.finfo(dtype).eps / 2)
        names = ", ".join(dict.fromkeys(evidence[place].op for place in sorted(dangers))) or "none"
        of_modules = network.fastest(dangers)
        for lower, whose in ((network.of_ops(of_modules, dangers), "op"), (of_modules, "op in each module")):
            reason = f"the faster precision for each {whose}, float32 for what is in danger: {names}"
            plan = plan_of(network.categories(lower))
            made.setdefault(plan, Candidate(plan, reason))
    built_in = Candidate(Plan(), "the built-in policy")
    return [one for one in made.values() if one.plan not in (Plan(), Plan(FLOAT32))] + [built_in]


class _Network:
    """Ops by their places in the evidence, with their times, and with those of the casts between them."""

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self._evidence = evidence
        self._keys = [one.key for one in evidence]
        self._is_timed = all(one.seconds for one in evidence)
        self._categories = [category(Plan(), key) for key in self._keys]
        self._wide = [one.calls * one.seconds.get(FLOAT32, 0.0) for one in evidence]
        self._lower = [
            one.calls * (one.seconds.get(LOWER_PRECISION, 0.0) - sum(one.casts.values())) for one in evidence
        ]
        self._casts = [{other: one.calls * casts for other, casts in one.casts.items()} for one in evidence]

    def dangers(self, caution: Caution, rounding: float) -> set[int]:
        """Return the ops that float32 keeps from a danger."""
        most, found = caution.roundings * rounding, set[int]()
        for place, one in enumerate(self._evidence):
            if one.error > most or one.overflow > caution.overflow or one.flushed > caution.flushed:
                found.add(place)
        # Where rounding what an op is given does harm, what it is given must come from float32. No rule widens an
        # in-place op itself.
        sources = set[int]()
        left = [
            place
            for place, one in enumerate(self._evidence)
            if one.rounding > most or (place in found and not self._can_widen(place))
        ]
        while left:
            place = left.pop()
            new = self._casts[place].keys() - sources
            sources |= new
            found |= {place, *new}
            left += [
                other for other in new if not self._can_widen(other) or (caution.far and not self._casts_itself(other))
            ]
        return found

    def fastest(self, dangers: set[int]) -> set[int]:
        """Return the ops that run in the lower precision so that all take the least time, but not those in danger."""
        built_in = self.of_built_in(dangers)
        if not self._is_timed:
            return built_in
        from networkx import DiGraph, minimum_cut  # which torch requires, too; it takes a while to import

        lower_end, wide_end = "lower", "wide"
        # What it costs that the first of two is in the lower precision, and the second is not.
        costs = defaultdict[tuple[int | str, int | str], float](float)
        for place in range(len(self._keys)):
            gain = GAIN * min(self._wide[place], self._lower[place])
            is_able = place not in dangers and (self._casts_itself(place) or bool(self._casts[place]))
            lower = self._lower[place] + gain * (place not in built_in) if is_able else math.inf
            costs[place, wide_end] += lower
            costs[lower_end, place] += self._wide[place] + gain * (place in built_in)
            can_widen = self._can_widen(place)
            for other, seconds in self._casts[place].items():
                costs[place, other] += seconds if self._casts_itself(place) else math.inf
                costs[other, place] += seconds if can_widen else math.inf
        graph = DiGraph()
        graph.add_nodes_from((lower_end, wide_end))
        for pair, cost in costs.items():
            graph.add_edge(*pair, **({"capacity": cost} if cost < math.inf else {}))
        _, (chosen, _) = minimum_cut(graph, lower_end, wide_end)
        return {place for place in range(len(self._keys)) if place in chosen}

    def of_ops(self, lower: set[int], dangers: set[int]) -> set[int]:
        """Return the same with one decision for an op in all modules, that of the most time, but not in danger."""
        votes = defaultdict[tuple[str, str], float](float)
        safe = [place for place in range(len(self._keys)) if place not in dangers]
        for place in safe:
            if place in lower or self._can_lose(place, lower):
                key = self._keys[place]
                votes[key.op, key.device] += self._wide[place] if place in lower else -self._wide[place]
        return self._with_followers(
            place for place in safe if votes[self._keys[place].op, self._keys[place].device] >= 0
        )

    def of_built_in(self, dangers: Collection[int] = ()) -> set[int]:
        """Return the ops that run in the lower precision by the built-in policy, but for float32 in danger."""
        held = enumerate(self._categories)
        return self._with_followers(place for place, one in held if one not in WIDE and place not in dangers)

    def _with_followers(self, places: Iterable[int]) -> set[int]:
        """Return which of some ops run in the lower precision: those cast to it, and those that are given nothing else.

        An op that is called twice may be given what is computed after its first call, so this goes on until no op is
        left.
        """
        left, lower = {*places}, set[int]()
        while new := {place for place in left if self._can_lose(place, lower)}:
            left, lower = left - new, lower | new
        return lower

    def categories(self, lower: set[int]) -> dict[Key, str]:
        """Return the category of each op, if some run in the lower precision."""
        found = dict[Key, str]()
        for place, key in enumerate(self._keys):
            held = self._categories[place]
            if place in lower:
                found[key] = FOLLOWS if held in WIDE else held
            else:
                found[key] = FLOAT32 if held not in WIDE and self._can_lose(place, lower) else held
        return found

    def _can_widen(self, place: int) -> bool:
        return takes_float32(self._keys[place].op, self._keys[place].device)

    def _casts_itself(self, place: int) -> bool:
        return self._categories[place] == LOWER_PRECISION

    def _can_lose(self, place: int, lower: set[int]) -> bool:
        """Return whether an op runs in the lower precision where some others do and no rule gives it float32."""
        return self._casts_itself(place) or (bool(self._casts[place]) and lower.issuperset(self._casts[place]))
