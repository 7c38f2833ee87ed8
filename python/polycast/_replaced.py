"""Replacement and restoration of attributes of PyTorch."""

from collections.abc import Callable
from typing import Any, TypeAlias

# The functions that undo a change. Call the last one first.
Undo: TypeAlias = list[Callable[[], object]]


def replace(owner: Any, name: str, value: object, undo: Undo) -> None:
    """Replace an attribute of a module or a class. ``undo`` restores it, unless it has been replaced again."""
    original = vars(owner)[name]

    def restore() -> None:
        if vars(owner)[name] is value:
            setattr(owner, name, original)

    undo.append(restore)
    setattr(owner, name, value)
