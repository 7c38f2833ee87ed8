"""Replacements of PyTorch's attributes that can be undone."""

from collections.abc import Callable
from typing import Any, TypeAlias

# These functions undo a change. The last one must be called first.
Undo: TypeAlias = list[Callable[[], object]]


def replace(owner: Any, name: str, value: object, undo: Undo) -> None:
    """Replace an attribute, and add a function to ``undo`` that restores it unless it has been replaced again."""
    original = vars(owner)[name]

    def restore() -> None:
        if vars(owner)[name] is value:
            setattr(owner, name, original)

    undo.append(restore)
    setattr(owner, name, value)
