"""Norms over shards are those of the whole gradients, and training with clipping is torch's."""

from typing import Any

import polycast
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.support.sharded.models import (
    INF,
    MAKERS,
    SCALE,
    assert_same,
    give,
    leaves,
    loss,
    model,
    partial,
    placed,
    poison,
    whole,
)
from tests.support.sharded.world import check


def clip(scaler: Any, optimizer: Any, params: list[Tensor], norm_type: float = 2.0) -> Tensor:
    """Clip as one does with the scaler: ours does it in the step."""
    if isinstance(scaler, polycast.GradScaler):
        norm: Tensor = scaler.clip_grad_norm(optimizer, 0.1, norm_type)
        assert type(norm) is Tensor
        return norm
    scaler.unscale_(optimizer)
    return whole(torch.nn.utils.clip_grad_norm_(params, 0.1, norm_type))


def trained(scaler: Any, kind: str, clips: bool, unscales: bool = False) -> tuple[nn.Module, list[Any]]:
    layers = model()
    optimizer, seen = MAKERS[kind](layers.parameters()), []
    for number in range(10):
        scaler.scale(loss(layers, number)).backward()
        if number in (3, 6):
            poison(layers)
        if unscales:
            scaler.unscale_(optimizer)
        if clips:
            norm = clip(scaler, optimizer, list(layers.parameters()))
            seen.append(norm if number not in (3, 6) else not norm.isfinite())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        seen.append(torch.tensor(scaler.get_scale()))
    return layers, seen


def check_training(clips: bool, **options: Any) -> None:
    theirs, wanted = trained(Scaler("cpu", init_scale=SCALE, growth_interval=4), "fused", clips)
    for kind in MAKERS:
        ours, found = trained(polycast.GradScaler("cpu", init_scale=SCALE, growth_interval=4), kind, clips, **options)
        assert_same(ours.parameters(), theirs.parameters(), tolerance=3e-6)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)


@check
def training_is_torchs() -> None:
    check_training(clips=False)


@check
def training_with_clipping_and_unscaling_is_torchs() -> None:
    check_training(clips=True)
    check_training(clips=True, unscales=True)


@check
def norms_are_those_of_the_whole_gradients() -> None:
    for norm_type, kind in [
        (1.0, "sync-free"),
        (3.0, "sync-free"),
        (INF, "sync-free"),
        *[(2.0, kind) for kind in MAKERS],
    ]:
        params = leaves()
        give(params, 0)
        params[0].grad = partial(whole(params[0].grad))  # type: ignore[arg-type]
        grads = [whole(param.grad).clone() / SCALE for param in params]  # type: ignore[arg-type]
        optimizer, scaler = MAKERS[kind](params), polycast.GradScaler(init_scale=SCALE)
        scaler.scale(torch.ones(1))
        if kind != "sync-free":  # torch.optim takes no lists that are mixed
            optimizer.param_groups[0]["foreach"] = optimizer.param_groups[0]["fused"] = False
        norm, wanted = (
            scaler.clip_grad_norm(optimizer, 1e-3, norm_type),
            torch.nn.utils.get_total_norm(grads, norm_type),
        )
        torch.testing.assert_close(norm, wanted, rtol=1e-6, atol=0)
        if kind != "sync-free":
            assert_same([param.grad for param in params], [grad * 1e-3 / (wanted + 1e-6) for grad in grads])  # type: ignore[misc]


@check
def norms_of_large_gradients_do_not_overflow() -> None:
    param = placed(torch.zeros(4, 3), "0").requires_grad_()
    optimizer, scaler = syncfree.SGD([param]), polycast.GradScaler(init_scale=1.0)
    scaler.scale(torch.ones(1))
    param.grad = placed(torch.full((4, 3), 1e20), "0")
    torch.testing.assert_close(scaler.clip_grad_norm(optimizer, 1.0), torch.tensor(12**0.5 * 1e20))


@check
def a_disabled_scaler_clips() -> None:
    params = leaves()
    give(params, 0)
    grads = [whole(param.grad).clone() for param in params]  # type: ignore[arg-type]
    versions = [param.grad._version for param in params]  # type: ignore[union-attr]
    scaler = polycast.GradScaler("cpu", enabled=False)
    norm = scaler.clip_grad_norm(syncfree.SGD(params), 0.5)
    torch.testing.assert_close(norm, torch.nn.utils.get_total_norm(grads))
    assert_same([param.grad for param in params], [grad * 0.5 / (norm + 1e-6) for grad in grads])  # type: ignore[misc]
    assert all(param.grad._version > version for param, version in zip(params, versions, strict=True))  # type: ignore[union-attr]
