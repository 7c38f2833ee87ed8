"""The module that a call is made in, or whose backward it is a part of."""

import contextlib
import threading
import warnings
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from polycast._compiled import set_module

OUTSIDE = -1
# Torch warns of hooks for all modules beside compiled ones. Ours take the model that is in the wrapper.
_COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"
# Where torch's wrappers, which call a model of the user's, have it.
_WRAPPED = {
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.ActivationWrapper": "_checkpoint_wrapped_module",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
}


def _model_in(module: nn.Module) -> nn.Module:
    """Return the model that a module is, or that torch's wrappers hold."""
    while (name := _wrapped(module)) is not None:
        module = getattr(module, name)
    return module


def _modules_in(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the names of a model and of all modules in it, with each module. Wrappers have no part in a name."""
    model = _model_in(module)
    yield name, model
    for part, child in model._modules.items():
        if child is not None:
            yield from _modules_in(child, f"{name}.{part}")


def _wrapped(module: nn.Module) -> str | None:
    names = (_WRAPPED.get(f"{cls.__module__}.{cls.__qualname__}") for cls in type(module).__mro__)
    return next((name for name in names if name is not None), None)


class _Stack(threading.local):
    """The modules whose forward a thread is in, by their numbers."""

    def __init__(self) -> None:
        self.modules: list[int] = []


class Places:
    """Follows which module's forward a thread is in, by its name in the model.

    Without a model every module that is called gets a name: the class of the outermost one, and the names within it. A
    second instance of the class is "Net#2".
    The hooks are torch's hooks for all modules. Hooks of a single module would change the program: torch runs other
    code for a module that has some, scripted modules take none, and a copy keeps them. ``torch.utils.module_tracker``
    does not say which module is the innermost, and hooks gradients.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self.names: list[str] = []
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
        warnings.filterwarnings("ignore", message=_COMPILED)
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
        set_module(OUTSIDE)

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
        for name, module in modules:
            if module not in self._numbers:
                self._numbers[module] = len(self.names)
                self.names.append(name)

    def _enter(self, module: nn.Module, _: object) -> None:
        if torch.compiler.is_compiling():
            return
        if module not in self._numbers:
            if not self._finds:
                return
            model = _model_in(module)
            if model not in self._numbers:
                name = type(model).__name__
                count = sum("." not in one and one.partition("#")[0] == name for one in self.names)
                self._name(_modules_in(model, f"{name}#{count + 1}" if count else name))
            self._numbers[module] = self._numbers[model]
        self._stack.modules.append(self._numbers[module])
        self._moved()

    def _leave(self, module: nn.Module, _args: object, _output: object) -> None:
        if not torch.compiler.is_compiling() and self._numbers.get(module, OUTSIDE) == self.here() != OUTSIDE:
            self._stack.modules.pop()
            self._moved()

    def _moved(self) -> None:
        set_module(self.here())
        if threading.get_ident() == self._thread:  # other threads number their nodes themselves
            self._nodes.append((torch._C._autograd._get_sequence_nr(), self.here()))
