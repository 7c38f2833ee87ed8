"""The default cast cache, which reuses the same casts as stock autocast."""

from collections.abc import Callable
from functools import partial
from typing import Any

import polycast
import pytest
import torch
from hypothesis import given
from polycast import cast_cache
from torch import nn
from torch.utils.weak import TensorWeakRef

from tests.cast_cache.programs import MODES, Program, check_program, programs
from tests.cast_cache.stock import count_allocated, count_casts, module_of, stock
from tests.support.devices import NEEDS_XLA, casts_by_itself
from tests.support.properties import examples

BF16 = torch.bfloat16
pytestmark = pytest.mark.usefixtures("one_thread")


def test_programs_compute_the_values_of_stock_autocast(real_device: str) -> None:
    """Random programs that change their weights compute the values of stock autocast (specification 4.4)."""

    @given(programs(real_device))
    @examples(60 if real_device == "cpu" else 8)
    def check(program: Program) -> None:
        check_program(program, real_device)

    check()


def repeated(layer: nn.Module, device: str, times: int = 3) -> Callable[[], object]:
    module, x = layer.to(device), torch.ones(2, 4, device=device)
    return lambda: [module(x) for _ in range(times)]


def viewed(device: str) -> Callable[[], object]:
    weight, x = nn.Parameter(torch.ones(4, 4, device=device)), torch.ones(2, 4, device=device)
    view = weight.detach()[:, :2].requires_grad_()
    return lambda: [x @ (view if turn else weight * 1) for turn in range(6)]


# Each function moves weights to a device, and returns a function that uses the weights several times.
PROGRAMS: dict[str, Callable[[str], Callable[[], object]]] = {
    "weights": partial(repeated, nn.Linear(4, 4)),
    "frozen weights": partial(repeated, nn.Linear(4, 4).requires_grad_(False)),
    "float16 weights": partial(repeated, nn.Linear(4, 4).half()),
    "a cell 8 times": partial(repeated, nn.LSTMCell(4, 4), times=8),
    "views and non-leaf tensors": viewed,
    "activations of three layers": partial(repeated, nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_casts_equals_stock_autocast(real_device: str, name: str, mode: Callable[[], Any]) -> None:
    if real_device == "xla" and mode is torch.inference_mode and name == "views and non-leaf tensors":
        pytest.skip("on XLA, inference mode allows no view of a weight")
    if not casts_by_itself(real_device):
        pytest.skip(f"{real_device} has no autocast kernels in PyTorch to compare the casts with")
    run = PROGRAMS[name](real_device)

    def in_regions() -> None:
        for _ in range(2):
            with mode(), torch.autocast(real_device, BF16):
                with torch.autocast(real_device, BF16):
                    run()
                run()

    in_regions()  # On XLA, the first use also casts a number, which must not count.
    with stock(real_device):
        expected = count_casts(in_regions)
    found = count_casts(in_regions)
    # Newer PyTorch releases do not reuse casts in inference mode, so they can make more casts.
    assert found == expected or (mode is torch.inference_mode and found < expected)


def test_a_tensor_of_the_target_dtype_is_not_copied() -> None:
    """An op does not copy an input that already has the target dtype (specification 1.4)."""
    x = torch.ones(4, 4, dtype=BF16)
    with polycast.autocast("cpu", BF16):
        assert count_casts(lambda: x @ x) == 0


@pytest.mark.parametrize("off", ["argument", "function", "bare region"])
def test_the_cache_switches_of_torch_apply(off: str) -> None:
    run = PROGRAMS["weights"]("cpu")

    def in_region() -> None:
        if off == "bare region":  # The casts are shared until `torch.clear_autocast_cache`.
            torch.set_autocast_enabled("cpu", True)
            run()
            torch.set_autocast_enabled("cpu", False)
            torch.clear_autocast_cache()
            return
        with torch.autocast("cpu", BF16, cache_enabled=False if off == "argument" else None):
            torch.set_autocast_cache_enabled(False)
            run()
        torch.set_autocast_cache_enabled(True)

    with stock():
        expected = count_casts(in_region)
    assert count_casts(in_region) == expected


# All of these events in a region, except the first, drop the region's casts.
ENDS: dict[str, Callable[[], object]] = {
    "the region": lambda: None,
    "torch.clear_autocast_cache": torch.clear_autocast_cache,
    "polycast.cast_cache.clear": cast_cache.clear,
    "a step": lambda: torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1).step(),
}


@pytest.mark.parametrize("end", ENDS)
def test_casts_of_a_region_live_until_its_end(real_device: str, end: str) -> None:
    """A cast and its weight are freed when the region ends or another event drops the cast (specification 4.4)."""
    weight = nn.Parameter(torch.ones(4, 4, device=real_device))
    reference = TensorWeakRef(weight)
    with torch.autocast(real_device, BF16):
        torch.ones(4, 4, device=real_device, dtype=BF16) @ weight
        del weight
        assert reference() is not None
        ENDS[end]()
        assert (reference() is not None) == (end == "the region")
    assert reference() is None


def test_no_activation_stays_alive_without_gradients() -> None:
    activation, layers = torch.ones(64, 1024), [nn.Linear(1024, 16) for _ in range(3)]

    def use() -> None:
        for layer in layers:
            layer(activation)

    with torch.no_grad(), torch.autocast("cpu", BF16):
        use()  # The first use casts the weights.
        assert count_allocated(use) == 0


@NEEDS_XLA
@pytest.mark.parametrize("requires_grad", [True, False])
def test_an_in_place_op_on_a_leaf_runs_on_xla(requires_grad: bool) -> None:
    """An in-place op runs on XLA, although functionalization calls it again with a tensor whose storage is null."""
    x = torch.rand(2, 4).sub(0.5).to("xla").requires_grad_(requires_grad)
    with torch.no_grad(), polycast.autocast("xla"):
        for _ in range(4):
            torch.relu_(x)
    assert bool((x.cpu() >= 0).all())


def test_optimizers_of_other_packages_may_step_while_casts_are_kept() -> None:
    """The cache's hook after each step accepts optimizers of other packages, whose params can be of any type."""

    class Foreign(torch.optim.Optimizer):
        def __init__(self) -> None:
            super().__init__([torch.ones(1)], {})
            self.param_groups: list[dict[str, Any]] = [{"params": ["a name", None, 3]}, {}]

        def step(self) -> None:  # type: ignore[override]
            pass

    module = module_of(torch.ones(2, 2))
    with cast_cache.keep(module):
        Foreign().step()
