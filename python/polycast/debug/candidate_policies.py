"""The candidate policies between two policies: each op, in each module, has the rule of one or of the other."""

from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import torch
from torch import nn

from polycast.policy.categories import UNLISTED
from polycast.policy.policy import Policy
from polycast.policy.rules import BUILT_IN
from polycast.scope import module_keys

_Rules: TypeAlias = dict[str, dict[str, str]]  # category by overload and device


class Candidate(NamedTuple):
    """The rules of a run: those of the process, and those of modules."""

    policy: Policy
    modules: dict[str, Policy]
    """By the name of the module, as :func:`polycast.assign` accepts them."""

    @property
    def digest(self) -> str:
        """The effect of the rules as 16 hexadecimal digits, the same in every process."""
        modules = sorted((name, policy.digest) for name, policy in self.modules.items())
        return sha256(repr((self.policy.digest, modules)).encode()).hexdigest()[:16]


class Switch(NamedTuple):
    """The rules of an op in a module, which are as in "good" or as in "bad"."""

    op: str
    module: str
    """The name of the module in the model; "" for the model itself and all that is outside of it."""

    def __str__(self) -> str:
        return f"{self.op} in {self.module}" if self.module else self.op


class CandidatePolicies:
    """The candidates between two policies.

    Args:
        good: One policy.
        bad: The other policy.
        model: The model whose modules are switched, each by itself. None switches whole ops.
    """

    def __init__(self, good: Policy, bad: Policy, model: nn.Module | None) -> None:
        self._bad = bad
        self._rules: dict[str, tuple[_Rules, _Rules]] = {}
        """The rules of each op that differs, as in "good" and as in "bad"."""
        ends = [{rule.key: rule for rule in (*BUILT_IN, *policy.by_overload())} for policy in (good, bad)]
        for key in sorted({*ends[0], *ends[1]}):
            name = next(end[key].name for end in ends if key in end)
            categories = [end[key].category if key in end else UNLISTED for end in ends]
            if categories[0] != categories[1]:
                op, _, device = key
                for rules, category in zip(self._rules.setdefault(op, ({}, {})), categories, strict=True):
                    rules.setdefault(name, {})[device] = category
        self._modules = [""] if model is None else ["", *_called(model)]
        self.switches = [Switch(op, module) for op in self._rules for module in self._modules]
        """A switch for each op with different rules, in each module."""

    def candidate(self, as_good: Collection[Switch]) -> Candidate:
        """Return the rules of "bad" with some switches as in "good".

        An op that is switched everywhere has a rule of the process. Otherwise it has rules of modules. These apply in
        the modules inside as well, so modules inside that are not switched are given the "bad" rules.
        """
        process: _Rules = {}
        modules: dict[str, _Rules] = {}
        chosen: dict[str, set[str]] = {}
        for switch in as_good:
            chosen.setdefault(switch.op, set()).add(switch.module)
        for op, switched in chosen.items():
            good, bad = self._rules[op]
            if "" in switched:
                process |= good
            if len(switched) == len(self._modules):
                continue
            for module in self._modules[1:]:
                if module in switched:
                    modules.setdefault(module, {}).update(good)
                elif any(not other or f"{module}.".startswith(f"{other}.") for other in switched):
                    modules.setdefault(module, {}).update(bad)
        return Candidate(self._bad | Policy(process), {module: Policy(rules) for module, rules in modules.items()})

    def categories(self, op: str) -> tuple[str, str]:
        """Return the categories of an op in "good" and in "bad", as text."""
        ends = [[category for devices in rules.values() for category in devices.values()] for rules in self._rules[op]]
        good, bad = (", ".join(dict.fromkeys(end)) for end in ends)
        return good, bad


def _called(model: nn.Module) -> Iterable[str]:
    """Return the names of the modules in a model that can have rules, because their forward is called."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        is_called = module_keys.has_forward(module) and module_keys.reader_of(name, modules) is None
        if name and is_called and not isinstance(module, torch.jit.ScriptModule):
            yield name
