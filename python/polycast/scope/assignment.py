"""Assigns policies to the modules of a model by their names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import nn

from polycast._grammar.errors import Location, PolicyError, Problem, closest
from polycast.policy.policy import Policy, Rule
from polycast.scope import callers
from polycast.scope.compiled_code import uncompiled
from polycast.scope.module import set_rules

Rules: TypeAlias = str | torch.dtype | Mapping[str, object] | Policy | None

PATTERN = "re:"


@uncompiled
def assign(model: nn.Module, rules: Mapping[str, Rules]) -> list[str]:
    """Give modules of a model rules of their own, over those of the region and the process that they are called in.

    Rules hold while the module's ``forward`` runs, and when activation checkpointing reruns it. Modules inside follow
    them too, after rules of their own. A new assignment replaces the earlier one of the same module.

    Limits: a module that torch never calls is refused (a ModuleList, the ``out_proj`` of nn.MultiheadAttention). Your
    own code that reads a module's weights without calling it follows none of its rules. ``torch.jit.trace`` and
    ``torch.fx`` raise if they would lose rules. ``nn.DataParallel`` and ``torch.jit.script`` are not supported.

    Args:
        model: The model.
        rules: The key is the name of a module, as in ``named_modules`` ("" is the model itself), or a pattern that
            matches whole names, as in "re:.*\\.norm\\d". A name decides over patterns. The value is a policy, a dict
            for :class:`polycast.Policy`, or one category or dtype for every op that the base lists. None takes back an
            assignment.

    Returns:
        The names of the modules that were assigned rules.

    Raises:
        PolicyError: A ``ValueError`` with every problem: a name or pattern without a module, a module that is never
            called, two patterns that disagree on an op of one module, a value of another kind, and the problems of
            :class:`polycast.Policy`. Nothing is assigned then.
        TypeError: The model is no module, or the rules no mapping.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        >>> polycast.assign(model, {"1": "fp32"})
        ['1']
        >>> with polycast.autocast("cpu"):
        ...     model[0](torch.ones(2)).dtype, model(torch.ones(2)).dtype
        (torch.bfloat16, torch.float32)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"{type(model).__name__} is no module; give the model, and its modules' names in the rules")
    if not isinstance(rules, Mapping):
        raise TypeError(f"the rules are {rules!r:.60}; give a mapping, as in {{'lm_head': 'fp32'}}")
    modules = dict(model.named_modules(remove_duplicate=False))
    problems: list[Problem] = []
    found = [_Assignment(*rule, modules, number, problems) for number, rule in enumerate(rules.items())]
    chosen: dict[nn.Module, _Assignment] = {}
    # Names come after patterns, so that they decide.
    for one in sorted(found, key=lambda one: not one.is_pattern):
        for name in one.names:
            earlier = chosen.setdefault(modules[name], one)
            if earlier.is_pattern is one.is_pattern:
                one.check_agreement(name, earlier)
            chosen[modules[name]] = one
    for one in found:
        one.check_called(modules, chosen)
    if problems:
        raise PolicyError(problems)
    for name, module in modules.items():
        if module in chosen:
            set_rules(module, chosen[module].policy)
            callers.have_called(module, chosen[module].policy is not None and callers.is_in_fused_layer(name, modules))
    return [name for name, module in modules.items() if module in chosen and chosen[module].policy is not None]


# Dynamo breaks its graph here, because compiled code would not see that modules change.
assign._torchdynamo_disable = True  # type: ignore[attr-defined]
assign._torchdynamo_disable_msg = "polycast.assign changes modules"  # type: ignore[attr-defined]


class _Assignment:
    """One key of the rules with its modules and its policy. It reports the problems of both."""

    def __init__(
        self, key: object, value: Rules, modules: Mapping[str, nn.Module], number: int, problems: list[Problem]
    ) -> None:
        self.key = key if isinstance(key, str) else f"<{type(key).__name__}>"
        self.problems = problems
        self.is_pattern = self.key.startswith(PATTERN)
        self.names: list[str] = []
        self.policy: Policy | None = None
        self._place = Location("assign", number, 0, self.key or "''")
        self._other: set[str] = set()
        if isinstance(key, str):
            self.names = self._find(modules)
            if value is not None:
                self.names = self._without_containers(self.names, modules)
        else:
            self._report(
                f"a key of type {type(key).__name__}", f"use the name of a module, or '{PATTERN}' and a pattern"
            )
        try:
            self.policy = _policy_of(value)
        except PolicyError as error:
            self.problems += [replace(problem, location=self._inside(problem.location)) for problem in error.problems]
        except ValueError as error:
            self._report(*str(error).split("; ", 1))
        except TypeError:
            self._report(
                f"a value of type {type(value).__name__}", "give a policy, a mapping of ops, a category, or None"
            )

    def _report(self, what: str, remedy: str) -> None:
        self.problems.append(Problem(self._place, what, remedy))

    def _inside(self, location: Location) -> Location:
        return replace(self._place, column=location.line, path=f"{self._place.path}.{location.path}")

    def _find(self, names: Iterable[str]) -> list[str]:
        if not self.is_pattern:
            if self.key in names:
                return [self.key]
            close = closest(self.key, names)
            remedy = f"a pattern begins with '{PATTERN}'" if close is None else f"did you mean '{close}'?"
            self._report(f"the model has no module '{self.key}'", remedy)
            return []
        try:
            pattern = re.compile(self.key.removeprefix(PATTERN))
        except re.error as error:
            self._report(f"no pattern: {error}", "write a regular expression of Python's")
            return []
        found = [name for name in names if pattern.fullmatch(name)]
        if not found:
            self._report("matches no module of the model", "a pattern has to match a whole name")
        return found

    def check_called(self, modules: Mapping[str, nn.Module], chosen: dict[nn.Module, "_Assignment"]) -> None:
        """Report a module whose weights another module reads without calling it, unless both have the same rules."""
        for name in self.names:
            reader = callers.reader_of(name, modules)
            if self.policy is None or reader is None or chosen[modules[name]] is not self:
                continue
            around = chosen.get(modules[reader])
            if around is None or around.policy != self.policy:
                what = f"module '{name}' is never called, as '{reader}' reads its weights, so no rule can hold in it"
                self._report(what, f"give the rules to '{reader}'")

    def _without_containers(self, names: list[str], modules: Mapping[str, nn.Module]) -> list[str]:
        """Leave out modules without a forward. Report them, unless the pattern also matches a module inside."""
        for name in (name for name in names if not callers.has_forward(modules[name])):
            inside = f"{name}." if name else ""
            if not (self.is_pattern and any(other != name and other.startswith(inside) for other in names)):
                kind = type(modules[name]).__name__
                what = f"module '{name}' is never called, as a {kind} has no forward, so no rule can hold in it"
                self._report(what, f"give the rules to what is in it: '{PATTERN}{re.escape(inside)}.*'")
        return [name for name in names if callers.has_forward(modules[name])]

    def check_agreement(self, name: str, other: "_Assignment") -> None:
        """Report once that two keys of the same rank give an op of a module different categories."""
        mine, its = ({row.key: row for row in one.policy.rows()} if one.policy else {} for one in (self, other))
        for key in (key for key in its if key in mine):
            if mine[key].value != its[key].value and other.key not in self._other:
                self._other.add(other.key)
                what = (
                    f"module '{name}' is matched by '{other.key}', which gives {_shown(its[key])}, and by '{self.key}'"
                )
                what += f", which gives {_shown(mine[key])}"
                self._report(what, "name the module itself, or make the patterns narrower")


def _shown(row: Rule) -> str:
    return f"{row.op} {row.value} on {row.column}"


def _policy_of(value: Rules) -> Policy | None:
    if isinstance(value, torch.dtype):
        value = str(value).removeprefix("torch.")
    if isinstance(value, str):
        return Policy(value)
    if value is None or isinstance(value, Policy):
        return value
    if isinstance(value, Mapping):
        return Policy(value)
    raise TypeError
