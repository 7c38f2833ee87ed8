"""Shards that are no DTensors, as those of FSDP1: a process group tells which ranks have to agree."""

import re
from typing import Any

import polycast
import pytest
import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from tests.sharded.models import INF, SCALE
from tests.sharded.world import check, distributed, rank, size

KINDS: dict[str, Any] = {
    "sync-free": polycast.syncfree.AdamW,
    "fused": lambda params, lr: torch.optim.AdamW(params, lr, fused=True),
    "for-loop": lambda params, lr: torch.optim.AdamW(params, lr, foreach=False),
}


def sharded(use_orig_params: bool) -> Any:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    return distributed.fsdp.FullyShardedDataParallel(layers, device_id="cpu", use_orig_params=use_orig_params)


def train(model: Any, optimizer: Any, scaler: Any, clip: bool) -> tuple[list[float], list[float]]:
    """Return the scales, and this rank's parameters; the second batch overflows on the last rank only."""
    scales = []
    for number in range(4):
        scaler.scale(model(torch.full((2, 8), number + 1.0)).square().mean()).backward()
        grads = [param.grad for param in model.parameters() if param.grad is not None and param.grad.numel()]
        if number == 1 and rank() == size() - 1 and grads:
            grads[-1].view(-1)[0] = INF
        if clip:
            scaler.unscale_(optimizer)
            model.clip_grad_norm_(0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return scales, [value for param in model.parameters() for value in param.detach().view(-1).tolist()]


@check
def ranks_of_a_process_group_agree_as_with_torchs_sharded_scaler() -> None:
    for use_orig_params in (False, True):
        for clip in (False, True):
            for kind in KINDS:
                model, reference = sharded(use_orig_params), sharded(use_orig_params)
                optimizer = KINDS[kind](model.parameters(), lr=0.1)
                scaler: Any = polycast.GradScaler(init_scale=SCALE, process_group=distributed.group.WORLD)
                scales, params = train(model, optimizer, scaler, clip)
                theirs = KINDS["for-loop"](reference.parameters(), lr=0.1)
                wanted = train(reference, theirs, ShardedGradScaler("cpu", init_scale=SCALE), clip)
                assert scales == wanted[0] == [SCALE, SCALE / 2, SCALE / 2, SCALE / 2]
                assert params == pytest.approx(wanted[1], rel=1e-4, abs=1e-6)
                assert scaler.skip_count(optimizer).item() == 1


@check
def lone_shards_without_a_process_group_are_told_of() -> None:
    for use_orig_params in (False, True):
        model = sharded(use_orig_params)
        optimizer = polycast.syncfree.AdamW(model.parameters(), lr=0.1)
        scaler: Any = polycast.GradScaler(init_scale=SCALE)
        if size() == 1:
            train(model, optimizer, scaler, clip=True)
            continue
        with pytest.raises(RuntimeError, match=r"^FSDP1's parameters tell of no mesh, so each rank would scale"):
            train(model, optimizer, scaler, clip=False)
        text = re.escape("clip_grad_norm does not know which gradients the ranks share")
        for scaler in (polycast.GradScaler(enabled=False), polycast.GradScaler(process_group=distributed.group.WORLD)):
            with pytest.raises(RuntimeError, match=f"^{text}"):
                scaler.clip_grad_norm(optimizer, 1.0)
