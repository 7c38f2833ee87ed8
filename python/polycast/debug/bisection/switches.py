"""What two plans do differently to the calls of a program, as switches; and the plans between the two."""

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple, TypeAlias

import torch

from polycast._grammar.categories import UNLISTED
from polycast._grammar.names import join_name
from polycast.debug.bisection.result import Culprit
from polycast.debug.distinct_calls import DistinctCall
from polycast.policy.plan import Plan, shown
from polycast.policy.policy import Policy
from polycast.policy.rules import BUILT_IN, Rule
from polycast.scope.keys import PATTERN

Key: TypeAlias = tuple[str, str, str]  # of a rule: op, overload, device


class Switch(NamedTuple):
    """The rules of an op on a device at a place, which are as in "good" or as in "bad"."""

    call: DistinctCall
    """Its device is "" for all, its model "" outside of modules."""
    good: tuple[Rule, ...]
    bad: tuple[Rule, ...]

    @property
    def place(self) -> str:
        """The module that calls the op, as a trace shows it."""
        return shown(self.call.model, self.call.module)

    def __str__(self) -> str:
        """Return the switch as people read it."""
        return f"{self.call.op} in {self.place}" if self.place else self.call.op

    def culprit(self, group: int) -> Culprit:
        """Return the switch as the result has it."""
        good, bad = (", ".join(dict.fromkeys(rule.category for rule in rules)) for rules in (self.good, self.bad))
        return Culprit(self.call.op, self.place, self.call.device or "all", good, bad, group)

    def is_in(self, other: "Switch") -> bool:
        """Return whether rules for the place of another hold here, too, where there are none for this place."""
        return not other.place or f"{self.place}.".startswith(f"{other.place}.")


class Side:
    """What a plan does."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        built_in = {rule.key: rule.category for rule in BUILT_IN}
        self._at = {("", ""): built_in | _categories(plan.ops.by_overload())}  # by the model and the module

    def at(self, model: str, module: str) -> dict[Key, str]:
        """Return the category of each overload on each device that has a rule in a module."""
        if (model, module) not in self._at:
            around = self.at(model, module.rpartition(".")[0]) if module else self._at["", ""]
            self._at[model, module] = around | _categories(self.given_to(model, module).by_overload())
        return self._at[model, module]

    def given_to(self, model: str, module: str) -> Policy:
        """Return the rules that the plan gives to a module itself."""
        held = self.plan.models.get(model, {})
        if module in held:
            return held[module]
        joined = Policy()
        for policy in (policy for key, policy in held.items() if _matches(key, module)):
            joined |= policy
        return joined


class Between:
    """The plans between two.

    Args:
        good: The one plan.
        bad: The other.
        calls: The calls of the program. None if they are not known: then the ops with different rules are switched,
            each at all of its places.
    """

    def __init__(self, good: Plan, bad: Plan, calls: Iterable[DistinctCall] | None) -> None:
        sides = Side(good), Side(bad)
        self._bad = sides[1]
        note = f"bisect {datetime.now().astimezone():%Y-%m-%d}, torch {torch.__version__}: bad as "
        self._has_modules = bool(good.models or bad.models)
        policies = [rules for plan in (good, bad) for *_, rules in [("", "", plan.ops), *plan.by_module()]]
        keys = sorted({rule.key for policy in policies for rule in policy.by_overload()} | {*self._bad.at("", "")})
        if calls is None:
            calls = dict.fromkeys(DistinctCall("", "", op, "") for op, _, _ in keys)
        self._blocks: dict[tuple[str, str], list[Switch]] = {}
        """All calls of an op on a device, also those with the same rules in both plans."""
        blocks: dict[tuple[str, str], list[DistinctCall]] = {}
        for call in calls:
            blocks.setdefault((call.op, call.device), []).append(call)
        for (op, device), held in blocks.items():
            of_op = [key for key in keys if key[0] == op and device in ("", key[2])]
            places = [[side.at(call.model, call.module) for side in sides] for call in held]
            different = [key for key in of_op if any(_at(one, key) != _at(two, key) for one, two in places)]
            self._blocks[op, device] = [
                Switch(
                    call,
                    tuple(rule for key in different for rule in _rules(key, _at(good, key), note + _at(bad, key))),
                    tuple(rule for key in different for rule in _rules(key, _at(bad, key))),
                )
                for call, (good, bad) in zip(held, places, strict=True)
            ]
        every = [switch for block in self._blocks.values() for switch in block]
        self.switches = [switch for switch in every if _categories(switch.good) != _categories(switch.bad)]
        """A switch for each op and place with different rules."""

    def plan(self, as_good: Collection[Switch]) -> Plan:
        """Return the "bad" plan with some switches as in "good".

        An op that is switched at all of its places has a rule for the process. Else it has rules for modules. These
        also hold in the modules inside, so others inside are given their "bad" rules.
        """
        ops: list[Rule] = []
        models: dict[str, dict[str, list[Rule]]] = {}
        for block in self._blocks.values():
            good = [one for one in block if one in as_good]
            if len(good) == len(block) and not self._has_modules:
                ops += block[0].good
                continue
            for one in block:
                if one in as_good or any(one.is_in(other) for other in good):
                    modules = models.setdefault(one.call.model, {})
                    modules.setdefault(one.call.module, []).extend(one.good if one in as_good else one.bad)
        ops += models.pop("", {}).get("", [])
        given = {
            model: {name: self._bad.given_to(model, name) | Policy._of(rules) for name, rules in modules.items()}
            for model, modules in models.items()
        }
        return self._bad.plan | Plan(Policy._of(ops), given)


def _at(categories: dict[Key, str], key: Key) -> str:
    return categories.get(key, UNLISTED)


def _categories(rules: Iterable[Rule]) -> dict[Key, str]:
    return {rule.key: rule.category for rule in rules}


@cache
def _rules(key: Key, category: str, note: str = "") -> tuple[Rule, ...]:
    """Return the rules of an overload, as a file has them: devices that are like the device have them, too."""
    op, overload, device = key
    value = {"as": category, "note": note} if note else category
    return tuple(Policy({join_name(op, overload): {device: value}}).by_overload())


def _matches(key: str, name: str) -> bool:
    """Return whether a key for many modules stands for one."""
    if key.startswith(PATTERN):
        return re.fullmatch(key.removeprefix(PATTERN), name) is not None
    return fnmatchcase(name, key)
