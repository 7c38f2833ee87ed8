"""Assigns policies to the modules of a model."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from polycast._text_table import lines_of
from polycast.policy.errors import PolicyError, Problem
from polycast.policy.policy import Policy, PolicyLike, Rule, is_file
from polycast.scope import keys, uncalled_modules
from polycast.scope.compiled_code import disabled
from polycast.scope.handle import Handle, warn_of_no_kernels
from polycast.scope.keys import Key
from polycast.scope.module import rules_of, set_rules
from polycast.scope.summary import summary

# What a file of rules for ops has, and one of rules for modules has not.
_NOT_MODULES = {
    "models": "the keys of the file are those of polycast.assign(model, file): the names of modules in this model",
    "ops": "give a file of rules for ops to the whole model: polycast.assign(model, {'': file})",
}


class Assignments(Mapping[str, Policy]):
    """The modules of a model that have rules of their own, by name, and the policy of each. It prints as a table."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = dict(policies)

    def __getitem__(self, name: str) -> Policy:
        return self._policies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def __str__(self) -> str:
        if not self:
            return "no module has rules"
        rows = [(name or "(the model)", summary(policy)) for name, policy in self.items()]
        return "\n".join(lines_of([("module", "rules"), *rows]))

    __repr__ = __str__


class Assignment(Assignments, Handle):
    """A handle that :func:`assign` returns: removing it restores the rules that the modules had before."""

    def __init__(self, policies: Mapping[str, Policy], new: Mapping[nn.Module, Policy | None]) -> None:
        Assignments.__init__(self, policies)
        before = {module: rules_of(module) for module in new}
        Handle.__init__(self, partial(_give, WeakKeyDictionary(before)))
        _give(new)


def _give(policies: Mapping[nn.Module, Policy | None]) -> None:
    """Give each module its policy."""
    for module, policy in list(policies.items()):
        set_rules(module, policy)


@disabled
def assign(model: nn.Module, rules: "Mapping[Key, PolicyLike] | Mapping[str, PolicyLike] | PolicyLike") -> Assignment:
    """Give modules of a model rules of their own, over those of the region and the process that they are called in.

    Rules hold while the module's ``forward`` runs, and when activation checkpointing reruns it. Modules inside follow
    them too, after rules of their own. A new assignment replaces the earlier one of the same module.
    :func:`assigned` shows the rules of a model.

    Limits: a module that torch never calls is refused (a ModuleList, the ``out_proj`` of nn.MultiheadAttention). Your
    own code that reads a module's weights without calling it follows none of its rules. ``torch.jit.trace``,
    ``torch.jit.script`` and ``torch.fx`` raise if they would lose rules. While a module has rules, it has an attribute
    ``forward`` of its own, so a shallow copy (``copy.copy``) runs the original's.

    Args:
        model: The model.
        rules: A mapping from modules to rules. A key is the name of a module, as in ``named_modules`` ("" is the model
            itself), or the module itself. Or it stands for many: a glob, as in "layers.*", whose ``*`` matches any
            text, dots too; "re:" and a regular expression for whole names, as in "re:.*\\.norm\\d"; or a module class,
            for its instances, those of subclasses too. A key for one module decides over those for many. The value is
            what :class:`polycast.Policy` takes: a policy, a dict, a file, a release, or a category or dtype for every
            op that the built-in policy lists. None takes rules back. A value in the place of the mapping is for the
            model itself, but a dict is always the mapping. So is a YAML file: its keys are those that a text can be,
            its values categories or rules of ops, and null takes rules back.

    Returns:
        A mapping from the names of the modules that were assigned rules to their policies, which prints as a table. It
        is a context manager: its end, or its ``remove``, brings back the rules that held before.

    Raises:
        PolicyError: A ``ValueError`` with every problem: a key that stands for no module, a module that is never
            called, two keys for many modules that disagree on an op of one module, a value of another kind, and the
            problems of :class:`polycast.Policy`. Nothing is assigned then.
        TypeError: The model is no module, or the rules no mapping.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2), torch.nn.Linear(2, 2))
        >>> polycast.assign(model, {"2": torch.float32, torch.nn.LayerNorm: {"layer_norm": "bf16"}})["1"]
        Policy({'layer_norm': 'bfloat16'})
        >>> with polycast.autocast("cpu"):
        ...     model[0](torch.ones(2)).dtype, model(torch.ones(2)).dtype
        (torch.bfloat16, torch.float32)
        >>> with polycast.assign(model, {"*": None}):
        ...     polycast.assigned(model)
        no module has rules
    """
    _check_model(model)
    modules = dict(model.named_modules(remove_duplicate=False))
    file = ""
    if isinstance(rules, str | os.PathLike) and is_file(rules):
        file = os.fspath(rules)
        rules = _of_file(file, modules)
    elif isinstance(rules, Policy | str | torch.dtype | None):
        rules = {"": rules}
    if not isinstance(rules, Mapping):
        raise TypeError(f"the rules are {rules!r:.60}; give a mapping, as in {{'lm_head': 'fp32'}}")
    problems: list[Problem] = []
    chosen = choose(modules, rules, problems, file)
    if problems:
        raise PolicyError(problems)
    given = {name: chosen[module] for name, module in modules.items() if module in chosen}
    policies = {name: policy for name, policy in given.items() if policy is not None}
    if policies:
        warn_of_no_kernels()
    return Assignment(policies, chosen)


def _of_file(path: str, modules: Mapping[str, nn.Module]) -> dict[str, Any]:
    """Return the mapping of a file.

    Raises:
        PolicyError: It cannot be read, or has the form of another file.
    """
    from polycast.policy.files import load  # needs PyYAML

    content = load(path)
    if not isinstance(content, Mapping):
        remedy = "give it one from modules to their rules, as in encoder.0: {linear: fp32}"
        raise PolicyError([Problem(path, "", "the file is empty" if content is None else "not a mapping", remedy)])
    wrong = [key for key in content if key in _NOT_MODULES and key not in modules]
    if wrong:
        raise PolicyError(Problem(path, key, f"the model has no module '{key}'", _NOT_MODULES[key]) for key in wrong)
    return dict(content)


def choose(
    modules: Mapping[str, nn.Module], rules: Mapping[Any, Any], problems: list[Problem], file: str
) -> dict[nn.Module, Policy | None]:
    """Return the policy of each module by rules for keys, and report the problems of these."""
    found = [_Part(*rule, modules, file, problems) for rule in rules.items()]
    chosen: dict[nn.Module, _Part] = {}
    # Keys for single modules come first, and decide.
    for one in sorted(found, key=lambda one: one.is_pattern):
        for name in one.names:
            earlier = chosen.setdefault(modules[name], one)
            if earlier is not one and earlier.is_pattern is one.is_pattern:
                one.check_agreement(name, earlier)
                chosen[modules[name]] = one
    for one in found:
        one.check_called(modules, chosen)
    return {module: part.policy for module, part in chosen.items()}


def assigned(model: nn.Module) -> Assignments:
    """Return the modules of a model that have rules of their own, by name, and the policy of each.

    Raises:
        TypeError: The model is no module.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())
        >>> _ = polycast.assign(model, {"0": {"linear": "fp32"}, "1": {"gelu": "fp32"}})
        >>> print(polycast.assigned(model))
        module  rules
        0       linear fp32
        1       gelu fp32
    """
    _check_model(model)
    found = ((name, rules_of(module)) for name, module in model.named_modules(remove_duplicate=False))
    return Assignments({name: policy for name, policy in found if policy is not None})


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"model: expected a torch.nn.Module, got {got}")


class _Part:
    """One key of the rules with its modules and its policy. It reports the problems of both."""

    def __init__(
        self, key: object, value: Any, modules: Mapping[str, nn.Module], file: str, problems: list[Problem]
    ) -> None:
        self.key = keys.text_of(key, modules)
        self.problems = problems
        self.is_pattern = keys.is_pattern(key, modules)
        self.policy: Policy | None = None
        self._file, self._path = file, self.key or "''"
        self._other: set[str] = set()
        self.names = keys.names_of(key, modules, self._report)
        if value is not None:
            self.names = self._without_containers(self.names, modules)
        try:
            self.policy = None if value is None else Policy(value)
        except PolicyError as error:
            self.problems += [problem if problem.file else self._inside(problem) for problem in error.problems]
        except (ValueError, TypeError) as error:
            what, _, remedy = str(error).partition("; ")
            self._report(what, remedy)

    def _report(self, what: str, remedy: str) -> None:
        self.problems.append(Problem(self._file, self._path, what, remedy))

    def _inside(self, problem: Problem) -> Problem:
        return problem._replace(file=self._file, path=f"{self._path}.{problem.path}")

    def check_called(self, modules: Mapping[str, nn.Module], chosen: dict[nn.Module, "_Part"]) -> None:
        """Report a module of torch.jit's, which is then not chosen, and one whose weights another module reads without
        calling it, unless both have the same rules."""
        for name in self.names:
            if self.policy is None or chosen.get(modules[name]) is not self:
                continue
            if isinstance(modules[name], torch.jit.ScriptModule):
                what = f"module '{name}' is compiled by torch.jit, which calls no forward, so no rule can hold in it"
                self._report(what, f"leave it out: '{name}': None, or use torch.compile, which keeps rules")
                del chosen[modules[name]]
            reader = uncalled_modules.reader_of(name, modules)
            if reader is None:
                continue
            around = chosen.get(modules[reader])
            if around is None or around.policy != self.policy:
                what = f"module '{name}' is never called, as '{reader}' reads its weights, so no rule can hold in it"
                leave_out = f", or leave it out: '{name}': None" if self.is_pattern else ""
                self._report(what, f"give the rules to '{reader}'{leave_out}")

    def _without_containers(self, names: list[str], modules: Mapping[str, nn.Module]) -> list[str]:
        """Leave out modules without a forward. Report them, unless the key also stands for a module inside."""
        for name in (name for name in names if not uncalled_modules.has_forward(modules[name])):
            inside = f"{name}." if name else ""
            if not (self.is_pattern and any(other != name and other.startswith(inside) for other in names)):
                kind = type(modules[name]).__name__
                what = f"module '{name}' is never called, as a {kind} has no forward, so no rule can hold in it"
                self._report(what, f"give the rules to what is in it: '{inside}*'")
        return [name for name in names if uncalled_modules.has_forward(modules[name])]

    def check_agreement(self, name: str, other: "_Part") -> None:
        """Report once that two keys of the same rank give an op of a module different categories."""
        mine, its = (
            {rule.key: rule for rule in one.policy.by_overload()} if one.policy else {} for one in (self, other)
        )
        for key in (key for key in its if key in mine):
            if mine[key].category != its[key].category and other.key not in self._other:
                self._other.add(other.key)
                what = (
                    f"module '{name}' is matched by '{other.key}', which gives {_shown(its[key])}, and by '{self.key}'"
                )
                what += f", which gives {_shown(mine[key])}"
                self._report(what, "name the module itself, or make the patterns narrower")


def _shown(rule: Rule) -> str:
    return f"{rule.name} {rule.category} on {rule.device}"
