"""Threads, processes and custom autograd functions of the AMP examples, within training steps under a scaler."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn

from tests.process import python
from tests.workflows import DEVICES, LOWER, UNNEEDED, compare, data, floats, network, sync

pytestmark = UNNEEDED
loss_fn = nn.MSELoss()
F32 = torch.float32


def train(
    device: str, model: Any, params: list[Tensor], steps: int = 8, **region: Any
) -> tuple[list[Tensor], list[Any]]:
    """Train as the documents' typical loop does; return the losses and the types of the outputs."""
    optimizer = syncfree.SGD(params, lr=0.1)
    scaler = polycast.GradScaler(init_scale=256.0)
    losses, dtypes = [], []
    for input, target in data(device, steps, same=True):
        optimizer.zero_grad()
        with polycast.autocast(device, LOWER[device], **region):
            output = model(input)
            loss = loss_fn(output, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
        dtypes.append(output.dtype)
    return losses, dtypes


def reference(model: Any, params: list[Tensor]) -> list[Tensor]:
    """Train in float32 on the host, with torch's optimizer and without scaler."""
    optimizer = torch.optim.SGD(params, lr=0.1)
    losses = []
    for input, target in data("cpu", same=True):
        optimizer.zero_grad()
        loss = loss_fn(model(input), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


class Replicas(nn.Module):
    """Runs forward in two threads, each on half of the batch, as DataParallel does on several devices."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input: Tensor) -> Tensor:
        with ThreadPoolExecutor(2) as threads:
            return torch.cat(list(threads.map(self.module, input.chunk(2))))


class Decorated(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        self.net = network(device)
        self.inner = polycast.autocast(device, LOWER[device])(self.net)

    def forward(self, input: Tensor) -> Tensor:
        return self.inner(input)  # type: ignore[no-any-return]


class Region(Decorated):
    def forward(self, input: Tensor) -> Tensor:
        with polycast.autocast(input.device, LOWER[input.device.type]):
            return self.net(input)  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", [Decorated, Region])
@DEVICES
def test_threads_as_of_data_parallel(device: str, form: Any) -> None:
    model = form(device)
    losses, dtypes = train(device, Replicas(model), list(model.net.parameters()))
    assert dtypes == [LOWER[device]] * 8
    plain = network("cpu")
    compare(losses, reference(plain, list(plain.parameters())), device)


@DEVICES
def test_a_region_around_does_not_reach_the_threads(device: str) -> None:
    net = network(device)
    _, dtypes = train(device, Replicas(net), list(net.parameters()), steps=1)
    assert dtypes == [F32]


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


class MyMM(torch.autograd.Function):
    @staticmethod
    @polycast.custom_fwd
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @polycast.custom_bwd
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return grad.mm(b.t()), a.t().mm(grad)


class MyMMApart(torch.autograd.Function):
    @staticmethod
    @polycast.custom_fwd
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return a.mm(b)

    @staticmethod
    @polycast.custom_fwd
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    backward = MyMM.backward


class MyFloat32Func(torch.autograd.Function):
    seen: tuple[torch.dtype, ...] = ()

    @staticmethod
    @polycast.custom_fwd(cast_inputs=F32)
    def forward(ctx: Any, input: Tensor) -> Tensor:
        ctx.save_for_backward(input)
        result = input.mm(input.t()).diagonal()[:, None] * input
        MyFloat32Func.seen = (input.dtype, result.dtype)
        return result

    @staticmethod
    @polycast.custom_bwd
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert (x @ x.t()).dtype is F32
        return grad * (x * x).sum(1, keepdim=True) + 2 * x * (grad * x).sum(1, keepdim=True)


def weights(device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((8, 16), (16, 2))
    return [(torch.randn(shape, generator=generator) / 4).to(device).requires_grad_() for shape in shapes]


def both(device: str, build: Any) -> None:
    """Train with a function and, in float32 on the host, without."""
    params, others = weights(device), weights("cpu")
    losses, dtypes = train(device, build(params, True), params)
    assert dtypes == [LOWER[device]] * 8
    compare(losses, reference(build(others, False), others), device, fall=0.8)


@pytest.mark.parametrize("function", [MyMM, MyMMApart])
@DEVICES
def test_functions_with_multiple_inputs(device: str, function: Any) -> None:
    def build(params: list[Tensor], amp: bool) -> Any:
        mymm = function.apply if amp else torch.mm
        return lambda input: mymm(torch.relu(mymm(input, params[0])), params[1])

    both(device, build)


@DEVICES
def test_functions_that_need_a_particular_dtype(device: str) -> None:
    def build(params: list[Tensor], amp: bool) -> Any:
        def plain(x: Tensor) -> Tensor:
            return x.mm(x.t()).diagonal()[:, None] * x

        func: Any = MyFloat32Func.apply if amp else plain
        return lambda input: torch.mm(func(torch.mm(input, params[0]) / 4), params[1])

    both(device, build)
    assert MyFloat32Func.seen == (F32, F32)


@DEVICES
def test_an_imported_function(device: str) -> None:
    """A function that cannot be altered, and would raise for inputs of a lower precision."""

    def imported_function(input1: Tensor, input2: Tensor) -> Tensor:
        assert (input1.dtype, input2.dtype) == (F32, F32)
        result = torch.empty(len(input1), input2.shape[1], device=input1.device)
        assert torch.mm(input1.detach(), input2.detach(), out=result).dtype is F32
        return torch.mm(input1, input2)

    def build(params: list[Tensor], _: bool) -> Any:
        def model(input: Tensor) -> Tensor:
            hidden = torch.relu(torch.mm(input, params[0]))
            with polycast.autocast(device, enabled=False):
                output = imported_function(hidden.float(), params[1].float())
                assert output.dtype is F32
            return torch.mm(output, torch.eye(2, device=device))

        return model

    params, others = weights(device), weights("cpu")
    losses, dtypes = train(device, build(params, True), params)
    assert dtypes == [LOWER[device]] * 8
    plain = lambda input: torch.relu(input @ others[0]) @ others[1]  # noqa: E731
    compare(losses, reference(plain, others), device, fall=0.8)
    sync(device)
    assert floats([param.detach().sum() for param in params]) == pytest.approx(
        floats([param.detach().sum() for param in others]), abs=0.1
    )
