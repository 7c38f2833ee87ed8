"""User code within a sync-free step reads unscaled and clipped gradients, as with stock PyTorch."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tests.scaler.common import INF, SCALE, SHAPES, Wrapper, give, started
from tests.support.optimizers import clip, parameters

See = Callable[..., None]


def subclass(optimizer: Any, see: See) -> Any:
    """Change the class of the optimizer to a subclass whose step reads gradients, and return the optimizer."""
    base: Any = type(optimizer)

    class Seeing(base):  # type: ignore[misc]
        def step(self, *args: Any, **kwargs: Any) -> Any:
            see()
            return super().step(*args, **kwargs)

    optimizer.__class__ = Seeing
    return optimizer


def replace(optimizer: Any, see: See) -> None:
    """Replace the step of the optimizer with a function with the metadata of the original step."""
    step = optimizer.step

    def seeing(*args: Any, **kwargs: Any) -> Any:
        see()
        return step(*args, **kwargs)

    seeing.__dict__.update(_wrapped_by_lr_sched=True, __wrapped__=step.__func__, __module__=step.__module__)
    optimizer.step = seeing


#: Each change makes a step call user code. A change may return another optimizer or a hook's handle.
SEERS: dict[str, Callable[[Any, See], Any]] = {
    "a hook": lambda it, see: it.register_step_pre_hook(see),
    "a hook after the step": lambda it, see: it.register_step_post_hook(see),
    "a hook of all optimizers": lambda _, see: register_optimizer_step_pre_hook(see),
    "a hook of all optimizers after the step": lambda _, see: register_optimizer_step_post_hook(see),
    "a subclass": subclass,
    "a subclass with a schedule": lambda it, see: lr_scheduler.StepLR(subclass(it, see), 100),
    "another step": replace,
    "a wrapper": lambda it, see: subclass(Wrapper(it), see),
}


def trained(scaler: Any, library: Any, seer: str, look: str) -> list[Tensor]:
    """Train for three steps, one of them skipped, and return the gradients that ``see`` read, and the parameters."""
    params, seen = parameters(*SHAPES), list[Tensor]()

    def see(*_: Any) -> None:
        if number != 1:  # The skipped step of a sync-free optimizer also calls `see`.
            seen.extend(param.grad.clone() for param in params if param.grad is not None)
        torch.nn.utils.clip_grad_norm_(params, 0.3)

    optimizer = library.SGD(params, lr=1.0, momentum=0.9)
    changed = SEERS[seer](optimizer, see)
    optimizer = changed if isinstance(changed, Wrapper) else optimizer
    for number, bad in enumerate([None, INF, None]):
        give(params, number, bad)
        if look == "clip_grad_norm":
            clip(scaler, optimizer, 0.5)
        elif look != "step":
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update(SCALE)
    if hasattr(changed, "remove"):
        changed.remove()
    return seen + params


@pytest.mark.parametrize(
    ("seer", "look"),
    [
        *((seer, "clip_grad_norm") for seer in SEERS),
        *((seer, look) for seer in ("a hook", "a hook after the step") for look in ("step", "unscale_")),
        ("a hook of all optimizers after the step", "step"),
    ],
)
def test_code_within_a_step_reads_and_clips_the_gradients_of_stock_pytorch(seer: str, look: str) -> None:
    found = trained(started(), syncfree, seer, look)
    wanted = trained(started(Scaler("cpu", init_scale=SCALE)), torch.optim, seer, look)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "use",
    [
        lambda _: nullcontext(),
        lambda optimizer: nullcontext(lr_scheduler.ExponentialLR(optimizer, 0.5)),
        lambda optimizer: nullcontext(polycast.SkipAwareLR(optimizer, lambda steps: 0.5**steps, started())),
        lambda optimizer: polycast.debug.watch(torch.nn.Linear(1, 1), optimizer),
    ],
    ids=["alone", "a schedule", "a SkipAwareLR", "watch"],
)
@pytest.mark.parametrize("look", ["step", "clip_grad_norm"])
def test_gradients_that_no_code_reads_do_not_change(look: str, use: Callable[[Any], Any]) -> None:
    """Without hooks, a sync-free step on the CPU does not change ``.grad`` (specification 8.2)."""
    params = parameters(*SHAPES)
    optimizer, scaler = syncfree.AdamW(params, lr=0.1), started()
    give(params, 0)
    given = [param.grad.clone() for param in params if param.grad is not None]
    with use(optimizer):
        if look == "clip_grad_norm":
            scaler.clip_grad_norm(optimizer, 0.5)
        scaler.step(optimizer)
    assert all(param.grad is not None and param.grad.equal(grad) for param, grad in zip(params, given, strict=True))
