"""The keys of an assignment: the modules that each stands for."""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from torch import nn

from polycast._suggest import closest
from polycast.policy.op_names import keys_of

Key: TypeAlias = str | type[nn.Module] | nn.Module
Report: TypeAlias = Callable[[str, str], None]

PATTERN = "re:"
_GLOB = re.compile(r"[*?\[]")
_KEYS = f"use the name of a module, a glob such as 'layers.*', '{PATTERN}' and a pattern, a module class, or a module"


def text_of(key: object, modules: Mapping[str, nn.Module]) -> str:
    """Return a key as messages name it: a module goes by its name, and a class by its own."""
    if isinstance(key, nn.Module):
        return next((name for name, module in modules.items() if module is key), f"<{type(key).__name__}>")
    if isinstance(key, type):
        return key.__name__
    return key if isinstance(key, str) else f"<{type(key).__name__}>"


def is_pattern(key: object, modules: Mapping[str, nn.Module]) -> bool:
    """Return whether a key may stand for many modules. One that stands for a single module decides over it."""
    if isinstance(key, str):
        return key.startswith(PATTERN) or (key not in modules and _GLOB.search(key) is not None)
    return isinstance(key, type)


def names_of(key: object, modules: Mapping[str, nn.Module], report: Report) -> list[str]:
    """Return the names of the modules that a key stands for, and report a key that stands for none.

    A class stands for its instances, those of subclasses too.
    """
    if isinstance(key, nn.Module):
        found = [name for name, module in modules.items() if module is key]
        if not found:
            report(f"this {type(key).__name__} is no module of the model", "give the model that it is in")
        return found
    if isinstance(key, type) and issubclass(key, nn.Module):
        found = [name for name, module in modules.items() if isinstance(module, key)]
        if not found:
            kinds = sorted({type(module).__name__ for module in modules.values()})
            report(f"the model has no {key.__name__}", f"it has {', '.join(kinds)}")
        return found
    if isinstance(key, str):
        return _named(key, modules, report)
    report(f"a key of type {type(key).__name__}", _KEYS)
    return []


def _named(key: str, modules: Mapping[str, nn.Module], report: Report) -> list[str]:
    if key in modules:
        return [key]
    if not is_pattern(key, modules):
        close = closest(key, modules)
        remedy = (
            f"a glob has '*', and a pattern begins with '{PATTERN}'" if close is None else f"did you mean '{close}'?"
        )
        if keys_of(key):
            remedy = f"it is an op: for the whole model write {{'': {{'{key}': ...}}}}" + (
                "" if close is None else f"; {remedy}"
            )
        report(f"the model has no module '{key}'", remedy)
        return []
    if not key.startswith(PATTERN):
        found = [name for name in modules if fnmatchcase(name, key)]
    else:
        try:
            pattern = re.compile(key.removeprefix(PATTERN))
        except re.error as error:
            report(f"no pattern: {error}", "write a regular expression of Python's")
            return []
        found = [name for name in modules if pattern.fullmatch(name)]
    if not found:
        report("matches no module of the model", "a pattern has to match a whole name")
    return found
