"""Threads and processes of the AMP examples, in training steps under a scaler."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn

from tests.support.devices import RESIZES
from tests.support.process import python
from tests.workflows.loops import compare, float32, lower, network, ours, train

pytestmark = RESIZES


class Replicas(nn.Module):
    """Runs forward in two threads, each on half of the batch, as DataParallel does on several devices."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Tensor) -> Tensor:
        with ThreadPoolExecutor(2) as threads:
            return torch.cat(list(threads.map(self.module, inputs.chunk(2))))


class Decorated(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        self.net = network(device)
        self.inner = polycast.autocast(device, lower(device))(self.net)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inner(inputs)  # type: ignore[no-any-return]


class Region(Decorated):
    def forward(self, inputs: Tensor) -> Tensor:
        with polycast.autocast(inputs.device, lower(inputs.device.type)):
            return self.net(inputs)  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", [Decorated, Region])
def test_threads_as_of_data_parallel(real_device: str, form: Any) -> None:
    """The region of the loop around them does not reach the threads."""
    model = form(real_device)
    run = train(ours(real_device), Replicas(model), [*model.net.parameters()], same=True)
    assert run.dtypes == [lower(real_device)] * 8
    compare(run.losses, train(float32(), same=True).losses, lower(real_device))
    outside = train(ours(real_device), Replicas(model.net), [*model.net.parameters()], steps=1)
    assert outside.dtypes == [torch.float32]


RANKS = """
import os, sys, tempfile
import torch.distributed as dist
from torch import nn
import polycast
from polycast import syncfree

def work(rank, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = syncfree.SGD(model.parameters(), lr=0.1)
    scaler = polycast.GradScaler(init_scale=256.0)
    torch.manual_seed(1 + rank)
    history = []
    for step in range(4):
        optimizer.zero_grad()
        with polycast.autocast("cpu", torch.float16):
            loss = model(torch.randn(8, 4)).float().square().mean()
        if (step, rank) == (1, 1):
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.clip_grad_norm(optimizer, 1.0)
        scaler.step(optimizer)
        scaler.update()
        history.append((bool(scaler.skipped(optimizer)), scaler.get_scale(), model.module.weight.tolist()))
    everyone = [None, None]
    dist.all_gather_object(everyone, history)
    if rank == 0:
        print(everyone[0] == everyone[1], [skipped for skipped, *_ in history], history[-1][1])
        print(history[0][2] == history[1][2], history[1][2] == history[2][2])
    dist.destroy_process_group()

with tempfile.TemporaryDirectory() as folder:
    child = os.fork()
    work(int(child == 0), os.path.join(folder, "store"))
    if child == 0:
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
def test_distributed_data_parallel_skips_on_all_ranks() -> None:
    """What is not finite on one rank is not on the others either once gradients are averaged."""
    lines = python(RANKS, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1").splitlines()
    assert lines[-2:] == ["True [False, True, False, False] 128.0", "True False"]
