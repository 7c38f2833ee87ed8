"""An attribute of torch that is replaced and put back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a module or a class; at the end put it back, unless somebody else has replaced ours."""
    original = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        if vars(owner)[name] is value:
            setattr(owner, name, original)
