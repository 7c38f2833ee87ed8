"""A change that took effect in a call, and that can be taken back."""

from collections.abc import Callable, MutableMapping
from typing import Any, ClassVar, TypeVar
from weakref import ref

from polycast import _caller
from polycast._compiled import installed_kernels

Changed = TypeVar("Changed", bound="Change")


class Change:
    """What :func:`polycast.use`, :func:`polycast.assign` and :func:`polycast.cast_cache.keep` return.

    The change has taken effect already. As a context manager it is taken back at the end of the block, otherwise by
    :meth:`remove`. Without either it stays. What is taken back is as it was before the call, also if it was changed
    again since: then the later change is taken back with it, and has nothing left to take back.
    """

    _made: ClassVar[list[ref["Change"]]]  # those of a class that somebody holds, in their order
    _again: ClassVar[str]  # how such a change is made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._made = []

    def _begin(self, before: MutableMapping[Any, Any], change: Callable[[], None] = lambda: None) -> None:
        """Remember how each was before, and change it. After an error, or Ctrl-C, all is as before."""
        self._before, self._is_removed = before, False
        self._made[:] = [*(made for made in self._made if made() is not None), ref(self)]
        try:
            change()
        except BaseException:
            self.remove()
            raise

    def _restore(self, changed: Any, before: Any) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        """Take the change back. A second call has no effect."""
        later = False
        for other in [made() for made in self._made]:
            if later and other is not None:
                for changed in list(self._before):
                    other._before.pop(changed, None)
            later = later or other is self
        for changed, before in list(self._before.items()):
            self._restore(changed, before)
        self._before.clear()
        self._is_removed = True

    def __repr__(self) -> str:
        return f"<{self._again}: taken back>" if self._is_removed else f"<{self._describe()}>"

    def _describe(self) -> str:
        """Return what holds by the change."""
        raise NotImplementedError

    def __enter__(self: Changed) -> Changed:
        if self._is_removed:
            raise RuntimeError(f"{self._again} was taken back before; call it again")
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __call__(self, *_: object) -> None:
        """Raise: a change decorates nothing, as it took effect in the call that made it. It is taken back."""
        self.remove()
        raise TypeError(
            f"{self._again} changes at once, so it cannot decorate; write with {self._again} in the function"
        )


def warn_of_no_kernels() -> None:
    """Warn the caller of a change that holds nowhere yet."""
    if not installed_kernels():
        _caller.warn("polycast is not installed on any device, so no rule holds until polycast.install() is called")
