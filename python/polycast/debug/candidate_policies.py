"""The candidate policies that mix two policies: each op, in each module, has the rule of one of them."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import torch
from torch import nn

from polycast import devices
from polycast._extension import DEVICES, overloads_of
from polycast.debug.calls import Call
from polycast.debug.observer import Observer
from polycast.op_samples import WITHOUT_SAMPLE, Make, arguments, find
from polycast.policy.categories import UNLISTED
from polycast.policy.policy import Policy
from polycast.policy.rules import BUILT_IN, qualified
from polycast.region import autocast
from polycast.scope import module_keys
from polycast.scope.assignment import assigned
from polycast.torch_internals import DispatchKey

_Rules: TypeAlias = dict[str, dict[str, str]]  # the keys are overloads, and the values are categories by device


class Candidate(NamedTuple):
    """The rules of a run: a policy of the process, and policies of modules."""

    policy: Policy
    modules: dict[str, Policy]
    """The policies by the name of the module, in the form that :func:`polycast.assign` accepts."""


class Switch(NamedTuple):
    """The rules of an op in a module, which are as in "good" or as in "bad"."""

    op: str
    module: str
    """The name of the module in the model; "" for the model itself and for calls outside of it."""

    def __str__(self) -> str:
        return f"{self.op} in {self.module}" if self.module else self.op


class CandidatePolicies:
    """The candidates that mix two policies.

    Args:
        good: The policy under which the program is good.
        bad: The policy under which the program is bad.
        model: The model whose modules are switched separately. None switches each op as a whole.
        calls: Recorded calls of a run under "bad". The switches of these calls are first. Calls of compiled code, other
            processes and the program's other threads are not recorded.
    """

    def __init__(self, good: Policy, bad: Policy, model: nn.Module | None, calls: Iterable[Call] = ()) -> None:
        self._bad = bad
        self._rules: dict[str, tuple[_Rules, _Rules]] = {}
        """The rules of each op whose rules differ, as in "good" and as in "bad"."""
        ends = [{rule.key: rule for rule in (*BUILT_IN, *policy.by_overload())} for policy in (good, bad)]
        for key in sorted({*ends[0], *ends[1]}):
            categories = [end[key].category if key in end else UNLISTED for end in ends]
            if categories[0] != categories[1]:
                name, device = key
                switched = self._rules.setdefault(name.partition(".")[0], ({}, {}))
                for rules, category in zip(switched, categories, strict=True):
                    rules.setdefault(name, {})[device] = category
        self._modules = [""] if model is None else ["", *_called(model)]
        self._own = {} if model is None else {**assigned(model)}
        by_policy = {policy: _by_op(policy) for policy in {*self._own.values()}}
        self._own_rules = {module: by_policy[policy] for module, policy in self._own.items()}
        self.regions: dict[str, str] = {}
        """Rules of regions for ops in ``_rules``. They override process rules. Rules of modules override them."""
        seen: set[Switch] = set()
        for call in calls:
            op, module = call.op.partition(".")[0], call.module
            module = module if module in self._modules else self._around(module)
            if op in self._rules:
                seen.add(Switch(op, module))
                if call.origin.startswith("region: "):
                    self.regions[op] = call.rule
        self.seen = sorted(seen)
        """The switches of recorded calls."""
        every = (Switch(op, module) for op in self._rules for module in self._modules)
        self.switches = [*dict.fromkeys([*self.seen, *every])]
        """A switch for each op with different rules, in each module. The switches of recorded calls are first."""

    def _around(self, module: str) -> str:
        """Return the closest outer module that can have rules. Its rules apply in a module without its own rules."""
        module = module.rpartition(".")[0]
        return module if module in self._modules else self._around(module)

    def candidate(self, as_good: Collection[Switch]) -> Candidate:
        """Return the rules of "bad" with some switches as in "good".

        An op that is switched for the module "" has a rule of the process; other switches set rules of modules. Rules
        apply in inner modules as well, so inner modules that are not switched are given the rules that they have under
        "bad". Rules of regions and of modules override rules of the process. If a region or the module has a rule for
        the op, a switch sets a rule of the module, even of the module "".
        """
        process: _Rules = {}
        modules: dict[str, _Rules] = {}
        chosen: dict[str, set[str]] = {}
        for switch in as_good:
            chosen.setdefault(switch.op, set()).add(switch.module)
        for op, switched in chosen.items():
            good, _ = self._rules[op]
            if "" in switched:
                process |= good
            for module in self._modules:
                own, is_within = self._own_rules.get(module, {}).get(op), module and self._around(module) in switched
                if module in switched and (own or op in self.regions or (module and not is_within)):
                    modules.setdefault(module, {}).update(good)
                elif module not in switched and is_within and (bad := self._under_bad(op, module)) != own:
                    modules.setdefault(module, {}).update(bad)
        policies = {module: self._own.get(module, Policy()) | Policy(rules) for module, rules in modules.items()}
        return Candidate(self._bad | Policy(process), policies)

    def _under_bad(self, op: str, module: str) -> _Rules:
        """Return the rules of an op in a module under "bad".

        The module's own rules override the rules of outer modules, of a region and of "bad".
        """
        if module:
            outer = self._under_bad(op, self._around(module))
        else:
            outer = {op: dict.fromkeys(DEVICES, self.regions[op])} if op in self.regions else self._rules[op][1]
        own = self._own_rules.get(module, {}).get(op, {})
        return {name: {**outer.get(name, {}), **own.get(name, {})} for name in {**outer, **own}}

    def widened(self, switch: Switch) -> list[Switch]:
        """Return a switch, and the switches of its op for inner modules that are not known to call the op.

        For the module "", return all switches of the op, because calls outside of modules follow rules of the process.
        """
        if not switch.module:
            return [Switch(switch.op, module) for module in self._modules]
        inside = (Switch(switch.op, module) for module in self._modules if module.startswith(f"{switch.module}."))
        return [switch, *(one for one in inside if one not in self.seen)]

    def categories(self, switch: Switch) -> tuple[str, str]:
        """Return the categories of a switch in "good" and in "bad", as strings."""
        ends = self._rules[switch.op][0], self._under_bad(*switch)
        every = ([category for devices in rules.values() for category in devices.values()] for rules in ends)
        good, bad = (", ".join(dict.fromkeys(end)) for end in every)
        return good, bad

    def runs_others(self, op: str) -> bool:
        """Return whether an op is unlisted in "bad" and runs other ops. For example, "softmax" runs "_softmax"."""
        packet = getattr(torch.ops.aten, op, None)
        # `overloads_of` omits TorchScript's own overloads, such as `pow.int`, for which PyTorch's query would raise.
        names = [] if packet is None else [name.partition(".")[2] or "default" for name in overloads_of(qualified(op))]
        overloads = [getattr(packet, name) for name in names]
        is_composite = any(one.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd) for one in overloads)
        return is_composite and UNLISTED in self.categories(Switch(op, ""))[1]

    def runs(self, switch: Switch, other: Switch) -> bool:
        """Return whether a sample call of a switch's op runs the op of another switch in the same module."""
        if switch.module == other.module and self.runs_others(switch.op):
            region = autocast(devices.HOST, policy={switch.op: UNLISTED})
            with suppress(Exception), Observer("polycast.debug.bisect", None) as observer, region:
                for name in self._rules[switch.op][0].keys() - WITHOUT_SAMPLE:
                    find(name)(*arguments(name, Make(devices.HOST)).args)  # type: ignore[misc]
                return any(call.op.partition(".")[0] == other.op for call in observer.take_calls())
        return False


def _by_op(policy: Policy) -> dict[str, _Rules]:
    """Return the rules of each op in a policy."""
    found: dict[str, _Rules] = {}
    for rule in policy.by_overload():
        found.setdefault(rule.op, {}).setdefault(rule.name, {})[rule.device] = rule.category
    return found


def _called(model: nn.Module) -> Iterable[str]:
    """Yield the names of the modules in a model that can have rules, because their forward is called."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        is_called = module_keys.has_forward(module) and module_keys.reader_of(name, modules) is None
        if name and is_called and not isinstance(module, torch.jit.ScriptModule):
            yield name
