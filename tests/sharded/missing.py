"""Gradients that are missing on some ranks: set by hand, or those of experts that a rank does not use."""

from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.support.sharded.models import INF, SCALE, placed
from tests.support.sharded.world import check, distributed, rank, size

LOOKS = ("step", "unscale_", "clip_grad_norm")


def experts(seed: int = 0) -> list[Any]:
    """Return sharded parameters of several layouts with scaled gradients."""
    generator = torch.Generator().manual_seed(seed)
    params: list[Any] = [placed(torch.ones(4, 3), *place).requires_grad_() for place in (("0",), ("1",), ("0",))]
    for param, text in zip(params, ("0", "1", "0"), strict=True):
        param.grad = placed(torch.randn(4, 3, generator=generator) * SCALE, text)
    return params


def started() -> Any:
    scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE)
    scaler.scale(torch.ones(1))
    return scaler


def local_parts(params: list[Any]) -> list[Tensor]:
    """Return this rank's parts of the gradients that are there, unscaled."""
    return [param.grad._local_tensor / SCALE for param in params if param.grad is not None]


def summed(value: float) -> float:
    total = torch.tensor(value, dtype=torch.float64)
    distributed.all_reduce(total)
    return float(total)


@check
def gradients_that_are_missing_on_one_rank_are_zero_in_the_norm_and_stay_out_of_the_step() -> None:
    for missing in ([0], [1], [0, 2], [0, 1, 2]):
        for library in (syncfree, torch.optim):
            params = experts()
            if rank() == size() - 1 and (size() > 1 or len(missing) < 3):
                for index in missing:
                    params[index].grad = None
            norm = summed(sum(part.double().square().sum().item() for part in local_parts(params))) ** 0.5
            optimizer, scaler = library.AdamW(params, foreach=False), started()
            found = scaler.clip_grad_norm(optimizer, 0.1)
            torch.testing.assert_close(found.double(), torch.tensor(norm, dtype=torch.float64), rtol=1e-6, atol=0)
            scaler.step(optimizer)
            scaler.update()
            moved = [bool((param._local_tensor != 1).any()) for param in params]
            assert moved == [param.grad is not None and param._local_tensor.numel() > 0 for param in params], library
            assert scaler.get_scale() == SCALE


@check
def what_is_not_finite_is_named_where_it_is_though_ranks_lack_different_gradients() -> None:
    for look in LOOKS:
        params = experts()
        if size() > 1:
            params[0 if rank() == 0 else 2].grad = None
        if rank() == size() - 1:
            params[1].grad._local_tensor[0, 0] = INF
        optimizer, scaler = syncfree.SGD(params, lr=1.0), started()
        if look != "step":
            getattr(scaler, look)(optimizer, *([1.0] if look == "clip_grad_norm" else []))
        scaler.step(optimizer)
        scaler.update()
        assert scaler.non_finite(optimizer) == (["param_groups[0]['params'][1]"] if rank() == size() - 1 else [])
        assert scaler.skipped(optimizer).item()
        assert scaler.get_scale() == SCALE / 2
        assert all((param._local_tensor == 1).all() for param in params)


@check
def without_a_gradient_on_any_rank_a_step_is_refused_as_in_stock() -> None:
    for look in LOOKS:
        params = experts()
        for param in params:
            param.grad = None
        optimizer, scaler = syncfree.SGD(params, lr=1.0), started()
        if look != "step":
            getattr(scaler, look)(optimizer, *([1.0] if look == "clip_grad_norm" else []))
        with pytest.raises(AssertionError, match=r"^No inf checks were recorded for this optimizer"):
            scaler.step(optimizer)


@check
def gradients_of_float64_may_be_missing_on_one_rank() -> None:
    params: list[Any] = [
        placed(torch.ones(4, 3, dtype=dtype), "0").requires_grad_() for dtype in (torch.float32, torch.float64)
    ]
    for param in params:
        param.grad = placed(torch.full((4, 3), 2 * SCALE, dtype=param.dtype), "0")
    if rank() == size() - 1 and size() > 1:
        params[1].grad = None
    norm = summed(sum(part.double().square().sum().item() for part in local_parts(params))) ** 0.5
    found = started().clip_grad_norm(syncfree.SGD(params), 1.0)
    torch.testing.assert_close(found, torch.tensor(norm, dtype=torch.float64))
