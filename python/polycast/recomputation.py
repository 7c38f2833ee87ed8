"""Activation checkpointing that runs its function again under the policy of its forward.

Torch restores the device and the dtype of the region only. Both of its ways are kept in two names of
``torch.utils.checkpoint``, which it looks up at each call, so that it does not matter who imported what before.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from polycast import scopes


def keep_policies() -> None:
    """Have checkpoints keep the policies of their forward, from now on."""
    from torch.utils import checkpoint

    plain, reentrant = checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction.forward
    if hasattr(plain, "__wrapped__"):
        return

    @wraps(plain)
    def without_reentrant(function: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        return plain(_bound(function), *args, **kwargs)

    @wraps(reentrant)
    def forward(ctx: Any, function: Callable[..., object], *args: Any) -> Any:
        return reentrant(ctx, _bound(function), *args)  # type: ignore[no-untyped-call]

    vars(checkpoint)[plain.__name__] = without_reentrant
    type.__setattr__(checkpoint.CheckpointFunction, "forward", staticmethod(forward))


def _bound(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function, to be run in what holds here."""
    return partial(scopes.run_in, scopes.scope(), function) if scopes.is_numbered() else function
