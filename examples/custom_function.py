"""Two autograd functions under autocast: one runs in the dtype of the region, the other in float32."""

from typing import Any

import polycast
import torch
from torch import Tensor


class Multiply(torch.autograd.Function):
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


class Exponential(torch.autograd.Function):
    @staticmethod
    @polycast.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(result := x.exp())
        return result

    backward = staticmethod(polycast.custom_bwd(lambda ctx, grad: grad * ctx.saved_tensors[0]))


a, b = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
with polycast.autocast("cpu", torch.float16):
    product, power = Multiply.apply(a, b), Exponential.apply(6 * Multiply.apply(a, b))  # type: ignore[no-untyped-call]
(power.mean() / 1000).backward()  # Without the division, gradients of the float16 products would overflow.
print("product:", product.dtype, "exponential:", power.dtype, power[0, 0].item(), "gradient:", a.grad)
