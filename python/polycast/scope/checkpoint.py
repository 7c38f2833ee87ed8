"""Activation checkpointing that runs its function again under the policy of its forward.

Torch restores the device and the dtype of the region only. Both of its ways are found under two names of a
module, which it looks up at each call.
"""

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from polycast import backends
from polycast.scope import scopes

# Since torch 2.15 the second calls the first, and so does torch.
_WITHOUT_REENTRANT = ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator")


def keep_policies() -> None:
    """Have checkpoints keep the policies of their forward, once their modules are imported."""
    for module in backends.CHECKPOINTS:
        backends.once_imported(module, _wrap)


def _wrap(module: ModuleType) -> None:
    reentrant = module.CheckpointFunction.forward

    @wraps(reentrant)
    def forward(ctx: Any, function: Callable[..., object], *args: Any) -> Any:
        return reentrant(ctx, _bound(function), *args)

    module.CheckpointFunction.forward = staticmethod(forward)
    name = next((name for name in _WITHOUT_REENTRANT if hasattr(module, name)), None)
    if name is not None:
        plain = getattr(module, name)

        @wraps(plain)
        def without_reentrant(function: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
            return plain(_bound(function), *args, **kwargs)

        setattr(module, name, without_reentrant)


def _bound(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function, to be run in what holds here."""
    held = scopes.held()

    def run(*args: Any, **kwargs: Any) -> object:
        return scopes.run_in(held, function, *args, **kwargs)

    return run
