"""Ranks whose parameters are no DTensors, FSDP1's shards and stages: a process group tells which have to agree."""

import re
from typing import Any

import polycast
import pytest
import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from tests.support.sharded.models import INF, SCALE
from tests.support.sharded.world import check, distributed, rank, size

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


class Stage(PipelineStage):
    """Torch's, without its greeting of 8 bytes that the neighbours receive into 4: gloo aborts."""

    def _get_init_p2p_neighbors_ops(self) -> list[Any]:
        return []


def overflow_in_the_first_stage(scaler: Any) -> tuple[list[float], bool]:
    """Return the scales of two batches, and whether the second, in which one stage overflows, moved this stage."""
    torch.manual_seed(0)
    part = nn.Linear(4, 4)
    optimizer = polycast.syncfree.SGD(part.parameters(), lr=0.1)
    pipeline = ScheduleGPipe(
        Stage(part, rank(), 2, torch.device("cpu")), 2, loss_fn=lambda x, _: scaler.scale(x.float().square().mean())
    )
    scaler.scale(torch.ones(1))
    scales, before = [], part.weight.detach().clone()
    for number in range(2):
        before = part.weight.detach().clone()
        with polycast.autocast("cpu", torch.float16):
            pipeline.step(*([torch.ones(4, 4)] if rank() == 0 else []), target=torch.ones(4, 4) if rank() else None)
        if number == 1 and rank() == 0:
            part.weight.grad[0, 0] = INF  # type: ignore[index]
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return scales, not torch.equal(before, part.weight)


@check
def stages_of_a_pipeline_skip_together_by_a_process_group_and_alone_without() -> None:
    if size() != 2:
        return
    together = polycast.GradScaler(init_scale=SCALE, process_group=distributed.group.WORLD)
    assert overflow_in_the_first_stage(together) == ([SCALE, SCALE / 2], False)
    alone = overflow_in_the_first_stage(polycast.GradScaler(init_scale=SCALE))
    assert alone == (([SCALE, SCALE / 2], False) if rank() == 0 else ([SCALE, SCALE], True))
