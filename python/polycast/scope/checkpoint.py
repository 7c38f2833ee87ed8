"""Patches that make activation checkpointing rerun a function under the policies of its first run.

PyTorch restores only the autocast state of devices. Its public functions look up the implementations of checkpoints in
their module at each call, so we replace these attributes. The private ``torch.distributed._composable`` imports an
implementation by name, so it follows policies only if it is imported after polycast.
"""

from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any

from polycast._replaced import Undo, replace
from polycast.scope import scopes
from polycast.torch_internals import CHECKPOINTS_WITHOUT_REENTRANT


def keep_policies(module: ModuleType, undo: Undo) -> None:
    """Make the checkpoints of a module rerun their functions under the policies of the first run."""
    reentrant = module.CheckpointFunction.forward

    @wraps(reentrant)
    def forward(ctx: Any, function: Callable[..., object], *args: Any) -> Any:
        return reentrant(ctx, _bound(function), *args)

    replace(module.CheckpointFunction, "forward", staticmethod(forward), undo)
    name = next((name for name in CHECKPOINTS_WITHOUT_REENTRANT if hasattr(module, name)), None)
    if name is not None:
        plain = getattr(module, name)

        @wraps(plain)
        def without_reentrant(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Any:
            return plain(_bound(function), *args, **kwargs)

        replace(module, name, without_reentrant, undo)


def _bound(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that calls the given function in the present scope of this thread."""
    return partial(scopes.run_in, scopes.held(), function)
