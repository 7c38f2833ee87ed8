"""Random numbers in a comparison: both runs have the same, or the calls that draw others are named."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.devices import seed

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_second_run_draws_the_numbers_of_the_first(real_device: str) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    encoder, x = nn.Linear(8, 8).to(real_device), torch.ones(4, 8, device=real_device)

    def run() -> None:
        with polycast.autocast(real_device, torch.bfloat16):
            spread = encoder(x)
            noise = torch.randn_like(spread) + torch.empty_like(spread).exponential_() + torch.rand_like(spread)
            scale = random.random() + float(numpy.random.rand())
            (scale * nn.functional.dropout(spread + spread.exp() * noise)).sum().backward()  # type: ignore[no-untyped-call]

    errors = polycast.debug.compare(run, model=encoder)
    assert errors.missing == 0
    assert {row.so_far for row in errors if "rand" in row.site.op or "exponential" in row.site.op} == {0.0}
    assert max(row.so_far or 0 for row in errors) < 0.02


class DrawsByType(TorchDispatchMode):
    """Draws other numbers for bfloat16, as some devices do."""

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in function.tags and getattr(args[0], "dtype", None) is torch.bfloat16:
            torch.rand(3), torch.rand(3, device=args[0].device)
        return function(*args, **(kwargs or {}))


X = torch.linspace(-1, 1, 128).reshape(16, 8)
# What draws numbers, and whether the second run is given those of the first.
DROPS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "dropout": (lambda x: functional.dropout(x, 0.3), True),
    "native dropout": (lambda x: torch.native_dropout(x, 0.3, True)[0], True),
    "native dropout of all": (lambda x: torch.native_dropout(x, 1.0, True)[0], True),
    "native dropout that does not train": (lambda x: torch.native_dropout(x, 0.3, False)[0], True),
    "bernoulli": (lambda x: x * torch.bernoulli(torch.sigmoid(x)), True),
    "attention": (lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]), True),
    "rrelu": (lambda x: functional.rrelu(x, training=True), False),
}


@pytest.mark.parametrize("name", DROPS)
def test_random_numbers_are_drawn_once_or_named(name: str, real_device: str) -> None:
    if real_device == "xla" and name != "dropout":
        pytest.skip("each op is compiled, which takes seconds; one shows that the device is given the numbers")
    drop, is_drawn_once = DROPS[name]
    seed(real_device)
    model, x = nn.Linear(8, 8).to(real_device), X.to(real_device)

    def run() -> None:
        with polycast.autocast(real_device, torch.bfloat16):
            drop(model(x)).float().square().sum().backward()  # type: ignore[no-untyped-call]

    with DrawsByType():  # type: ignore[no-untyped-call]
        errors = polycast.debug.compare(run, model)
    assert (max(row.so_far or 0 for row in errors) < 0.05) is is_drawn_once
    if is_drawn_once:
        assert (errors.redrawn, errors.missing) == ([], 0)
    else:
        (site,) = errors.redrawn
        assert site.op in ("rrelu_with_noise", "rrelu_with_noise_functional")
        assert f"other random numbers, whose errors are below: {site.op}, call 0, in forward" in str(errors)


@pytest.mark.parametrize("has_state", [False, True])
def test_an_accelerator_has_its_random_state_put_back_if_it_can(
    has_state: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPS, MTIA and others have no function for the states of all devices, so each device is asked."""
    states = {0: 3, 1: 4}
    functions = {
        "get_rng_state": states.__getitem__,
        "set_rng_state": lambda state, index: states.update({index: state}),
    }
    monkeypatch.setattr(torch, "mps", SimpleNamespace(**functions if has_state else {}))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("mps"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)

    def run() -> None:
        seen.append(dict(states))
        states[1] += 1

    seen: list[dict[int, int]] = []
    polycast.debug.compare(run)
    assert seen == [{0: 3, 1: 4}, {0: 3, 1: 4 if has_state else 5}]
    assert states[1] == (5 if has_state else 6)
