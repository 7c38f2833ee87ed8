"""What counts flops or looks at a program under a dispatch mode sees the casts that run without it, bit for bit."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

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

BF16, F16 = torch.bfloat16, torch.float16
SIZE = 4
pytestmark = pytest.mark.usefixtures("one_thread")


class Seen(TorchDispatchMode):
    """A user's mode, which notes the names of what runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, _types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **kwargs or {})


def flops() -> FlopCounterMode:
    return FlopCounterMode(display=False)


MODES: list[Callable[[], AbstractContextManager[Any]]] = [nullcontext, flops, Seen]


class Act(NamedTuple):
    """A use of a weight, or with None the end of a region and the start of the next."""

    weight: int | None
    mode: int
    grad: bool


ACTS = st.builds(
    Act,
    st.sampled_from([0, 0, 1, 1, 2, None]),
    st.sampled_from(range(len(MODES))),
    st.sampled_from([True, True, True, True, True, False]),
)


def gradients(acts: list[Act], around: Callable[[], AbstractContextManager[Any]], *, modes: bool) -> list[Tensor]:
    """Return what a chain of uses gives and its gradients; the modes are those of the uses, or none."""
    numbers = torch.Generator().manual_seed(0)
    weights = [torch.randn(SIZE, SIZE, generator=numbers).requires_grad_() for _ in range(3)]
    x = y = torch.randn(2, SIZE, generator=numbers).requires_grad_()
    losses = [x.sum() * 0]
    with around():
        region = polycast.autocast("cpu", BF16)
        region.__enter__()
        for act in acts:
            if act.weight is None:
                region.__exit__(None, None, None)
                region = polycast.autocast("cpu", BF16)
                region.__enter__()
                continue
            with MODES[act.mode * modes](), torch.set_grad_enabled(act.grad):
                y = torch.tanh(linear(y, weights[act.weight]))
            losses.append(y.float().square().sum())
        region.__exit__(None, None, None)
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    return [*(loss.detach() for loss in losses), *(one.grad for one in (x, *weights) if one.grad is not None)]


@given(st.lists(ACTS, min_size=2, max_size=12), st.sampled_from([*MODES, polycast.debug.trace]))
@examples(150)
def test_modes_change_no_bit_of_random_programs(
    acts: list[Act], around: Callable[[], AbstractContextManager[Any]]
) -> None:
    plain = gradients(acts, nullcontext, modes=False)
    observed = gradients(acts, around, modes=True)
    expected = [plain]
    if all(act.grad for act in acts):  # stock gives what needs gradients a cast that was made without
        with stock():
            expected.append(gradients(acts, around, modes=True))
    for others in expected:
        assert len(observed) == len(others)
        assert all(map(same_bits, observed, others))


@pytest.mark.filterwarnings("ignore:step 0. ")
def test_an_infinite_sum_of_gradients_is_found_by_a_watch() -> None:
    """The gradient of each use of a cell's weight is finite in float16, and their sum is not."""

    def trained(around: Callable[[nn.Module], AbstractContextManager[Any]]) -> tuple[Any, list[Tensor]]:
        torch.manual_seed(0)
        cell, x = nn.LSTMCell(SIZE, SIZE), torch.full((64, SIZE), 0.1)
        state = torch.zeros_like(x), torch.zeros_like(x)
        with around(cell) as observer:
            with polycast.autocast("cpu", F16):
                for _ in range(30):
                    state = cell(x, state)
                y = state[0]
            (y.float().sum() * 3000).backward()  # type: ignore[no-untyped-call]
        return observer, [weight.grad for weight in cell.parameters() if weight.grad is not None]

    (_, plain), (found, observed) = trained(lambda _: nullcontext()), trained(polycast.debug.watch)
    assert not all(bool(grad.isfinite().all()) for grad in plain)
    assert all(map(same_bits, plain, observed))
    assert {(one.site.phase, one.site.op) for one in found.findings} == {("backward", "add.Tensor")}


def test_a_mode_sees_the_casts_of_stock_and_no_others() -> None:
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


class Faking(TorchDispatchMode):
    """A user's mode whose casts are of another kind than the weights."""

    def __init__(self, fakes: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fakes = fakes

    def __torch_dispatch__(self, function: Any, _types: object, args: Any = (), kwargs: Any = None) -> Any:
        with self.fakes:
            return function(*args, **kwargs or {})


def fakes() -> FakeTensorMode:
    return FakeTensorMode(allow_non_fake_inputs=True)


@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("enter", [fakes, lambda: Faking(fakes())], ids=["fake tensors", "a mode that makes them"])
def test_what_is_no_plain_tensor_does_not_leave_its_mode(
    enter: Callable[[], AbstractContextManager[Any]], kept: bool
) -> None:
    """Stock hands the fake cast to the real call."""
    layer, x = nn.Linear(SIZE, SIZE).requires_grad_(not kept), torch.rand(2, SIZE)
    if kept:
        polycast.cast_cache.keep(layer)
    with polycast.autocast("cpu", BF16):
        with enter():
            layer(x)
        found = layer(x)
    with polycast.autocast("cpu", BF16, cache_enabled=False):
        assert torch.equal(found, layer(x))
    polycast.cast_cache.release(layer)


def test_a_mode_leaves_no_kept_cast() -> None:
    """Its casts may be anything, and a kept one would outlive it."""
    layer, x = nn.Linear(SIZE, SIZE).requires_grad_(False), torch.rand(2, SIZE).bfloat16()
    polycast.cast_cache.keep(layer)
    with polycast.autocast("cpu", BF16):
        with Seen():
            observed = layer(x)
        assert [count_casts(lambda: layer(x)) for _ in range(2)] == [2, 0]
        assert torch.equal(layer(x), observed)
    polycast.cast_cache.release(layer)
