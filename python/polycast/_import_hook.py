"""An import hook that calls a function after the import of some modules."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportHook(MetaPathFinder):
    """A finder that waits for the import of some modules, and then calls a function with each of them.

    The finder is in ``sys.meta_path`` only while it waits for a module.
    """

    def __init__(self, function: Callable[[ModuleType], None]) -> None:
        self._function = function
        self._names: frozenset[str] = frozenset()

    def wait_for(self, names: Iterable[str]) -> None:
        """Set the modules to wait for. They replace the modules of an earlier call."""
        self._names = frozenset(names)
        if self._names and self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        elif not self._names and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return another finder's spec of a module that we wait for. The spec's loader also calls the function."""
        if name not in self._names:
            return None
        others = (getattr(finder, "find_spec", None) for finder in list(sys.meta_path) if finder is not self)
        found = (find(name, path, target) for find in others if find is not None)
        spec: ModuleSpec | None = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            run(module)
            if module.__name__ in self._names:
                self._function(module)

        loader.exec_module = exec_module  # no other module has this loader
