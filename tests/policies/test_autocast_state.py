"""A policy that holds switches no autocasting on: what asks for its state gets torch's answer."""

import threading
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy, backends
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.process import python

HALF, X = torch.float16, torch.eye(4)
WIDE = Policy({"matmul": "fp32"})
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


def with_and_without_rules(body: Callable[[], object]) -> list[object]:
    """Return what a function returns, or the text of its error, in a module with rules and in one without."""
    module, found = Runs(), []
    for rules in (WIDE, None):
        polycast.assign(module, {"": rules})
        try:
            found.append(module(body))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def lstm() -> object:
    return nn.LSTM(4, 4)(torch.ones(2, 4, dtype=torch.float64))


def gru() -> object:
    return nn.GRU(4, 4)(torch.ones(2, 4, dtype=HALF))


def attention_path() -> object:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    with torch.no_grad(), polycast.debug.trace() as trace:
        layer(torch.ones(2, 3, 8))
    return [call.site.op for call in trace.calls]


def multihead_path() -> object:
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.ones(2, 3, 8)
    with torch.no_grad(), torch.profiler.profile() as profile:
        layer(x, x, x)
    return sorted(event.key for event in profile.key_averages() if event.key.startswith("aten::"))


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
    "a GRU of another dtype": gru,
    "the fused encoder layer": attention_path,
    "the fused attention": multihead_path,
    "a reentrant checkpoint": lambda: rerun(True),
    "a checkpoint": lambda: rerun(False),
    "a mixed product": lambda: X @ X.half(),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_module_with_rules_outside_of_regions_is_as_one_without(name: str) -> None:
    found: list[list[object]] = []
    # A thread of its own has not called compiled code.
    thread = threading.Thread(target=lambda: found.append(with_and_without_rules(ASKED[name])))
    thread.start()
    thread.join()
    assert found[0][0] == found[0][1]


@pytest.mark.parametrize("name", [name for name in ASKED if name != "the state"])
def test_so_it_is_where_compiled_code_has_run(name: str) -> None:
    torch.compile(lambda x: x + 1, backend="eager")(X)
    ours, stock = with_and_without_rules(ASKED[name])
    if "checkpoint" in name:
        carrier = backends.CARRIER
        ours, stock = ([{**one, carrier: None} for one in states] for states in (ours, stock))  # type: ignore[attr-defined]
    assert ours == stock


def test_where_compiled_code_has_run_only_the_carrier_shows_a_scope() -> None:
    torch.compile(lambda x: x + 1, backend="eager")(X)
    ours, stock = with_and_without_rules(state)
    assert isinstance(ours, dict)
    assert isinstance(stock, dict)
    assert {name for name, value in ours.items() if value != stock[name]} == {backends.CARRIER}
    assert (backends.CARRIER, ours["any"]) == ("maia", False)


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
