"""GradScaler over DTensors: every rank takes the same decision, and norms are those of the whole gradients."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.optim import lr_scheduler

from tests import sharded
from tests.sharded import CHECKS, assert_same, check, distributed, loss, model, partial, placed, rank, size, whole
from tests.test_sharded_optimizers import give, leaves

INF = float("inf")
SCALE = 1024.0
NORMS = (1.0, 2.0, 3.0, INF)
MAKERS: dict[str, Callable[[Any], Any]] = {
    "sync-free": lambda params: syncfree.AdamW(params, lr=0.05),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.05, fused=True),
    "foreach": lambda params: torch.optim.AdamW(params, lr=0.05, foreach=True),
}


def poison(layers: nn.Module) -> None:
    """Put an infinity where only the last rank sees it, if it has elements there."""
    grad: Any = next(layers.parameters()).grad
    if rank() == size() - 1:
        grad._local_tensor.view(-1)[0] = INF


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
def training_with_clipping_is_torchs() -> None:
    check_training(clips=True)


@check
def training_with_unscaling_is_torchs() -> None:
    check_training(clips=True, unscales=True)


@check
def norms_are_those_of_the_whole_gradients() -> None:
    for norm_type in NORMS:
        for kind in MAKERS if norm_type == 2 else ("sync-free",):
            params = leaves()
            give(params, 0)
            params[0].grad = partial(whole(params[0].grad))  # type: ignore[arg-type]
            grads = [whole(param.grad).clone() / SCALE for param in params]  # type: ignore[arg-type]
            optimizer, scaler = MAKERS[kind](params), polycast.GradScaler(init_scale=SCALE)
            scaler.scale(torch.ones(1))
            if kind != "sync-free":  # torch.optim takes no lists that are mixed
                optimizer.param_groups[0]["foreach"] = optimizer.param_groups[0]["fused"] = False
            norm = scaler.clip_grad_norm(optimizer, 1e-3, norm_type)
            wanted = torch.nn.utils.get_total_norm(grads, norm_type)
            torch.testing.assert_close(norm, wanted, rtol=1e-6, atol=0)
            if kind != "sync-free":
                torch.nn.utils.clip_grads_with_norm_(clipped := clones_with(grads), 1e-3, wanted)
                assert_same([param.grad for param in params], [one.grad for one in clipped])  # type: ignore[misc]


def clones_with(grads: list[Tensor]) -> list[Tensor]:
    params = [torch.zeros_like(grad) for grad in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    return params


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


@check
def what_one_rank_finds_all_know() -> None:
    for unscales in (False, True):
        layers = model()
        optimizer = syncfree.AdamW(layers.named_parameters())
        scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE)
        for number in range(2):
            scaler.scale(loss(layers, number)).backward()
            if number == 0:
                poison(layers)
            if unscales:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            assert scaler.skipped(optimizer).item() == (number == 0)
            assert scaler.non_finite(optimizer) == (["0.weight"] if number == 0 else [])
        assert scaler.skip_count(optimizer).item() == 1
        assert scaler.get_scale() == SCALE / 2


@check
def a_plain_gradient_of_one_rank_counts_too() -> None:
    sharded_param, plain = placed(torch.ones(4, 3), "0").requires_grad_(), torch.ones(2, requires_grad=True)
    optimizer, scaler = syncfree.SGD([sharded_param, plain]), polycast.GradScaler("cpu", init_scale=SCALE)
    scaler.scale(torch.ones(1))
    sharded_param.grad, plain.grad = placed(torch.ones(4, 3), "0"), torch.ones(2)
    if rank() == 0:
        plain.grad[0] = INF
    scaler.step(optimizer)
    scaler.update()
    assert scaler.skipped(optimizer).item()
    assert scaler.get_scale() == SCALE / 2


@check
def optimizers_step_together_or_not_at_all() -> None:
    for report_skips in (False, True):
        first, second = model(), model(1)
        before = [whole(param).clone() for param in second.parameters()]
        optimizers = [
            syncfree.AdamW(first.parameters(), lr=0.1),
            torch.optim.AdamW(second.parameters(), lr=0.1, fused=True),
        ]
        scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE, report_skips=report_skips)
        for number in range(2):
            scaler.scale(loss(first, number) + loss(second, number)).backward()
            if number == 0:
                poison(first)
            scaler.step_together(*optimizers)
            scaler.update()
            assert [scaler.skipped(optimizer).item() for optimizer in optimizers] == [number == 0] * 2
            after = [whole(param) for param in second.parameters()]
            assert all(map(torch.equal, after, before)) == (number == 0)
            for optimizer in optimizers:
                optimizer.zero_grad()


@check
def a_reported_skip_is_that_of_all_ranks() -> None:
    for kind in MAKERS:
        called: list[int] = []
        layers = model()
        optimizer = MAKERS[kind](layers.parameters())
        optimizer.register_step_post_hook(lambda *_, called=called: called.append(1))
        scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE, report_skips=True)
        for number in range(3):
            scaler.scale(loss(layers, number)).backward()
            if number == 1:
                poison(layers)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert len(called) == 2


@check
def schedules_follow_the_steps_of_all_ranks() -> None:
    layers = model()
    optimizer = syncfree.SGD(layers.parameters(), lr=1.0)
    scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE)
    schedule = polycast.RealStepLR(lr_scheduler.ExponentialLR(optimizer, 0.5), scaler, 10)
    for number in range(3):
        scaler.scale(loss(layers, number)).backward()
        if number == 1:
            poison(layers)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
    assert schedule.get_last_lr() == [0.25]


@check
def a_sum_that_overflows_is_found() -> None:
    """Each rank's share of a pending sum is finite, the sum is not."""
    param = placed(torch.ones(4, 3), "R").requires_grad_()
    optimizer, scaler = syncfree.SGD([param]), polycast.GradScaler("cpu", init_scale=SCALE)
    scaler.scale(torch.ones(1))
    share = torch.full((4, 3), 3e38)
    param.grad = distributed.tensor.DTensor.from_local(share, sharded.mesh(0), [distributed.tensor.Partial()])
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert scaler.skipped(optimizer).item() == (size() > 1)


@pytest.mark.usefixtures("world_of_one", "one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS[__name__])
def test_in_a_world_of_one(name: str) -> None:
    CHECKS[__name__][name]()


@pytest.mark.parametrize("name", CHECKS[__name__])
def test_in_a_world_of_two(name: str) -> None:
    assert [results[f"{__name__}.{name}"] for results in sharded.results_of_two()] == ["", ""]
