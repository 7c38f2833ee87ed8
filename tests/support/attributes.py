"""The state of PyTorch's modules and of the process, and the changes of this state."""

import atexit
import builtins
import collections
import copyreg
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import torch

PACKAGES = ("torch", "torch_xla", "functorch", "torchgen")
# `torch._dynamo.reset()` clears or recreates these attributes. polycast calls `reset()` after a change of the kernels.
RESET = (
    "torch._dynamo.eval_frame.cached_backends",
    "torch._dynamo.mutation_guard.GenerationTracker.dynamic_classes",
    "torch._dynamo.mutation_guard.GenerationTracker.generation_values",
    "torch._dynamo.compiled_autograd.COMPILE_COUNTER",
    "torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.",
    "torch._higher_order_ops.wrap.inductor_code_side_table.",
)
# Python's registry of overloads has our functions under this path.
OVERLOADS = "_overload_registry.polycast."


class Attributes:
    """The attributes of all objects in the imported modules of PyTorch, and the state of the process."""

    def __init__(self) -> None:
        self.values = dict(_values())

    def changed(self) -> list[str]:
        """Return the paths of attributes that changed, disappeared or are new, except in ``RESET`` or ``OVERLOADS``."""
        now, missing = dict(_values()), object()
        return [
            place
            for place in {**self.values, **now}
            if self.values.get(place, missing) is not now.get(place, missing)
            and not place.startswith(RESET)
            and OVERLOADS not in place
        ]


def dump() -> list[str]:
    """Return each operator's registrations in the dispatcher, and its active kernel for each key."""
    names = sorted(torch._C._dispatch_get_all_op_names())
    return [f"{name}\n{torch._C._dispatch_dump(name)}{torch._C._dispatch_dump_table(name)}" for name in names]


def _values() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and isinstance(module, ModuleType):
            yield from _parts(name, module, seen)
    hooks = [sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGINT), warnings.showwarning]
    process = {
        "sys.meta_path": sys.meta_path,
        "sys.path_hooks": sys.path_hooks,
        "sys.path": sys.path,
        "os.environ": vars(os.environ)["_data"],
        "warnings.filters": warnings.filters,
        "copyreg.dispatch_table": copyreg.dispatch_table,
        "gc.callbacks": gc.callbacks,
        "builtins": vars(builtins),
        "hooks": [*hooks, sys.gettrace(), sys.getprofile(), atexit._ncallbacks()],
    }
    for name, value in process.items():
        yield from _parts(name, value, seen)


def _parts(place: str, value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield all parts of a value, with their paths."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if issubclass(type(value), type):  # A class has one path, by its own name.
        place = f"{value.__module__}.{value.__qualname__}"
    for name, part in _held(value):
        yield f"{place}.{name}", part
        if not issubclass(type(part), ModuleType):
            yield from _parts(f"{place}.{name}", part, seen)


def _held(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)  # `isinstance` would load a lazy object.
    if issubclass(kind, dict | WeakKeyDictionary | WeakValueDictionary):
        return [(_name(key), part) for key, part in list(value.items())]
    if issubclass(kind, set | frozenset | WeakSet):
        return [(_name(part), part) for part in list(value)]
    if issubclass(kind, list | tuple | collections.deque):
        return [(str(place), part) for place, part in enumerate(value)]
    is_theirs = (value if issubclass(kind, type) else kind).__module__.partition(".")[0] in PACKAGES
    if issubclass(kind, type):
        return list(vars(value).items()) if is_theirs else []
    if not (is_theirs or issubclass(kind, ModuleType | FunctionType)) or issubclass(kind, torch.Tensor):
        return []
    try:
        return list(object.__getattribute__(value, "__dict__").items())
    except AttributeError:
        return []


def _name(key: Any) -> str:
    return key if type(key) is str else f"<{type(key).__name__} {id(key) if type(key) is not int else key}>"
