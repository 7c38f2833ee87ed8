"""A policy that holds switches no autocasting on: what asks for its state gets torch's answer."""

import threading
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import backends
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.process import python

X = torch.eye(4)
# Torch's devices with an autocast state, the carrier among them.
KINDS = [
    kind for kind in (*backends.device_types(), "ipu", "mps") if torch.amp.autocast_mode.is_autocast_available(kind)
]


def state() -> dict[str, object]:
    """Return the answers of all that torch can be asked of autocasting."""
    torch.autocast_increment_nesting()
    return {
        "any": torch._C._is_any_autocast_enabled(),
        "default": torch.is_autocast_enabled(),
        "cache": torch.is_autocast_cache_enabled(),
        "nesting": torch.autocast_decrement_nesting(),
        **{kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in KINDS},
    }


class Runs(nn.Module):
    """A module that runs what it is given."""

    def forward(self, body: Callable[[], Any]) -> Any:
        return body()


def lstm() -> object:
    return nn.LSTM(4, 4)(torch.ones(2, 4, dtype=torch.float64))


def fused_layer() -> object:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    with torch.no_grad(), polycast.debug.trace() as trace:
        layer(torch.ones(2, 3, 8))
    return [call.site.op for call in trace.calls]


def rerun(reentrant: bool) -> object:
    states: list[object] = []

    def segment(x: torch.Tensor) -> torch.Tensor:
        states.append(state())
        return x.sin()

    x = X.clone().requires_grad_()
    checkpoint(segment, x, use_reentrant=reentrant).sum().backward()
    return states


ASKED: dict[str, Callable[[], object]] = {
    "the state": state,
    "an LSTM of another dtype": lstm,
    "the fused encoder layer": fused_layer,
    "a reentrant checkpoint": lambda: rerun(True),
    "a checkpoint": lambda: rerun(False),
    "a mixed product": lambda: X @ X.half(),
}


def answers(body: Callable[[], object]) -> list[object]:
    """Return what a function returns, or the text of its error, in a module with rules and in one without."""
    module, found = Runs(), []
    for rules in ({"matmul": "fp32"}, None):
        polycast.assign(module, {"": rules})
        try:
            found.append(module(body))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("name", ASKED)
def test_a_module_with_rules_outside_of_regions_is_as_one_without(name: str) -> None:
    found: list[list[object]] = []
    # A thread of its own has not called compiled code.
    thread = threading.Thread(target=lambda: found.append(answers(ASKED[name])))
    thread.start()
    thread.join()
    assert found[0][0] == found[0][1]


@pytest.mark.parametrize("name", ASKED)
def test_where_compiled_code_has_run_only_the_carrier_shows_a_scope(name: str) -> None:
    torch.compile(lambda x: x + 1, backend="eager")(X)
    ours, stock = answers(ASKED[name])
    for mine, its in zip(*([one] if isinstance(one, dict) else one for one in (ours, stock)), strict=True):
        if isinstance(mine, dict):
            assert {key for key in mine if mine[key] != its[key]} == {backends.CARRIER}
        else:
            assert mine == its
    assert backends.CARRIER == "maia"


A_LONG_REGION = """
import threading, polycast, torch
square = torch.compile(lambda x: x @ x, backend="eager")
entered, compiled, found = threading.Event(), threading.Event(), []
def stay():
    with polycast.autocast("cpu", policy=polycast.Policy({"matmul": "fp32"})):
        entered.set()
        compiled.wait()
        found.append(square(torch.eye(2)).dtype)
thread = threading.Thread(target=stay)
thread.start()
entered.wait()
with polycast.autocast("cpu"):
    found.append(square(torch.eye(2)).dtype)
compiled.set()
thread.join()
print(*found)
"""


def test_a_thread_that_entered_before_anything_was_compiled_gets_code_of_its_scope() -> None:
    assert python(A_LONG_REGION, TORCH_LOGS="-all").split() == ["torch.bfloat16", "torch.float32"]
