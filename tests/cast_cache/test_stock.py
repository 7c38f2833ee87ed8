"""What the cast cache shares by default is what stock autocast shares, so that it is never worse than stock."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import DEVICES, count_casts, stock
from tests.process import python

BF16 = torch.bfloat16
MODES = [torch.enable_grad, torch.no_grad, torch.inference_mode]


def from_numpy() -> tuple[Tensor, Callable[[float], object]]:
    array = np.zeros((2, 4), dtype=np.float32)
    return torch.from_numpy(array), array.fill


def from_buffer() -> tuple[Tensor, Callable[[float], object]]:
    memory = bytearray(32)
    return torch.frombuffer(memory, dtype=torch.float32).reshape(2, 4), np.frombuffer(memory, np.float32).fill


def from_dlpack() -> tuple[Tensor, Callable[[float], object]]:
    array = np.zeros((2, 4), dtype=np.float32)
    return torch.utils.dlpack.from_dlpack(array), array.fill


def to_dlpack() -> tuple[Tensor, Callable[[float], object]]:
    tensor = torch.zeros(2, 4)
    return tensor, torch.utils.dlpack.from_dlpack(tensor).fill_


def data() -> tuple[Tensor, Callable[[float], object]]:
    tensor = torch.zeros(2, 4)
    return tensor, lambda value: tensor.data.copy_(torch.full((2, 4), value))


def storage() -> tuple[Tensor, Callable[[float], object]]:
    tensor = torch.zeros(2, 4)
    return tensor, lambda value: tensor.untyped_storage().copy_(torch.full((2, 4), value).untyped_storage())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [from_numpy, from_buffer, from_dlpack, to_dlpack, data, storage])
def test_a_buffer_that_is_refilled_without_a_trace_is_read_again(
    make: Callable[[], tuple[Tensor, Callable[[float], object]]], mode: Callable[[], Any]
) -> None:
    layer, (x, refill) = nn.Linear(4, 4), make()
    with mode(), polycast.autocast("cpu"):
        for value in range(6):
            refill(float(value))
            assert torch.equal(layer(x), layer(torch.full((2, 4), float(value), dtype=BF16)))


def repeated(layer: nn.Module, *shape: int, times: int = 5) -> Callable[[str], Callable[[], object]]:
    """Return what puts a layer on a device and uses it several times."""

    def make(device: str) -> Callable[[], object]:
        module, x = copy.deepcopy(layer).to(device), torch.ones(*shape).to(device)
        return lambda: [module(x) for _ in range(times)]

    return make


def recurrent(device: str) -> Callable[[], object]:
    cell, x = nn.LSTMCell(4, 4).to(device), torch.ones(2, 4).to(device)

    def run() -> None:
        state = cell(x)
        for _ in range(31):
            state = cell(x, state)

    return run


def held(device: str) -> Callable[[], object]:
    """Use a module whose weights have aliases alive: its state_dict."""
    module, x = nn.Linear(4, 4).to(device), torch.ones(2, 4).to(device)
    aliases = module.state_dict()
    return lambda: [module(x) for _ in range(5) if aliases]


def passing(device: str) -> Callable[[], object]:
    """Use each activation in three layers."""
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)]).to(device)
    batches = [torch.ones(2, 4).to(device) for _ in range(4)]
    return lambda: [layer(x) for x in batches for layer in layers]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "make",
    [
        repeated(nn.Linear(4, 4), 2, 4),
        repeated(nn.Linear(4, 4).requires_grad_(False), 2, 4),
        repeated(nn.Linear(4, 4).half(), 2, 4),
        repeated(nn.Conv2d(2, 2, 1), 1, 2, 4, 4),
        recurrent,
        held,
        passing,
    ],
    ids=["weights", "frozen weights", "float16 weights", "convolution", "32 steps of an RNN",
         "a state_dict is held", "activations"],
)  # fmt: skip
@pytest.mark.parametrize("device", DEVICES)
def test_as_many_casts_are_made_as_by_stock(
    device: str, make: Callable[[str], Callable[[], object]], mode: Callable[[], Any]
) -> None:
    run = make(device)

    def in_region() -> None:
        with mode(), torch.autocast(device, BF16):
            run()

    if device == "xla" and mode is torch.inference_mode:
        pytest.skip("stored casts are normal tensors, which XLA cannot use there")
    with stock(device):
        expected = count_casts(in_region)
    found = count_casts(in_region)
    # Newer releases of torch share nothing in inference mode.
    assert found <= expected if mode is torch.inference_mode else found == expected


MEMORY = """
import resource, sys
import torch, polycast
mode, mebibytes, count = sys.argv[1:] if len(sys.argv) > 1 else ("{mode}", {mebibytes}, {count})
if mode == "stock":
    polycast.uninstall("cpu")
layers = torch.nn.ModuleList([torch.nn.Linear(1024, 16) for _ in range(3)])
with torch.no_grad(), polycast.autocast("cpu"):
    for _ in range(int(count)):
        activation = torch.ones(int(mebibytes) * 256, 1024)
        for layer in layers:
            layer(activation)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_no_activation_is_held_without_gradients() -> None:
    """Forty activations of 4 MiB through three layers each: their casts would take 80 MiB."""
    stock, ours = (int(python(MEMORY.format(mode=mode, mebibytes=4, count=40))) for mode in ("stock", "ours"))
    assert ours < stock + 20


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_an_operation_that_works_in_place_on_a_leaf(device: str, requires_grad: bool, grad: bool) -> None:
    """On XLA it reaches autocast a second time, inside functionalization, with a tensor that has no storage."""
    x = torch.rand(2, 4).sub(0.5).to(device).requires_grad_(requires_grad)
    with torch.set_grad_enabled(grad), polycast.autocast(device):
        for _ in range(4):
            if not (grad and requires_grad):
                torch.relu_(x)
        assert torch.equal(x.cpu() >= 0, torch.ones(2, 4, dtype=torch.bool)) or (grad and requires_grad)


def test_any_optimizer_may_step() -> None:
    """The hook after each step meets optimizers of other packages, whose params are whatever they like."""

    class Foreign(torch.optim.Optimizer):
        def __init__(self) -> None:
            super().__init__([torch.ones(1)], {})
            self.param_groups: list[dict[str, Any]] = [{"params": ["a name", None, 3]}, {}]

        def step(self) -> None:  # type: ignore[override]
            pass

    weight = torch.ones(2, 2)
    cast_cache.keep(weight)
    Foreign().step()
    cast_cache.release(weight)


def test_the_module_can_be_imported_again() -> None:
    code = """
import importlib, torch, polycast
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
before, weight = len(hooks), torch.ones(2, 2)
polycast.cast_cache.keep(weight)
importlib.reload(polycast.cast_cache)
with polycast.autocast("cpu"):
    weight @ weight
del weight
print(len(hooks) - before, sum(counts.entries for counts in polycast.cast_cache.info().values()))
"""
    assert python(code) == "0 0\n"
