"""Norms over shards are those of the whole gradients. How training with them goes: programs.py."""

from typing import Any

import polycast
import torch
from polycast import syncfree

from tests.support.sharded.models import INF, MAKERS, SCALE, assert_same, give, leaves, partial, placed, started, whole
from tests.support.sharded.world import check, distributed, rank, size


@check
def norms_are_those_of_the_whole_gradients() -> None:
    for norm_type, kind in [
        *[(norm_type, "sync-free") for norm_type in (1.0, 3.0, INF)],
        *[(2.0, kind) for kind in MAKERS],
    ]:
        params = leaves()
        give(params, 0)
        params[0].grad = partial(whole(params[0].grad))  # type: ignore[arg-type]
        grads = [whole(param.grad).clone() / SCALE for param in params]  # type: ignore[arg-type]
        optimizer, scaler = MAKERS[kind](params), started()
        if kind != "sync-free":  # torch.optim takes no lists that are mixed
            optimizer.param_groups[0]["foreach"] = optimizer.param_groups[0]["fused"] = False
        norm, wanted = (
            scaler.clip_grad_norm(optimizer, 1e-3, norm_type),
            torch.nn.utils.get_total_norm(grads, norm_type),
        )
        assert type(norm) is torch.Tensor
        torch.testing.assert_close(norm, wanted, rtol=1e-6, atol=0)
        if kind != "sync-free":
            assert_same([param.grad for param in params], [grad * 1e-3 / (wanted + 1e-6) for grad in grads])  # type: ignore[misc]


@check
def norms_of_large_gradients_do_not_overflow() -> None:
    param = placed(torch.zeros(4, 3), "0").requires_grad_()
    param.grad = placed(torch.full((4, 3), 1e20), "0")
    norm = started(scale=1.0).clip_grad_norm(syncfree.SGD([param]), 1.0)
    torch.testing.assert_close(norm, torch.tensor(12**0.5 * 1e20))


@check
def a_norm_is_of_float64_though_its_gradients_are_missing_on_one_rank() -> None:
    params: list[Any] = [
        placed(torch.ones(4, 3, dtype=dtype), "0").requires_grad_() for dtype in (torch.float32, torch.float64)
    ]
    for param in params:
        param.grad = placed(torch.full((4, 3), 2 * SCALE, dtype=param.dtype), "0")
    if rank() == size() - 1 and size() > 1:
        params[1].grad = None
    parts = [param.grad._local_tensor.double() / SCALE for param in params if param.grad is not None]
    total = torch.cat(parts).square().sum()
    distributed.all_reduce(total)
    torch.testing.assert_close(started().clip_grad_norm(syncfree.SGD(params), 1.0), total.sqrt())


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
