"""Who can see the gradients within a step.

Note [Gradients within a step]

A sync-free step divides and clips gradients in registers, so that ``.grad`` stays scaled. That must not be seen where
stock shows unscaled gradients. So the fast way is taken only where nobody can look: the step that is called is the one
of polycast.syncfree, there is no step hook, and there is no closure. In any other case gradients are unscaled and
clipped in place before the step, which costs one more pass that writes.
"""

from typing import Any

from torch.optim import optimizer as torchs

from polycast.syncfree.step import SyncFreeOptimizer

# Modules of torch whose functions around a step call it and do nothing to gradients: one calls hooks, the other counts.
_AROUND = ("torch.optim.optimizer", "torch.optim.lr_scheduler")


def can_be_seen(optimizer: Any, closure: Any = None) -> bool:
    """Return whether anybody but the step of polycast.syncfree can see gradients in ``optimizer.step(closure)``."""
    step: Any = getattr(optimizer.step, "__func__", optimizer.step)
    # Globals are a function's own, where what functools.wraps copies may be another's.
    while getattr(step, "__globals__", {}).get("__name__") in _AROUND:
        step = getattr(step, "__wrapped__", None)
    if closure is not None or step is not SyncFreeOptimizer.step:
        return True
    for hooks in (
        torchs._global_optimizer_pre_hooks,
        torchs._global_optimizer_post_hooks,
        optimizer._optimizer_step_pre_hooks,
        optimizer._optimizer_step_post_hooks,
    ):
        for hook in hooks.values():
            module: str = getattr(hook, "__module__", None) or ""
            # Ours and the profiler's count steps, and do not look at gradients.
            if module.partition(".")[0] != "polycast" and module != "torch.profiler":
                return True
    return False
