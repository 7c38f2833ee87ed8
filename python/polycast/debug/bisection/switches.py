"""What two policies do differently, as switches: an op, in a module of a model; and the rules between the two."""

from collections.abc import Collection, Iterable
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import torch
from torch import nn

from polycast._grammar.categories import UNLISTED
from polycast._grammar.names import join_name
from polycast.debug.bisection.result import Culprit
from polycast.policy.policy import Policy
from polycast.policy.rules import BUILT_IN, Rule
from polycast.scope import uncalled_modules

Key: TypeAlias = tuple[str, str, str]  # of a rule: op, overload, device


class Trial(NamedTuple):
    """The rules of a run: those of the process, and those of modules."""

    policy: Policy
    modules: dict[str, Policy]
    """By the name of the module, as :func:`polycast.assign` takes them."""

    @property
    def digest(self) -> str:
        """What the rules do as 16 hexadecimal digits, the same in every process."""
        modules = sorted((name, policy.digest) for name, policy in self.modules.items())
        return sha256(repr((self.policy.digest, modules)).encode()).hexdigest()[:16]


class Switch(NamedTuple):
    """The rules of an op at a place, which are as in "good" or as in "bad"."""

    op: str
    module: str
    """The name of the module in the model; "" for the model itself and all that is outside of it."""

    def __str__(self) -> str:
        """Return the switch as people read it."""
        return f"{self.op} in {self.module}" if self.module else self.op

    def is_in(self, other: "Switch") -> bool:
        """Return whether rules for the module of another hold here, too, where there are none for this module."""
        return not other.module or f"{self.module}.".startswith(f"{other.module}.")


class Between:
    """The rules between two policies.

    Args:
        good: The one policy.
        bad: The other.
        model: The model whose modules are switched, each by itself. None switches whole ops.
    """

    def __init__(self, good: Policy, bad: Policy, model: nn.Module | None) -> None:
        self._bad = bad
        held = [{rule.key: rule.category for rule in (*BUILT_IN, *policy.by_overload())} for policy in (good, bad)]
        different = [key for key in sorted({*held[0], *held[1]}) if _at(held[0], key) != _at(held[1], key)]
        note = f"bisect {datetime.now().astimezone():%Y-%m-%d}, torch {torch.__version__}: bad as "
        self._rules: dict[str, tuple[Policy, Policy]] = {}
        """The rules of each op that differs, as in "good" and as in "bad"."""
        for op in dict.fromkeys(op for op, _, _ in different):
            keys = [key for key in different if key[0] == op]
            noted: dict[Key, object] = {
                key: {"as": _at(held[0], key), "note": note + _at(held[1], key)} for key in keys
            }
            self._rules[op] = _policy(noted), _policy({key: _at(held[1], key) for key in keys})
        self._modules = [""] if model is None else ["", *_called(model)]
        self.switches = [Switch(op, module) for op in self._rules for module in self._modules]
        """A switch for each op with different rules, in each module."""

    def rules(self, as_good: Collection[Switch]) -> Trial:
        """Return the rules of "bad" with some switches as in "good".

        An op that is switched everywhere has a rule for the process. Else it has rules for modules. These also hold in
        the modules inside, so others inside are given their "bad" rules.
        """
        process: list[Rule] = []
        modules: dict[str, list[Rule]] = {}
        chosen: dict[str, set[str]] = {}
        for switch in as_good:
            chosen.setdefault(switch.op, set()).add(switch.module)
        for op, places in chosen.items():
            good, bad = (policy.by_overload() for policy in self._rules[op])
            if "" in places:
                process += good
            if len(places) == len(self._modules):
                continue
            switched = [Switch(op, module) for module in places]
            for module in self._modules[1:]:
                if module in places:
                    modules.setdefault(module, []).extend(good)
                elif any(Switch(op, module).is_in(other) for other in switched):
                    modules.setdefault(module, []).extend(bad)
        given = {module: Policy._of(rules) for module, rules in modules.items()}
        return Trial(self._bad | Policy._of(process), given)

    def culprit(self, switch: Switch, group: int) -> Culprit:
        """Return a switch as the result has it."""
        rules = (policy.by_overload() for policy in self._rules[switch.op])
        good, bad = (", ".join(dict.fromkeys(rule.category for rule in held)) for held in rules)
        return Culprit(switch.op, switch.module, good, bad, group)


def _called(model: nn.Module) -> Iterable[str]:
    """Return the names of the modules in a model that can have rules, as their forward is called."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        is_scripted = isinstance(module, torch.jit.ScriptModule)
        if (
            name
            and uncalled_modules.has_forward(module)
            and uncalled_modules.reader_of(name, modules) is None
            and not is_scripted
        ):
            yield name


def _at(categories: dict[Key, str], key: Key) -> str:
    return categories.get(key, UNLISTED)


def _policy(values: dict[Key, object]) -> Policy:
    """Return the policy of rules as a file has them: devices that are like a device have its rules, too."""
    rules: dict[str, dict[str, object]] = {}
    for (op, overload, device), value in values.items():
        rules.setdefault(join_name(op, overload), {})[device] = value
    return Policy(rules)
