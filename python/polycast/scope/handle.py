"""Handles that undo a change."""

from collections.abc import Callable

from polycast import _warnings
from polycast._extension import installed_kernels


class Handle:
    """The handle of a change that :func:`polycast.use`, :func:`polycast.install` and other functions have made.

    :meth:`remove` undoes the change, as in ``torch.utils.hooks.RemovableHandle``. A handle is also a context manager,
    which removes the handle at the end of its block. Remove the newest handle first. In another order, an
    earlier change can apply again after the last removal.
    """

    def __init__(self, restore: Callable[[], object]) -> None:
        self._restore: Callable[[], object] | None = restore

    def remove(self) -> None:
        """Restore the state from before the change. A second removal has no effect."""
        restore, self._restore = self._restore, None
        if restore is not None:
            restore()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def warn_of_no_kernels() -> None:
    """Warn the caller if no kernels are installed, because no rule applies then."""
    if not installed_kernels():
        _warnings.warn("polycast is not installed on any device, so no rule applies; call polycast.install()")
