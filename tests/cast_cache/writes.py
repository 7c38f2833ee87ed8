"""Ways to write to a tensor: to buffers without a trace, to weights in ways that autograd or the cast cache sees."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

SIZE = 4
Refill = Callable[[float], object]
Change = Callable[[nn.Parameter, float], None]


def numpy() -> Any:
    return pytest.importorskip("numpy", reason="numpy is not installed")


def from_numpy() -> tuple[Tensor, Refill]:
    array = numpy().zeros((SIZE, SIZE), dtype="float32")
    return torch.from_numpy(array), array.fill


def from_buffer() -> tuple[Tensor, Refill]:
    """Return a tensor of one dimension; any other would be a view."""
    memory = bytearray(4 * SIZE)
    return torch.frombuffer(memory, dtype=torch.float32), numpy().frombuffer(memory, "float32").fill


def from_array() -> tuple[Tensor, Refill]:
    array = numpy().zeros((SIZE, SIZE), dtype="float32")
    return from_dlpack(array), array.fill


def to_capsule() -> tuple[Tensor, Refill]:
    tensor = torch.zeros(SIZE, SIZE)
    return tensor, from_dlpack(tensor).fill_


def of_storage() -> tuple[Tensor, Refill]:
    tensor = torch.zeros(SIZE, SIZE)
    return tensor, lambda value: tensor.untyped_storage().copy_(torch.full_like(tensor, value).untyped_storage())


def of_data(device: str = "cpu") -> tuple[Tensor, Refill]:
    tensor = torch.zeros(SIZE, SIZE, device=device)
    return tensor, lambda value: tensor.data.copy_(torch.full_like(tensor, value))


# Buffers, each with a function that writes to it without a trace.
BUFFERS: list[Callable[[], tuple[Tensor, Refill]]] = [
    of_data,
    from_numpy,
    from_buffer,
    from_array,
    to_capsule,
    of_storage,
]


def without_grad(change: Callable[[nn.Parameter, float], object]) -> Change:
    def run(weight: nn.Parameter, value: float) -> None:
        with torch.no_grad():
            change(weight, value)

    return run


@torch.inference_mode()
def in_inference_mode(weight: nn.Parameter, value: float) -> None:
    weight.add_(value)


def load(weight: nn.Parameter, value: float) -> None:
    module = nn.Module()
    module.weight = weight
    module.load_state_dict({"weight": weight.detach() + value})


def new_data(weight: nn.Parameter, value: float) -> None:
    weight.data = weight.data + value


def new_data_twice(weight: nn.Parameter, value: float) -> None:
    """The second can get the address of the first."""
    new_data(weight, value)
    new_data(weight, value)


def swap_data(weight: nn.Parameter, value: float) -> None:
    weight.data, other = weight.data + value, weight.data
    other.add_(value)


def transpose_data(weight: nn.Parameter, _value: float) -> None:
    weight.data = weight.data.t()  # the same storage, address and version


def step(kind: type[torch.optim.Optimizer], **options: Any) -> Change:
    def change(weight: nn.Parameter, value: float) -> None:
        weight.grad = torch.full_like(weight, value)
        kind([weight], lr=0.5, **options).step()  # type: ignore[call-arg]

    return change


# Ways to write to a weight that the cast cache sees: by a version, an address or a hook.
CHANGES: dict[str, Change] = {
    "in-place operation": without_grad(lambda w, value: w.add_(value)),
    "operation on a view": without_grad(lambda w, value: w[0].mul_(1 + value)),
    "operation on a detached tensor": without_grad(lambda w, value: w.detach().add_(value)),
    "copy_": without_grad(lambda w, value: w.copy_(w + value)),
    "in inference mode": in_inference_mode,
    "load_state_dict": load,
    "new .data": new_data,
    "new .data, twice": new_data_twice,
    "swapped .data": swap_data,
    "a view as .data": transpose_data,
    "SGD": step(torch.optim.SGD),
    "AdamW": step(torch.optim.AdamW),
    "AdamW, foreach": step(torch.optim.AdamW, foreach=True),
    "polycast's SGD": step(polycast.syncfree.SGD),
    "polycast's AdamW": step(polycast.syncfree.AdamW),
}
NOT_ON_XLA: dict[str, Change] = {
    "set_": without_grad(lambda w, value: w.set_(w + value)),  # type: ignore[call-overload]
    "foreach": without_grad(lambda w, value: torch._foreach_add_([w], value)),
    "Adam, fused": step(torch.optim.Adam, fused=True),
}
