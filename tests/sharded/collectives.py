"""How many collectives a scaler's step is: none for replicas, one for what is found and one for the norm of shards."""

import polycast
import torch
from polycast import syncfree
from torch import nn
from torch.distributed.tensor.debug import CommDebugMode

from tests.sharded.models import INF, SCALE, loss, model
from tests.sharded.world import check, size


def counted(layers: nn.Module, max_norm: float, norm_type: float = 2.0) -> dict[str, int]:
    """Return the collectives of clipping, where there is a largest norm, of a step and of the scale's update."""
    optimizer = syncfree.AdamW(layers.parameters(), lr=0.05)
    scaler = polycast.GradScaler("cpu", init_scale=SCALE)
    scaler.scale(loss(layers, 0)).backward()  # type: ignore[no-untyped-call]
    with CommDebugMode() as mode:  # type: ignore[no-untyped-call]
        if max_norm:
            scaler.clip_grad_norm(optimizer, max_norm, norm_type)
        scaler.step(optimizer)
        scaler.update()
    return {str(operator): count for operator, count in mode.get_comm_counts().items() if count}


def in_larger_worlds(count: int) -> list[int]:
    return [count] if size() > 1 else []


@check
def a_step_of_shards_is_one_collective_and_one_for_their_norm() -> None:
    assert list(counted(model(), max_norm=0).values()) == in_larger_worlds(1)
    for norm_type in (2.0, INF):
        assert list(counted(model(), max_norm=1.0, norm_type=norm_type).values()) == in_larger_worlds(2)


@check
def a_step_of_replicas_is_no_collective() -> None:
    torch.manual_seed(0)
    layers = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
    for max_norm in (0, 1.0):
        assert counted(layers, max_norm) == {}
