"""What torch's modules and classes hold, and what of it has changed since."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

# Counters of torch, which go on after a change was undone.
COUNTERS = {"torch.utils.hooks.RemovableHandle.next_id", "torch._dynamo.compiled_autograd.COMPILE_COUNTER"}
# torch._dynamo.reset() empties these or makes them anew.
RESET = {
    "torch._dynamo.eval_frame.cached_backends",
    "torch._dynamo.mutation_guard.GenerationTracker.dynamic_classes",
    "torch._dynamo.mutation_guard.GenerationTracker.generation_values",
}


class Attributes:
    """The attributes of every module and class of torch that is imported, and the members of their containers."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = dict(_attributes())
        self.members = {place: _members(value) for place, value in self.values.items()}

    def changed(self) -> list[str]:
        """Return the attributes that hold another object since, or are gone."""
        now = dict(_attributes())
        return [
            place
            for place, value in self.values.items()
            if now.get(place) is not value and place not in COUNTERS | RESET
        ]

    def filled(self) -> list[str]:
        """Return the containers that have other members since."""
        return [
            place
            for place, value in self.values.items()
            if _members(value) != self.members[place] and place not in RESET
        ]


def _attributes() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("torch", "torch_xla") and isinstance(module, ModuleType):
            for attribute, value in list(vars(module).items()):
                yield f"{name}.{attribute}", value
                if issubclass(type(value), type) and value.__module__ == name:
                    for key, part in list(vars(value).items()):
                        yield f"{name}.{attribute}.{key}", part


def _members(value: Any) -> list[int] | None:
    kind = type(value)  # isinstance would ask a lazy object for its class
    if issubclass(kind, dict | WeakKeyDictionary):
        return [id(part) for part in value.values()]
    return [id(part) for part in value] if issubclass(kind, list | set) else None
