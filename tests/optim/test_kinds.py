"""Lists of tensors that are not all of one kind: torch.optim's values, or an error that names the parameter.

What is no memory was once read as memory.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast import syncfree
from polycast.syncfree.batches import on_gradients
from polycast.syncfree.gather import collect, gather_gradients
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.testing._internal.two_tensor import TwoTensor

Pair = tuple[Tensor, Tensor]


def numbers(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def complex_numbers(seed: int) -> Tensor:
    return numbers(seed, torch.complex64)


def two(seed: int) -> Tensor:
    wrapped: Tensor = TwoTensor(numbers(seed), numbers(seed + 1))  # type: ignore[no-untyped-call]
    return wrapped


def released(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().resize_(0)
    return tensor


# A parameter and its gradient, new ones each time.
KINDS: dict[str, Callable[[], Pair]] = {
    "plain": lambda: (numbers(1), numbers(2)),
    "inference gradient": lambda: (numbers(1), torch.inference_mode()(numbers)(2)),
    "awaited gradient": lambda: (numbers(1), AsyncCollectiveTensor(numbers(2))),
    "zero gradient": lambda: (numbers(1), torch._efficientzerotensor((3,))),
    "conjugate": lambda: (complex_numbers(1).conj(), complex_numbers(2)),
    "negative": lambda: (torch._neg_view(numbers(1)), numbers(2)),
    "negative of a conjugate's part": lambda: (complex_numbers(1).conj().imag, complex_numbers(2).conj().imag),
    "subclass": lambda: (two(1), two(3)),
    "zero": lambda: (torch._efficientzerotensor((3,)), numbers(2)),
    "released": lambda: (released(numbers(1)), numbers(2)),
    "released gradient": lambda: (numbers(1), released(numbers(2))),
    "mkldnn": lambda: (numbers(1).to_mkldnn(), numbers(2).to_mkldnn()),
}
NO_MEMORY = r"layer1\) has the sizes \[3\] and no memory; its storage was resized to nothing, so give it back its data"
# What steps and passes over gradients raise; the others are right.
STEPS = {
    "conjugate": "view_as_real doesn't work on unresolved conjugated tensors",  # by Adam; torch.optim raises the same
    "zero": "ZeroTensors are immutable",
    "released": rf"^sgd_step_: params\[1\] \(of {NO_MEMORY}",
    "released gradient": rf"^sgd_step_: grads\[1\] \(of {NO_MEMORY}",
    "mkldnn": "Could not run 'aten::empty_strided' with arguments from the 'MkldnnCPU' backend",
}
PASSES = {
    "inference gradient": r"^unscale_: grads\[1\] \(of layer1\) is an inference tensor, which cannot be written",
    "subclass": "^the gradient of layer1 is a TwoTensor, whose values only that class knows; give it a plain tensor or",
    "released gradient": rf"^find_non_finite: grads\[1\] \(of {NO_MEMORY}",
    "mkldnn": r"^find_non_finite: grads\[1\] \(of layer1\) is a Mkldnn tensor of torch.float32; pass strided tensors",
}


def usual(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor in memory of their own; of a subclass, the tensor."""
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.trigger_wait()  # type: ignore[no-any-return, no-untyped-call]
    return tensor if isinstance(tensor, TwoTensor) else tensor.resolve_conj().resolve_neg().clone()


def parts(tensor: Tensor) -> list[Tensor]:
    return [tensor.a, tensor.b] if isinstance(tensor, TwoTensor) else [usual(tensor)]


def pairs(kind: str) -> list[Pair]:
    """Return a parameter of the kind between plain ones, each with its gradient."""
    return [KINDS["plain"](), KINDS[kind](), KINDS["plain"]()]


def leaves(given: list[Pair]) -> list[Tensor]:
    params = [param.detach().requires_grad_() for param, _ in given]
    for param, (_, grad) in zip(params, given, strict=True):
        param.grad = grad
    return params


def stepped(optimizer: Any, given: list[Pair], **options: Any) -> list[Tensor]:
    params = leaves(given)
    stepper = optimizer([(f"layer{index}", param) for index, param in enumerate(params)], lr=0.1, **options)
    for _ in range(3):
        stepper.step()
    return [part for param in params for part in parts(param.detach())]


def check_steps(kind: str) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"momentum": 0.9, "dampening": 0.5}),
        ("AdamW", {}),
    ]
    for name, options in steps:
        found = stepped(getattr(syncfree, name), pairs(kind), **options)
        plain = [(usual(param), usual(grad)) for param, grad in pairs(kind)]
        wanted = stepped(getattr(torch.optim, name), plain, foreach=False, **options)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def check_passes(kind: str) -> None:
    """Look at gradients, take their norm, and multiply them in place."""
    params = leaves(pairs(kind))
    groups: list[dict[str, Any]] = [{"params": params, "param_names": ["layer0", "layer1", "layer2"]}]
    (gathered,) = gather_gradients(groups, collect(groups))
    operators = torch.ops.polycast
    found = on_gradients(operators.find_non_finite.default, gathered, groups)
    assert [item.tolist() for item in found] == [0.0, [False] * 3]
    grads = [usual(grad) for _, grad in pairs(kind)]
    wanted = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad).double() for grad in grads]))
    norm, *_ = on_gradients(operators.norm.default, gathered, groups, 2.0)
    torch.testing.assert_close(norm.double(), wanted, rtol=1e-6, atol=0)
    on_gradients(operators.unscale_.default, gathered, groups, torch.zeros(()), torch.tensor(0.5))
    for param, grad in zip(params, grads, strict=True):
        assert param.grad is not None
        torch.testing.assert_close(usual(param.grad), grad / 2)


@pytest.mark.parametrize("work", [check_steps, check_passes])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_of_each_kind_between_plain_ones(kind: str, work: Callable[[str], None]) -> None:
    text = (STEPS if work is check_steps else PASSES).get(kind)
    if text is None:
        work(kind)
        return
    with pytest.raises((RuntimeError, TypeError), match=text):
        work(kind)
