"""The cast cache under dispatch modes, such as FLOP counters: results and casts equal stock autocast's."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tests.cast_cache.stock import count_casts, stock
from tests.support.optimizers import same_bits
from tests.support.properties import examples

BF16, SIZE = torch.bfloat16, 4
Around = Callable[[], AbstractContextManager[Any]]
pytestmark = pytest.mark.usefixtures("one_thread")


class Seen(TorchDispatchMode):
    """A dispatch mode that records the names of ops, and optionally runs the ops in another mode."""

    def __init__(self, inner: AbstractContextManager[Any] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names, self.inner = list[str](), inner or nullcontext()

    def __torch_dispatch__(self, function: Any, _types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        with self.inner:
            return function(*args, **kwargs or {})


MODES: list[Around] = [nullcontext, lambda: FlopCounterMode(display=False), Seen]
# A use has the index of a weight, the index of a mode, and whether gradients are enabled.
USES = st.tuples(
    st.sampled_from([0, 0, 1, 1, 2]),
    st.sampled_from(range(len(MODES))),
    st.sampled_from([True, True, True, True, True, False]),
)
Regions = list[list[tuple[int, int, bool]]]


def gradients(regions: Regions, around: Around, *, modes: bool) -> list[Tensor]:
    """Return the losses and gradients of a chain of uses, each under its mode if ``modes`` is true."""
    numbers = torch.Generator().manual_seed(0)
    weights = [torch.randn(SIZE, SIZE, generator=numbers).requires_grad_() for _ in range(3)]
    x = y = torch.randn(2, SIZE, generator=numbers).requires_grad_()
    losses = [x.sum() * 0]
    with around():
        for uses in regions:
            with polycast.autocast("cpu", BF16):
                for weight, mode, grad in uses:
                    with MODES[mode * modes](), torch.set_grad_enabled(grad):
                        y = torch.tanh(linear(y, weights[weight]))
                    losses.append(y.float().square().sum())
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    return [*(loss.detach() for loss in losses), *(one.grad for one in (x, *weights) if one.grad is not None)]


@given(st.lists(st.lists(USES, max_size=8), min_size=1, max_size=3), st.sampled_from([*MODES, polycast.debug.trace]))
@examples(80)
def test_modes_do_not_change_random_programs(regions: Regions, around: Around) -> None:
    observed = gradients(regions, around, modes=True)
    expected = [gradients(regions, nullcontext, modes=False)]
    if all(grad for uses in regions for *_, grad in uses):  # Stock autocast may lose gradients around other uses.
        with stock():
            expected.append(gradients(regions, around, modes=True))
    for others in expected:
        assert len(observed) == len(others)
        assert all(map(same_bits, observed, others))


def test_a_mode_sees_the_casts_of_stock_autocast_only() -> None:
    def seen() -> list[str]:
        layer, x = nn.Linear(SIZE, SIZE), torch.rand(2, SIZE)
        with Seen() as mode, polycast.autocast("cpu", BF16):
            layer(x)
            layer(x)
        names: list[str] = mode.names
        return names

    found = seen()
    with stock():
        assert found == seen()


fakes = partial(FakeTensorMode, allow_non_fake_inputs=True)


@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("enter", [fakes, lambda: Seen(fakes())], ids=["fake tensors", "a mode that makes them"])
def test_tensors_of_a_mode_do_not_leave_it(enter: Around, kept: bool) -> None:
    """A real call never reuses a fake cast. Stock autocast would reuse it if the weight requires gradients."""
    layer, x = nn.Linear(SIZE, SIZE).requires_grad_(not kept), torch.rand(2, SIZE)
    with polycast.cast_cache.keep(layer) if kept else nullcontext():
        with polycast.autocast("cpu", BF16):
            with enter():
                layer(x)
            found = layer(x)
        with polycast.autocast("cpu", BF16, cache_enabled=False):
            assert torch.equal(found, layer(x))


def test_a_mode_leaves_no_kept_cast() -> None:
    """A cast that is made under a mode is not kept, because the mode can create tensors of any kind."""
    layer, x = nn.Linear(SIZE, SIZE).requires_grad_(False), torch.rand(2, SIZE).bfloat16()
    with polycast.cast_cache.keep(layer), polycast.autocast("cpu", BF16):
        with Seen():
            observed = layer(x)
        assert [count_casts(lambda: layer(x)) for _ in range(2)] == [2, 0]
        assert torch.equal(layer(x), observed)
