"""Custom autograd functions of the AMP examples, in training steps under a scaler."""

from typing import Any

import polycast
import pytest
import torch
from torch import Tensor

from tests.support.devices import RESIZES
from tests.workflows.loops import compare, float32, floats, lower, ours, train

F32 = torch.float32
pytestmark = RESIZES


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
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        result = x.mm(x.t()).diagonal()[:, None] * x
        MyFloat32Func.seen = (x.dtype, result.dtype)
        return result

    @staticmethod
    @polycast.custom_bwd
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert (x @ x.t()).dtype is F32
        result: Tensor = grad * (x * x).sum(1, keepdim=True) + 2 * x * (grad * x).sum(1, keepdim=True)
        return result


def weights(device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((8, 16), (16, 2))
    return [(torch.randn(shape, generator=generator) / 4).to(device).requires_grad_() for shape in shapes]


def both(device: str, build: Any) -> None:
    """Train with a function and, in float32 on the host, without; compare the losses and the weights."""
    params, others = weights(device), weights("cpu")
    run = train(ours(device), build(params, True), params, same=True)
    assert run.dtypes == [lower(device)] * 8
    compare(run.losses, train(float32(), build(others, False), others, same=True).losses, lower(device), fall=0.8)
    sums = [floats([param.detach().sum() for param in leaves]) for leaves in (params, others)]
    assert sums[0] == pytest.approx(sums[1], abs=0.1)


@pytest.mark.parametrize("function", [MyMM, MyMMApart])
def test_functions_with_multiple_inputs(real_device: str, function: Any) -> None:
    def build(params: list[Tensor], amp: bool) -> Any:
        mymm = function.apply if amp else torch.mm
        return lambda x: mymm(torch.relu(mymm(x, params[0])), params[1])

    both(real_device, build)


def test_functions_that_need_a_particular_dtype(real_device: str) -> None:
    def build(params: list[Tensor], amp: bool) -> Any:
        def plain(x: Tensor) -> Tensor:
            return x.mm(x.t()).diagonal()[:, None] * x

        func: Any = MyFloat32Func.apply if amp else plain
        return lambda x: torch.mm(func(torch.mm(x, params[0]) / 4), params[1])

    both(real_device, build)
    assert MyFloat32Func.seen == (F32, F32)


def test_an_imported_function(real_device: str) -> None:
    """A function that cannot be altered, and would raise for inputs of a lower precision."""

    def imported_function(input1: Tensor, input2: Tensor) -> Tensor:
        assert (input1.dtype, input2.dtype) == (F32, F32)
        result = torch.empty(len(input1), input2.shape[1], device=input1.device)
        assert torch.mm(input1.detach(), input2.detach(), out=result).dtype is F32
        return torch.mm(input1, input2)

    def build(params: list[Tensor], amp: bool) -> Any:
        def model(x: Tensor) -> Tensor:
            hidden = torch.relu(torch.mm(x, params[0]))
            with polycast.autocast(real_device, enabled=False):
                output = imported_function(hidden.float(), params[1].float())
                assert output.dtype is F32
            return torch.mm(output, torch.eye(2, device=real_device))

        return model if amp else lambda x: torch.relu(x @ params[0]) @ params[1]

    both(real_device, build)
