"""Special tensors, such as conjugate views, among plain parameters: the values are correct, or the call raises."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.testing._internal.two_tensor import TwoTensor

C64 = torch.complex64
Pair = tuple[Tensor, Tensor]


def numbers(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def two(seed: int) -> Tensor:
    wrapped: Tensor = TwoTensor(numbers(seed), numbers(seed + 1))  # type: ignore[no-untyped-call]
    return wrapped


def released(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().resize_(0)
    return tensor


# Each function creates a parameter and its gradient.
KINDS: dict[str, Callable[[], Pair]] = {
    "plain": lambda: (numbers(1), numbers(2)),
    "inference gradient": lambda: (numbers(1), torch.inference_mode()(numbers)(2)),
    "awaited gradient": lambda: (numbers(1), AsyncCollectiveTensor(numbers(2))),
    "zero gradient": lambda: (numbers(1), torch._efficientzerotensor((3,))),
    "conjugate": lambda: (numbers(1, C64).conj(), numbers(2, C64).conj()),
    "negative": lambda: (torch._neg_view(numbers(1)), numbers(2)),
    "negative of a conjugate's part": lambda: (numbers(1, C64).conj().imag, numbers(2, C64).conj().imag),
    "subclass": lambda: (two(1), two(3)),
    "zero": lambda: (torch._efficientzerotensor((3,)), numbers(2)),
    "released": lambda: (released(numbers(1)), numbers(2)),
    "released gradient": lambda: (numbers(1), released(numbers(2))),
    "mkldnn": lambda: (numbers(1).to_mkldnn(), numbers(2).to_mkldnn()),
}
NO_MEMORY = r"layer1\): expected memory for the sizes \[3\], got a storage that was resized to 0 bytes; restore"
# Steps, or the scaler's passes over gradients, raise these errors. For the other kinds, the values are correct.
STEPS = {
    "conjugate": "view_as_real doesn't work on unresolved conjugated tensors",  # Adam raises this, like `torch.optim`.
    "zero": "ZeroTensors are immutable",
    "released": rf"^params\[1\] \(of {NO_MEMORY}",
    "released gradient": rf"^grads\[1\] \(of {NO_MEMORY}",
    "mkldnn": "memory format option is only supported by strided tensors",  # Adam raises this, like `torch.optim`.
}
PASSES = {
    "inference gradient": r"^grads\[1\] \(of layer1\): expected a tensor that can be written, got an inference tensor",
    "subclass": r"^layer1.grad: expected a plain tensor or a DTensor, got a TwoTensor; convert it to a plain tensor",
    "zero gradient": "ZeroTensors are immutable",
    "released gradient": rf"^grads\[1\] \(of {NO_MEMORY}",
    "mkldnn": r"^grads\[1\] \(of layer1\): expected a strided tensor of .*, got .* with the layout Mkldnn; ",
}


def usual(tensor: Tensor) -> Tensor:
    """Return a plain copy of a tensor, or a ``TwoTensor`` itself."""
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.trigger_wait()  # type: ignore[no-any-return, no-untyped-call]
    tensor = tensor.to_dense() if tensor.is_mkldnn else tensor
    return tensor if isinstance(tensor, TwoTensor) else tensor.resolve_conj().resolve_neg().clone()


def parts(tensor: Tensor) -> list[Tensor]:
    return [tensor.a, tensor.b] if isinstance(tensor, TwoTensor) else [usual(tensor)]


def pairs(kind: str) -> list[Pair]:
    """Return a parameter of the kind between plain ones, each with its gradient."""
    return [KINDS["plain"](), KINDS[kind](), KINDS["plain"]()]


def named(given: list[Pair]) -> list[tuple[str, Tensor]]:
    """Return leaves with gradients and names, for an optimizer."""
    params = [param.detach().requires_grad_() for param, _ in given]
    for param, (_, grad) in zip(params, given, strict=True):
        param.grad = grad
    return [(f"layer{index}", param) for index, param in enumerate(params)]


def stepped(optimizer: Any, given: list[Pair], **options: Any) -> list[Tensor]:
    params = named(given)
    stepper = optimizer(params, lr=0.1, **options)
    for _ in range(3):
        stepper.step()
    return [part for _, param in params for part in parts(param.detach())]


def check_steps(kind: str) -> None:
    for name, options in [("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "dampening": 0.5}), ("AdamW", {})]:
        found = stepped(getattr(syncfree, name), pairs(kind), **options)
        plain = [(usual(param), usual(grad)) for param, grad in pairs(kind)]
        wanted = stepped(getattr(torch.optim, name), plain, foreach=False, **options)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def check_passes(kind: str) -> None:
    """Check gradients for non-finite values, multiply them in place, and compute their norm."""
    params = named(pairs(kind))
    optimizer, scaler = syncfree.SGD(params, lr=0.1), polycast.GradScaler(init_scale=2.0)
    scaler.scale(torch.ones(1))
    scaler.unscale_(optimizer)
    halves = [usual(grad) / 2 for _, grad in pairs(kind)]
    norms = torch.stack([torch.linalg.vector_norm(grad).double() for grad in halves])
    torch.testing.assert_close([usual(param.grad) for _, param in params if param.grad is not None], halves)
    found = scaler.clip_grad_norm(optimizer, float("inf"))
    torch.testing.assert_close(found.double(), torch.linalg.vector_norm(norms), rtol=1e-6, atol=0)
    assert scaler.skip_count(optimizer).item() == 0


@pytest.mark.parametrize("work", [check_steps, check_passes])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_of_each_kind_between_plain_ones(kind: str, work: Callable[[str], None]) -> None:
    text = (STEPS if work is check_steps else PASSES).get(kind)
    with nullcontext() if text is None else pytest.raises((RuntimeError, TypeError), match=text):
        work(kind)
