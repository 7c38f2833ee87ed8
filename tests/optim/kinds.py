"""Tensors of every kind beside plain ones, in steps and under the passes of a gradient scaler; prints what comes of it.

python -m tests.optim.kinds
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from polycast import syncfree
from polycast.syncfree.batches import on_gradients
from polycast.syncfree.gather import collect, gather_gradients
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.testing._internal.two_tensor import TwoTensor

Pair = tuple[Tensor, Tensor]
Options = dict[str, Any]
STEPS: list[tuple[str, Options]] = [
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5}),
    ("AdamW", {}),
]


def numbers(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def complex_numbers(seed: int) -> Tensor:
    return numbers(seed, torch.complex64)


def negative(tensor: Tensor) -> Tensor:
    return torch._neg_view(tensor)


def two(seed: int) -> Tensor:
    wrapped: Tensor = TwoTensor(numbers(seed), numbers(seed + 1))  # type: ignore[no-untyped-call]
    return wrapped


def zero() -> Tensor:
    return torch._efficientzerotensor((3,))


def released(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().resize_(0)
    return tensor


# A parameter and its gradient, new ones each time.
KINDS: dict[str, Callable[[], Pair]] = {
    "plain": lambda: (numbers(1), numbers(2)),
    "inference gradient": lambda: (numbers(1), torch.inference_mode()(numbers)(2)),
    "awaited gradient": lambda: (numbers(1), AsyncCollectiveTensor(numbers(2))),
    "zero gradient": lambda: (numbers(1), zero()),
    "conjugate": lambda: (complex_numbers(1).conj(), complex_numbers(2)),
    "conjugates": lambda: (complex_numbers(1).conj(), complex_numbers(2).conj()),
    "negative": lambda: (negative(numbers(1)), numbers(2)),
    "negative of a conjugate's part": lambda: (complex_numbers(1).conj().imag, complex_numbers(2).conj().imag),
    "subclass": lambda: (two(1), two(3)),
    "zero": lambda: (zero(), numbers(2)),
    "released": lambda: (released(numbers(1)), numbers(2)),
    "released gradient": lambda: (numbers(1), released(numbers(2))),
    "mkldnn": lambda: (numbers(1).to_mkldnn(), numbers(2).to_mkldnn()),
}


def usual(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor in memory of their own; of a subclass, the tensor."""
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.trigger_wait()  # type: ignore[no-any-return, no-untyped-call]
    return tensor if isinstance(tensor, TwoTensor) else tensor.resolve_conj().resolve_neg().clone()


def parts(tensor: Tensor) -> list[Tensor]:
    return [tensor.a, tensor.b] if isinstance(tensor, TwoTensor) else [usual(tensor)]


def leaves(pairs: list[Pair]) -> list[Tensor]:
    params = [param.detach().requires_grad_() for param, _ in pairs]
    for param, (_, grad) in zip(params, pairs, strict=True):
        param.grad = grad
    return params


def stepped(optimizer: Any, pairs: list[Pair], **options: Any) -> list[Tensor]:
    params = leaves(pairs)
    stepper = optimizer([(f"layer{index}", param) for index, param in enumerate(params)], lr=0.1, **options)
    for _ in range(3):
        stepper.step()
    return [part for param in params for part in parts(param.detach())]


def check_steps(pairs: Callable[[], list[Pair]]) -> None:
    for name, options in STEPS:
        found = stepped(getattr(syncfree, name), pairs(), **options)
        plain = [(usual(param), usual(grad)) for param, grad in pairs()]
        wanted = stepped(getattr(torch.optim, name), plain, foreach=False, **options)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def check_gradients(pairs: Callable[[], list[Pair]]) -> None:
    """Look at gradients, take their norm, and multiply them in place."""
    params = leaves(pairs())
    groups: list[dict[str, Any]] = [{"params": params, "param_names": ["layer0", "layer1"]}]
    (gathered,) = gather_gradients(groups, collect(groups))
    operators = torch.ops.polycast
    found = on_gradients(operators.find_non_finite.default, gathered, groups)
    assert [item.tolist() for item in found] == [0.0, [False, False]]
    grads = [usual(grad) for _, grad in pairs()]
    wanted = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad).double() for grad in grads]))
    norm, *_ = on_gradients(operators.norm.default, gathered, groups, 2.0)
    torch.testing.assert_close(norm.double(), wanted, rtol=1e-6, atol=0)
    on_gradients(operators.unscale_.default, gathered, groups, torch.zeros(()), torch.tensor(0.5))
    for param, grad in zip(params, grads, strict=True):
        assert param.grad is not None
        torch.testing.assert_close(usual(param.grad), grad / 2)


def outcomes() -> Iterator[tuple[str, str]]:
    """Yield the kind and what came of it, before and after a plain parameter, in a step and in a scaler's passes."""
    for kind, make in KINDS.items():
        for order, pairs in (
            ("first", lambda make=make: [make(), KINDS["plain"]()]),
            ("second", lambda make=make: [KINDS["plain"](), make()]),
        ):
            for work in (check_steps, check_gradients):
                try:
                    work(pairs)
                    text = "right"
                except (RuntimeError, TypeError, ValueError) as error:
                    text = f"{type(error).__name__}: {error}".splitlines()[0]
                yield f"{kind}, {order}, {work.__name__}", text


if __name__ == "__main__":
    for title, text in outcomes():
        print(title, text, sep=" | ", flush=True)
