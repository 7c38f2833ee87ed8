"""Activation checkpointing that reruns its function under the policies of its forward.

Torch restores the device and the dtype of the region only. It has two kinds of checkpoints, and looks both up by
names of its module at each call.
"""

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from polycast._replaced import Undo, replace
from polycast.scope import scopes
from polycast.torch_internals import CHECKPOINTS_WITHOUT_REENTRANT


def keep_policies(module: ModuleType, undo: Undo) -> None:
    """Have the checkpoints of a module keep the policies of their forward."""
    reentrant = module.CheckpointFunction.forward

    @wraps(reentrant)
    def forward(ctx: Any, function: Callable[..., object], *args: Any) -> Any:
        return reentrant(ctx, _bound(function), *args)

    replace(module.CheckpointFunction, "forward", staticmethod(forward), undo)
    name = next((name for name in CHECKPOINTS_WITHOUT_REENTRANT if hasattr(module, name)), None)
    if name is not None:
        plain = getattr(module, name)

        @wraps(plain)
        def without_reentrant(function: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
            return plain(_bound(function), *args, **kwargs)

        replace(module, name, without_reentrant, undo)


def _bound(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function bound to the scope of this thread."""
    held = scopes.held()

    def run(*args: Any, **kwargs: Any) -> object:
        return scopes.run_in(held, function, *args, **kwargs)

    return run
