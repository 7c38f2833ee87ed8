"""Replacements of PyTorch's attributes that can be undone."""

from collections.abc import Callable
from typing import Any, TypeAlias

# These functions undo changes, and must be called in reverse order.
Undo: TypeAlias = list[Callable[[], object]]


def replace(owner: Any, name: str, value: object, undo: Undo) -> None:
    """Replace an attribute, and add a function to ``undo`` that restores the attribute if its value has not changed."""
    original = vars(owner)[name]

    def restore() -> None:
        if vars(owner)[name] is value:
            setattr(owner, name, original)

    undo.append(restore)
    setattr(owner, name, value)
