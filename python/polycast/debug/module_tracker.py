"""A tracker of the module whose forward makes a call."""

import contextlib
import itertools
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from polycast._extension import set_module

OUTSIDE = -1
# PyTorch warns that compiled modules ignore global hooks. Compiled code is not recorded, so we hide the warning.
_COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"


class _Stack(threading.local):
    """The numbers of the modules whose forward a thread runs."""

    def __init__(self) -> None:
        self.modules: list[int] = []


class ModuleTracker:
    """A tracker of the innermost module whose forward each thread runs, and of the names of modules.

    A model's ``named_modules`` defines the names. Without a model, an outermost module has the name of its class, such
    as "Net", and a second instance has "Net#2". An inner module has a name such as "Net.encoder.0".

    We use PyTorch's global hooks, because hooks of a single module change the program. PyTorch runs other code for a
    module with hooks, scripted modules accept no hooks, and copies of the module inherit the hooks.
    ``torch.utils.module_tracker`` does not report the innermost module, and adds hooks to gradients.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self.names: list[str] = []
        # The keys are the addresses `Tensor._cdata` of the model's weights, and the values are their names.
        self.weights = {} if model is None else {weight._cdata: name for name, weight in model.named_parameters()}
        self._numbers: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._stack = _Stack()
        self._has_model = model is not None
        if model is not None:
            self._add(model.named_modules())

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Track the modules in the block."""
        with contextlib.ExitStack() as stack:
            warnings.filterwarnings("ignore", message=_COMPILED)
            stack.callback(_remove_filter, warnings.filters[0])
            stack.callback(set_module, OUTSIDE)
            stack.callback(register_module_forward_pre_hook(self._enter).remove)
            stack.callback(register_module_forward_hook(self._leave, always_call=True).remove)
            yield

    def name(self, number: int) -> str:
        """Return the name of a module by its number: "" for the model itself, and for ``OUTSIDE``."""
        return "" if number == OUTSIDE else self.names[number]

    def current(self) -> int:
        """Return the number of the innermost module whose forward this thread runs, or ``OUTSIDE``."""
        modules = self._stack.modules
        return modules[-1] if modules else OUTSIDE

    def _add(self, modules: Iterable[tuple[str, nn.Module]]) -> None:
        for name, module in modules:
            if module not in self._numbers:
                self._numbers[module] = len(self.names)
                self.names.append(name)

    def _enter(self, module: nn.Module, _: object) -> None:
        if torch.compiler.is_compiling():
            return
        if module not in self._numbers:
            if self._has_model:
                return
            name = type(module).__name__
            live = {self.names[number] for number in self._numbers.values()}
            prefixes = (f"{name}#{count}" if count > 1 else name for count in itertools.count(1))
            self._add(module.named_modules(prefix=next(one for one in prefixes if one not in live)))
        self._stack.modules.append(self._numbers[module])
        set_module(self.current())

    def _leave(self, module: nn.Module, _args: object, _output: object) -> None:
        if not torch.compiler.is_compiling() and self._numbers.get(module, OUTSIDE) == self.current() != OUTSIDE:
            self._stack.modules.pop()
            set_module(self.current())


def _remove_filter(entry: object) -> None:
    with contextlib.suppress(ValueError):  # the program may have reset the filters
        warnings.filters.remove(entry)  # type: ignore[attr-defined]
