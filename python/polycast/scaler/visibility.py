"""Who can see the gradients within a step.

Note [Gradients within a step]

A sync-free step divides and clips gradients in registers, so ``.grad`` stays scaled. Code that runs within a step of
torch's scaler sees unscaled gradients, and must see the same here. So the fast way needs three things: the step is the
one of polycast.syncfree, there is no step hook, and there is no closure. Otherwise the gradients are unscaled and
clipped in place before the step, which costs one more pass that writes.
"""

from typing import Any

from torch.optim import optimizer as torchs

from polycast.syncfree.step import SyncFreeOptimizer

# Modules of torch that wrap a step and leave gradients alone: one calls hooks, the other counts steps.
_AROUND = ("torch.optim.optimizer", "torch.optim.lr_scheduler")


def can_be_seen(optimizer: Any, closure: Any = None) -> bool:
    """Return whether code other than polycast.syncfree's step can see gradients in ``optimizer.step(closure)``."""
    step: Any = getattr(optimizer.step, "__func__", optimizer.step)
    # A function's globals are its own; functools.wraps copies other attributes from the wrapped one.
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
            # Our hooks and the profiler's count steps. They do not read gradients.
            if module.partition(".")[0] != "polycast" and module != "torch.profiler":
                return True
    return False
