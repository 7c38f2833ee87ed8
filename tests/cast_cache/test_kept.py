"""A kept cast is that of its weight's values, after any sequence of writes that can be seen."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import count_casts, module_of
from tests.cast_cache.writes import ASSIGNED, CHANGES, NOT_ON_XLA, Change
from tests.support.properties import examples

BF16 = torch.bfloat16
SIZE = 4
pytestmark = pytest.mark.usefixtures("one_thread")


def assign_ones(weight: nn.Parameter, value: float) -> None:
    weight.data = torch.full((SIZE, SIZE), value, device=weight.device)


def assign_copy(weight: nn.Parameter, value: float) -> None:
    data = weight.data.clone()
    data += value
    weight.data = data


def assign_other_type_and_back(weight: nn.Parameter, value: float) -> None:
    with torch.no_grad():
        weight.mul_(value)
    module = nn.Module()
    module.weight = weight
    module.double().float()


def nothing(_weight: nn.Parameter, _value: float) -> None:
    """Leave the cast to be reused."""


ASSIGNMENTS: list[Change] = [
    nothing,
    assign_ones,
    assign_copy,
    assign_other_type_and_back,
]
WRITES = {write.__name__: write for write in ASSIGNMENTS} | CHANGES | NOT_ON_XLA | ASSIGNED
MODES = {mode.__name__: mode for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad)}


def cast_of(weight: Tensor, mode: Callable[[], Any]) -> Tensor:
    with mode(), polycast.autocast(weight.device.type, BF16):
        return torch.eye(SIZE, device=weight.device) @ weight


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(WRITES)), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from(["no_grad", *MODES])
        ),
        max_size=10,
    )
)
@examples(300)
def test_a_kept_cast_is_never_stale(acts: list[tuple[str, float, str]]) -> None:
    weight = nn.Parameter(torch.arange(1.0, SIZE**2 + 1).view(SIZE, SIZE) + 0.001)
    kept = module_of(weight)
    cast_cache.keep(kept)
    for write, value, mode in acts:
        cast_of(weight, MODES[mode])
        WRITES[write](weight, value)
        assert torch.equal(cast_of(weight, MODES[mode]), weight.detach().bfloat16())
        if mode != "enable_grad":  # whose casts are not kept
            assert count_casts(lambda: cast_of(weight, MODES["no_grad"])) == 1  # that of the other matrix
    cast_cache.release(kept)


@given(st.lists(st.sampled_from([*ASSIGNMENTS, *ASSIGNED.values()]), min_size=2, max_size=3))
@examples(30)
def test_assignments_within_a_region_are_seen(real_device: str, writes: list[Change]) -> None:
    """Where gradients are wanted the region's cast is used, and not the kept one."""
    weight = nn.Parameter(torch.rand(SIZE, SIZE).to(real_device))
    kept = module_of(weight)
    cast_cache.keep(kept)
    with polycast.autocast(real_device, BF16):
        for write in writes:
            weight @ weight
            write(weight, 2.0)
            product = weight @ weight
            plain = weight.detach().bfloat16()
            assert torch.equal(product.detach().cpu(), (plain @ plain).cpu())
    cast_cache.release(kept)
