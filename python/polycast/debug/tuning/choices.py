"""The category of each op in each module, as a plan and back."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from polycast._grammar.errors import PolicyError
from polycast.policy.plan import Plan
from polycast.policy.policy import Policy

FLOAT32 = "fp32"
WIDE = (FLOAT32, "fp32_set_opt_dtype", "fp32_append_dtype", "float64", "banned")
_Place = tuple[str, str] | None  # a model and a module, or `ops`, which hold everywhere


class Key(NamedTuple):
    """An op in a module, on a device of the policy; the names are those of a trace without a model."""

    model: str
    module: str
    op: str
    device: str


@cache
def _category(policy: Policy, op: str, device: str) -> str:
    return policy.category(op, device)


@cache
def takes_float32(op: str, device: str) -> bool:
    """Return whether a rule can give an op float32."""
    try:
        Policy({op: {device: FLOAT32}})
    except PolicyError:
        return False
    return True


def _around(module: str) -> list[str]:
    """Return a module's name, and those of the modules around it, the outermost first."""
    return ["", *accumulate(filter(None, module.split(".")), "{}.{}".format)]


def category(plan: Plan, key: Key) -> str:
    """Return the category of an op in a module by a plan: inner modules decide over outer ones, these over `ops`."""
    of_model, policy = plan.models.get(key.model, {}), plan.ops
    for name in _around(key.module):
        if name in of_model:
            policy = policy | of_model[name]
    return _category(policy, key.op, key.device)


def can_lose(plan: Plan, key: Key) -> bool:
    """Return whether an op may run below float32 by a plan, and a rule can give it float32."""
    return category(plan, key) not in WIDE and takes_float32(key.op, key.device)


def plan_of(categories: Mapping[Key, str], note: Callable[[Sequence[Key]], str] | None = None) -> Plan:
    """Return the plan of few rules that gives each op in each module its category.

    What most modules have is a rule under `ops`, unless it is the built-in one. Modules that differ from what is around
    them have rules of their own. An op outside of modules has rules under `ops` alone.

    Args:
        categories: The category of each.
        note: Returns the note of a rule, from all that it decides.
    """
    by_op: dict[tuple[str, str], list[Key]] = {}
    for key in categories:
        by_op.setdefault((key.op, key.device), []).append(key)
    rules: dict[_Place, dict[str, dict[str, object]]] = {}
    for (op, device), keys in by_op.items():
        outside = [key for key in keys if not key.model]
        counted = Counter(categories[key] for key in outside or keys)
        built_in = _category(Policy(), op, device)
        general = max(counted, key=lambda value: (counted[value], value == built_in))
        values: dict[_Place, str] = {None: general}
        decided: dict[_Place, list[Key]] = {None: []}
        for key in sorted(keys, key=lambda key: len(_around(key.module))):
            around = [(key.model, name) for name in reversed(_around(key.module)) if key.model]
            place = next((place for place in around if place in values), None)
            if values[place] != categories[key]:
                place = around[0]
                values[place] = categories[key]
            decided.setdefault(place, []).append(key)
        if general == built_in:
            del values[None]
        for place, value in values.items():
            text = note(decided[place]) if note is not None else ""
            rules.setdefault(place, {}).setdefault(op, {})[device] = {"as": value, "note": text} if text else value
    models: dict[str, dict[str, Policy]] = {}
    for place, ops in rules.items():
        if place is not None:
            models.setdefault(place[0], {})[place[1]] = Policy(ops)
    return Plan(Policy(rules.get(None)), models)
