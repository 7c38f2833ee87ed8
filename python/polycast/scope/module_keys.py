"""The keys of an assignment, and the modules that each key matches."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from inspect import getattr_static
from typing import TypeAlias

from torch import nn

from polycast._suggest import closest
from polycast.policy.op_names import keys_of

Key: TypeAlias = str | type[nn.Module] | nn.Module
Modules: TypeAlias = Mapping[str, nn.Module]

PATTERN = "re:"
_GLOB = re.compile(r"[*?\[]")


def text_of(key: object, modules: Modules) -> str:
    """Return the text of a key in messages: a str itself, the name of a module in the model, or the name of a class."""
    if isinstance(key, nn.Module):
        return next((name for name, module in modules.items() if module is key), f"<{type(key).__name__}>")
    if isinstance(key, type):
        return key.__name__
    return key if isinstance(key, str) else f"<{type(key).__name__}>"


def select(key: object, modules: Modules) -> tuple[list[str], bool]:
    """Return the names of the modules that a key matches, and whether it can match many modules.

    Raises:
        ValueError: If the key has the wrong type or matches no module.
    """
    many = isinstance(key, type)
    if isinstance(key, nn.Module):
        found = [name for name, module in modules.items() if module is key]
        missing = f"this {type(key).__name__} is not a module of the model; pass the model that contains it"
    elif isinstance(key, type) and issubclass(key, nn.Module):
        found = [name for name, module in modules.items() if isinstance(module, key)]
        kinds = sorted({type(module).__name__ for module in modules.values() if has_forward(module)})
        missing = f"the model has no {key.__name__}; use one of its classes: {', '.join(kinds)}"
    elif not isinstance(key, str):
        raise ValueError(
            f"expected a key for modules, got a value of type {type(key).__name__}; use the name of a module, a glob "
            f"such as 'layers.*', a regular expression after '{PATTERN}', a module class or a module"
        )
    elif key in modules:
        found, missing = [key], ""
    elif key.startswith(PATTERN) or _GLOB.search(key):
        many, found = True, [name for name in modules if _matches(key, name)]
        missing = f"no module of the model matches '{key}'; match a whole name of model.named_modules()"
    else:
        found, missing = [], f"the model has no module '{key}'; {_remedy(key, modules)}"
    if not found:
        raise ValueError(missing)
    return found, many


def _matches(pattern: str, name: str) -> bool:
    if not pattern.startswith(PATTERN):
        return fnmatchcase(name, pattern)
    try:
        return re.fullmatch(pattern.removeprefix(PATTERN), name) is not None
    except re.error as error:
        raise ValueError(f"expected a valid regular expression, got an error: {error}; correct it") from None


def _remedy(key: str, modules: Modules) -> str:
    if key == "ops":
        return "to assign a policy file to the whole model, pass {'': file}"
    close = closest(key, modules)
    near = (
        f"use a name from model.named_modules(), a glob such as 'layers.*', or '{PATTERN}' and a regular expression"
        if close is None
        else f"did you mean '{close}'?"
    )
    return f"write {{'': {{'{key}': ...}}}} for a rule of this op, or {near}" if keys_of(key) else near


def has_forward(module: nn.Module) -> bool:
    """Return whether a module has a ``forward``. A ModuleList has none."""
    return "forward" in vars(module) or getattr_static(type(module), "forward") is not nn.Module.forward


def reader_of(name: str, modules: Modules) -> str | None:
    """Return the name of the module that reads a module's weights without calling it, or None.

    The only recognized module is ``nn.MultiheadAttention``, which passes the weights of ``out_proj`` to a function.
    """
    around, _, last = name.rpartition(".")
    parent = modules.get(around)
    forward = None if parent is None or not name else getattr_static(type(parent), "forward")
    return around if last == "out_proj" and forward is nn.MultiheadAttention.forward else None
