"""Assignment of policies to the modules of a model."""

import os
from collections.abc import Mapping
from functools import partial
from reprlib import repr as repr_of  # this function shows at most four rules
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from polycast._text_table import lines_of
from polycast.policy.errors import PolicyError, Problem
from polycast.policy.from_dict import is_file
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope import module_keys
from polycast.scope.handle import Handle, warn_of_no_kernels
from polycast.scope.module import rules_of, set_rules
from polycast.scope.module_keys import Key
from polycast.torch_internals import disabled


class Assignments(dict[str, Policy]):
    """The policies of the modules that have rules of their own, by the names of the modules. They print as a table."""

    def __str__(self) -> str:
        if not self:
            return "no module has rules"
        rows = [(name or "(the model)", repr_of(policy.rules)) for name, policy in self.items()]
        return "\n".join(lines_of([("module", "rules"), *rows]))

    __repr__ = __str__


def _give(policies: Mapping[nn.Module, Policy | None]) -> None:
    """Set the policy of each module, or remove it."""
    for module, policy in list(policies.items()):
        set_rules(module, policy)


@disabled
def assign(model: nn.Module, rules: "Mapping[Key, PolicyLike] | Mapping[str, PolicyLike] | PolicyLike") -> Handle:
    """Assign rules to modules of a model. These rules override the rules of regions and of the process.

    Rules apply while the module's ``forward`` runs, and when activation checkpointing reruns it. They also apply in its
    submodules, whose own rules override them. A new assignment replaces the earlier rules of a module.
    :func:`assigned` returns the rules of a model.

    The rules are a mapping from keys to policies, or a YAML file with such a mapping. A key is one of these:

    - the name of a module, as in ``named_modules``; "" is the model itself,
    - the module itself,
    - a glob for names, such as "layers.*", in which ``*`` matches any text, dots included,
    - "re:" and a regular expression for whole names, such as "re:.*\\.norm\\d",
    - a module class, for instances of it and of its subclasses.

    Names and modules override the other keys. Within each of these two groups, the last key that matches applies.
    A value is a policy in any form that :class:`polycast.Policy` accepts, or None, which removes rules. In a file, keys
    are strings. Instead of the mapping, a ``Policy``, category, dtype, release or None applies to the model itself.

    Limits: a module that is never called cannot have rules of its own (a ModuleList, the ``out_proj`` of
    ``nn.MultiheadAttention``). Rules do not apply where other code reads a module's weights without calling the module.
    ``torch.jit.trace``, ``torch.jit.script`` and ``torch.fx`` raise if they would lose rules. A module with rules has
    an attribute ``forward`` of its own, so a shallow copy (``copy.copy``) runs the ``forward`` of the original.

    Args:
        model: The model whose modules receive rules.
        rules: The rules by module, a file with them, or the rules of the model itself.

    Returns:
        A handle: its ``remove()``, or the end of its ``with`` block, restores the earlier rules of the modules.

    Raises:
        PolicyError: If a key matches no module, or rules would have no effect in a module. If :class:`polycast.Policy`
            raises for a value, or the file has problems. The error is a ``ValueError`` that lists every problem, and
            nothing is assigned.
        TypeError: If the model is not a module, or the rules have the wrong type.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2), torch.nn.Linear(2, 2))
        >>> _ = polycast.assign(model, {"2": torch.float32, torch.nn.LayerNorm: {"layer_norm": "bf16"}})
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
    if is_file(rules):
        from polycast.policy.files import load  # only files need PyYAML

        file = os.fspath(rules)
        rules = load(file)
    elif isinstance(rules, Policy | str | torch.dtype | None):
        rules = {"": rules}
    if not isinstance(rules, Mapping):
        what, remedy = f"expected a mapping from modules to rules, got {rules!r:.60}", "write it as {'lm_head': 'fp32'}"
        raise PolicyError([Problem(file, "", what, remedy)]) if file else TypeError(f"rules: {what}; {remedy}")
    chosen = _chosen(modules, rules, file)
    if any(policy is not None for policy in chosen.values()):
        warn_of_no_kernels()
    before = {module: rules_of(module) for module in chosen}
    _give(chosen)
    return Handle(partial(_give, WeakKeyDictionary(before)))


def _chosen(modules: module_keys.Modules, rules: Mapping[Any, Any], file: str) -> dict[nn.Module, Policy | None]:
    """Return the policy of each module that a key matches; None removes the rules of a module.

    Raises:
        PolicyError: If any key or value has a problem. The error lists every problem.
    """
    problems: list[Problem] = []
    many: dict[nn.Module, Policy | None] = {}
    single: dict[nn.Module, Policy | None] = {}
    for key, value in rules.items():
        text = module_keys.text_of(key, modules) or "''"
        try:
            names, is_pattern = module_keys.select(key, modules)
            policy = None if value is None else Policy(value)
            names = names if policy is None else _with_forward(names, modules, is_pattern=is_pattern)
        except PolicyError as error:
            problems += [
                each if each.file else each._replace(file=file, path=f"{text}.{each.path}") for each in error.problems
            ]
        except (ValueError, TypeError) as error:
            what, _, remedy = str(error).removeprefix("rules: ").partition("; ")
            problems.append(Problem(file, text, what, remedy))
        else:
            (many if is_pattern else single).update((modules[name], policy) for name in names)
    chosen = {**many, **single}
    problems += _not_called(modules, chosen, file)
    if problems:
        raise PolicyError(problems)
    return chosen


def _with_forward(names: list[str], modules: module_keys.Modules, *, is_pattern: bool) -> list[str]:
    """Return the names of modules with a ``forward``. A pattern that matches a module may also match its container.

    Raises:
        ValueError: If the key matches a container but no module in it.
    """
    for name in (name for name in names if not module_keys.has_forward(modules[name])):
        inside = f"{name}." if name else ""
        if not is_pattern or not any(other != name and other.startswith(inside) for other in names):
            kind = type(modules[name]).__name__
            raise ValueError(
                f"expected a module with a forward, got the {kind} '{name}', which is never called; assign the rules "
                f"to the modules inside: '{inside}*'"
            )
    return [name for name in names if module_keys.has_forward(modules[name])]


def _not_called(modules: module_keys.Modules, chosen: Mapping[nn.Module, Policy | None], file: str) -> list[Problem]:
    """Return a problem for each module with rules whose ``forward`` does not run in Python.

    A module whose weights another module reads may have rules if both modules have the same rules.
    """
    problems = []
    for name in (name for name, module in modules.items() if chosen.get(module) is not None):
        reader = module_keys.reader_of(name, modules)
        if isinstance(modules[name], torch.jit.ScriptModule):
            cause, remedy = "torch.jit compiled it", "use torch.compile, which follows rules"
        elif reader is not None and chosen.get(modules[reader]) != chosen[modules[name]]:
            cause, remedy = f"'{reader}' reads its weights without calling it", f"give the rules to '{reader}'"
        else:
            continue
        what = f"rules of this module would have no effect, because {cause}"
        problems.append(Problem(file, name, what, f"{remedy}, or remove the rules with {{'{name}': None}}"))
    return problems


def assigned(model: nn.Module) -> Assignments:
    """Return the policies of the modules that have rules of their own, by the names of the modules.

    Raises:
        TypeError: If the model is not a module.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())
        >>> _ = polycast.assign(model, {"0": {"linear": "fp32"}, "1": {"gelu": "fp32"}})
        >>> print(polycast.assigned(model))
        module  rules
        0       {'linear': 'fp32'}
        1       {'gelu': 'fp32'}
    """
    _check_model(model)
    named = model.named_modules(remove_duplicate=False)
    return Assignments({name: policy for name, module in named if (policy := rules_of(module)) is not None})


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"model: expected a torch.nn.Module, got {got}; pass a module, such as the model itself")
