"""What undoes a change that took effect in a call."""

from collections.abc import Callable
from typing import TypeVar

from polycast import _warnings
from polycast._extension import installed_kernels

Made = TypeVar("Made", bound="Handle")


class Handle:
    """A handle that :func:`polycast.use`, :func:`polycast.assign`, :func:`polycast.install` and others return.

    The change has taken effect already. :meth:`remove` restores the state from before the call, as
    ``torch.utils.hooks.RemovableHandle`` does. As a context manager the handle is removed at the end of the block.
    Handles must be removed in reverse order: another order restores a state in between.
    """

    def __init__(self, restore: Callable[[], object]) -> None:
        self._restore: Callable[[], object] | None = restore

    def remove(self) -> None:
        """Restore the state from before the call. A second call has no effect."""
        restore, self._restore = self._restore, None
        if restore is not None:
            restore()

    def __enter__(self: Made) -> Made:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def warn_of_no_kernels() -> None:
    """Warn the caller of a change that holds nowhere yet."""
    if not installed_kernels():
        _warnings.warn("polycast is not installed on any device, so no rule holds until polycast.install() is called")
