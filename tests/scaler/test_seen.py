"""Gradients that somebody can see within a sync-free step: they are what stock shows, unscaled and clipped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tests.scaler.common import SCALE, SHAPES, Wrapper, give, started
from tests.support.optimizers import parameters


def clipped(optimizer: Any, *_: Any) -> None:
    """Do what a trainer does in a hook: the norm that it finds decides."""
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.3)


def subclass(optimizer: Any) -> Any:
    """Return the optimizer, of a subclass whose step clips."""
    base: Any = type(optimizer)

    class Clipping(base):  # type: ignore[misc]
        def step(self, *args: Any, **kwargs: Any) -> Any:
            clipped(self)
            return super().step(*args, **kwargs)

    optimizer.__class__ = Clipping
    return optimizer


def replaced(optimizer: Any) -> Any:
    """Return the optimizer with a step of its own, that passes for the one it calls."""
    step = optimizer.step

    def clipping(*args: Any, **kwargs: Any) -> Any:
        clipped(optimizer)
        return step(*args, **kwargs)

    clipping.__dict__.update(_wrapped_by_lr_sched=True, __wrapped__=step.__func__, __module__=step.__module__)
    optimizer.step = clipping
    return optimizer


class ClippingWrapper(Wrapper):
    """Clips before it steps what it holds."""

    def step(self, closure: Any = None) -> Any:
        clipped(self.optimizer)
        return super().step(closure)


def hooked(optimizer: Any) -> Any:
    optimizer.register_step_pre_hook(clipped)
    return optimizer


def scheduled(optimizer: Any) -> Any:
    """Return what `subclass` does, with a schedule, which wraps the step once more."""
    lr_scheduler.StepLR(subclass(optimizer), 100)
    return optimizer


@contextmanager
def hooked_globally(optimizer: Any) -> Iterator[Any]:
    handle = register_optimizer_step_pre_hook(clipped)
    yield optimizer
    handle.remove()


@contextmanager
def plainly(optimizer: Any) -> Iterator[Any]:
    yield optimizer


EDITS: dict[str, Any] = {
    "a hook": hooked,
    "a hook of all optimizers": hooked_globally,
    "a subclass": subclass,
    "a subclass with a schedule": scheduled,
    "another step": replaced,
    "a wrapper": ClippingWrapper,
}
LOOKS = ("step", "unscale_", "clip_grad_norm")


def trained(scaler: Any, library: Any, edit: str, look: str) -> list[Tensor]:
    params: list[Any] = [param.requires_grad_() for param in parameters(*SHAPES)]
    made = EDITS[edit](library.SGD(params, lr=1.0, momentum=0.9))
    for number, bad in enumerate([None, float("inf"), None]):
        give(params, number, bad)
        with made if hasattr(made, "__enter__") else plainly(made) as optimizer:
            if look != "step" and isinstance(scaler, polycast.GradScaler):
                getattr(scaler, look)(optimizer, *([0.5] if look == "clip_grad_norm" else []))
            elif look != "step":
                scaler.unscale_(optimizer)
                if look == "clip_grad_norm":
                    torch.nn.utils.clip_grad_norm_(params, 0.5)
            scaler.step(optimizer)
            scaler.update(SCALE)
        made = EDITS[edit](optimizer) if hasattr(made, "__enter__") else made
    return params


@pytest.mark.parametrize(
    ("edit", "look"), [*((edit, "clip_grad_norm") for edit in EDITS), ("a hook", "step"), ("a hook", "unscale_")]
)
def test_who_clips_within_the_step_clips_as_in_stock(edit: str, look: str) -> None:
    found = trained(started(), syncfree, edit, look)
    wanted = trained(started(Scaler("cpu", init_scale=SCALE)), torch.optim, edit, look)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("look", "register"),
    [*((look, "register_step_post_hook") for look in LOOKS), ("step", register_optimizer_step_post_hook)],
)
def test_a_hook_after_the_step_sees_what_it_sees_in_stock(look: str, register: Any) -> None:
    params: list[Any] = parameters(*SHAPES)
    optimizer, scaler = syncfree.AdamW(params), started()
    give(params, 0)
    wanted = [param.grad / SCALE for param in params]
    norm = torch.nn.utils.get_total_norm(wanted)
    seen: list[Tensor] = []
    handle = (getattr(optimizer, register) if isinstance(register, str) else register)(
        lambda *_: seen.extend(param.grad.clone() for param in params)
    )
    if look == "clip_grad_norm":
        assert norm > 0.5
        wanted = [grad * 0.5 / norm for grad in wanted]
        torch.testing.assert_close(scaler.clip_grad_norm(optimizer, 0.5), norm)
    elif look == "unscale_":
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    handle.remove()
    torch.testing.assert_close(seen, wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    "use",
    [
        lambda _: None,
        lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5),
        lambda optimizer: polycast.SkipAwareLR(optimizer, lambda steps: 0.5**steps, started()),
        lambda optimizer: polycast.debug.watch(torch.nn.Linear(1, 1), optimizer).__enter__(),
    ],
    ids=["alone", "a schedule", "a schedule of real steps", "watch"],
)
def test_gradients_that_nobody_sees_stay_as_they_are(use: Callable[[Any], Any]) -> None:
    params: list[Any] = parameters(*SHAPES)
    optimizer, scaler = syncfree.AdamW(params, lr=0.1), started()
    used = use(optimizer)
    for look in ("step", "clip_grad_norm"):
        give(params, 0)
        given = [param.grad.clone() for param in params]
        if look == "clip_grad_norm":
            scaler.clip_grad_norm(optimizer, 0.5)
        scaler.step(optimizer)
        scaler.update(SCALE)
        assert all(map(torch.equal, [param.grad for param in params], given))
    if hasattr(used, "__exit__"):
        used.__exit__(None, None, None)


@pytest.mark.parametrize("look", ["step", "clip_grad_norm"])
def test_float16_gradients_that_can_be_seen_are_refused_and_nothing_is_written(look: str) -> None:
    weight: Any = torch.ones(2, dtype=torch.float16, requires_grad=True)
    optimizer, scaler = hooked(syncfree.SGD([("body", weight)], lr=1.0, state_dtype=torch.float32)), started()
    weight.grad = torch.full_like(weight, 3.0)
    if look == "clip_grad_norm":
        scaler.clip_grad_norm(optimizer, 0.5)
    text = r"^Attempting to unscale FP16 gradients\. That of body is float16: .*, without unscale_, step hooks, a"
    with pytest.raises(ValueError, match=text):
        scaler.step(optimizer)
    assert (weight.tolist(), weight.grad.tolist()) == ([1.0] * 2, [3.0] * 2)
