"""A custom op in a policy. Without a rule, the op's kernel receives both float32 and bfloat16, and raises.

The program trains a gated layer under three rules for the op. For each rule, the program prints the error, or the
loss, the dtypes of the op's inputs, and the dtype in which the op computes.
"""

import argparse
from typing import Any

import polycast
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, sigmoid, silu


@torch.library.custom_op("mylib::swiglu", mutates_args=())
def swiglu(x: Tensor, gate: Tensor) -> Tensor:
    """Return ``x * silu(gate)``. Like most kernels, this one requires that its tensors have one dtype."""
    if x.dtype != gate.dtype:
        raise TypeError(f"swiglu: x is {x.dtype} and gate is {gate.dtype}")
    return x * silu(gate)


@swiglu.register_fake
def fake(x: Tensor, _gate: Tensor) -> Tensor:
    return torch.empty_like(x)


def save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, gate = ctx.saved_tensors
    s = sigmoid(gate)
    return grad * gate * s, grad * x * s * (1 + gate * (1 - s))


swiglu.register_autograd(backward, setup_context=save)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate, self.last = nn.LayerNorm(64), nn.Linear(64, 64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)  # The norm returns float32, and the gate returns bfloat16.
        return self.last(swiglu(x, self.gate(x)))  # type: ignore[no-any-return]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=200)
options = parser.parse_args()
for rule in ("unlisted", "lower_precision_fp", "fp32"):
    torch.manual_seed(0)
    model, inputs = Gated(), torch.randn(256, 64)
    optimizer = polycast.syncfree.AdamW(model.parameters(), lr=1e-2)
    region = polycast.autocast("cpu", dtype=torch.bfloat16, policy=polycast.Policy({"mylib::swiglu": rule}))
    try:
        for _ in range(options.steps):
            with region:
                loss = mse_loss(model(inputs), inputs[:, :8].sin())
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
        with polycast.debug.trace(model) as t, region:
            model(inputs)
        (call,) = (call for call in t.calls if "swiglu" in call.op)
        print(f"{rule}: given {call.given}, computed in {call.arrived[0]}, loss {loss.item():.1e}")
    except TypeError as error:
        print(f"{rule}: {error}")
