"""Progress bars of what takes minutes, where tqdm is installed."""

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], title: str, total: int | None = None) -> Iterable[T]:
    """Return the items, with a bar that goes away at the end; no bar is shown where no terminal is."""
    if find_spec("tqdm") is None:
        return items
    from tqdm import tqdm

    bar: Iterable[T] = tqdm(items, title, total, leave=False, disable=None)
    return bar
