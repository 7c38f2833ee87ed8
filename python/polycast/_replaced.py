"""An attribute of torch that is replaced, and put back."""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

# The functions that undo a change, the last one first. Each may be called again, after one of them was interrupted.
Undo: TypeAlias = list[Callable[[], object]]


def replace(owner: Any, name: str, value: object, undo: Undo) -> None:
    """Replace an attribute of a module or a class.

    ``undo`` puts it back, unless somebody else has replaced ours, also in modules of torch that have imported it since.
    """
    original = vars(owner)[name]

    def put_back() -> None:
        if vars(owner)[name] is value:
            setattr(owner, name, original)
        for module in list(sys.modules.values()):
            inside = getattr(module, "__dict__", {})
            if inside.get(name) is value and inside.get("__name__", "").partition(".")[0] == "torch":
                inside[name] = original

    undo.append(put_back)
    setattr(owner, name, value)
