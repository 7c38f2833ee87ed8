"""The module that a call is made in, or whose backward it is a part of."""

import contextlib
import threading
import warnings
import weakref
from bisect import bisect_right
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from polycast._compiled import set_place
from polycast.scope.models import COMPILED
from polycast.scope.wrappers import model_in, modules_in

OUTSIDE = -1


class _Stack(threading.local):
    """The modules whose forward a thread is in, by their numbers."""

    def __init__(self) -> None:
        self.modules: list[int] = []


class Places:
    """Follows which module's forward a thread is in, by its name in the model.

    Without a model every module that is called gets a name: the class of the outermost one, and the names within it. A
    second instance of the class is "Net#2", unless the names of all instances are to be the same.
    The hooks are torch's hooks for all modules. Hooks of a single module would change the program: torch runs other
    code for a module that has some, scripted modules take none, and a copy keeps them. ``torch.utils.module_tracker``
    does not say which module is the innermost, and hooks gradients.
    """

    def __init__(self, model: nn.Module | None, *, numbered: bool = True) -> None:
        self.names: list[str] = []
        self._numbered = numbered
        # The names of the model's weights, by Tensor._cdata.
        self.weights = {} if model is None else {weight._cdata: name for name, weight in model.named_parameters()}
        self._numbers: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._stack = _Stack()
        # From each of these numbers on, autograd nodes were made in that module; numbers only grow.
        self._nodes: list[tuple[int, int]] = []
        self._handles: list[RemovableHandle] = []
        self._thread = threading.get_ident()
        self._finds = model is None
        if model is not None:
            self._name(model.named_modules())

    def __enter__(self) -> "Places":
        warnings.filterwarnings("ignore", message=COMPILED)
        self._filter = warnings.filters[0]
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        with contextlib.suppress(ValueError):  # the program may have reset them
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        set_place(OUTSIDE)

    def name(self, place: int) -> str:
        """Return the name of a module by its number; "" for the model itself and outside of modules."""
        return "" if place == OUTSIDE else self.names[place]

    def name_in_backward(self, node: torch.autograd.graph.Node) -> str:
        """Return the name of the module whose forward made a node, or of the weight whose gradient it adds."""
        weight = getattr(node, "variable", None)
        return self.name(self._of_node(node)) if weight is None else self.weights.get(weight._cdata, "")

    def forget_nodes(self) -> None:
        """Forget the nodes so far, whose backward is over."""
        self._nodes.clear()

    def here(self) -> int:
        """Return the number of the module that this thread is in."""
        modules = self._stack.modules
        return modules[-1] if modules else OUTSIDE

    def _of_node(self, node: torch.autograd.graph.Node) -> int:
        number: int = node._sequence_nr()  # type: ignore[attr-defined]
        place = bisect_right(self._nodes, number, key=lambda pair: pair[0]) - 1
        return OUTSIDE if place < 0 else self._nodes[place][1]

    def _name(self, modules: Iterable[tuple[str, nn.Module]]) -> None:
        known = {} if self._numbered else {name: number for number, name in enumerate(self.names)}
        for name, module in modules:
            if module not in self._numbers:
                self._numbers[module] = known.get(name, len(self.names))
                if name not in known:
                    self.names.append(name)

    def _enter(self, module: nn.Module, _: object) -> None:
        if torch.compiler.is_compiling():
            return
        if module not in self._numbers:
            if not self._finds:
                return
            model = model_in(module)
            if model not in self._numbers:
                name = type(model).__name__
                count = self._numbered and sum("." not in one and one.partition("#")[0] == name for one in self.names)
                self._name(modules_in(model, f"{name}#{count + 1}" if count else name))
            self._numbers[module] = self._numbers[model]
        self._stack.modules.append(self._numbers[module])
        self._moved()

    def _leave(self, module: nn.Module, _args: object, _output: object) -> None:
        if not torch.compiler.is_compiling() and self._numbers.get(module, OUTSIDE) == self.here() != OUTSIDE:
            self._stack.modules.pop()
            self._moved()

    def _moved(self) -> None:
        set_place(self.here())
        if threading.get_ident() == self._thread:  # other threads number their nodes themselves
            self._nodes.append((torch._C._autograd._get_sequence_nr(), self.here()))
