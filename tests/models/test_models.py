"""Real models in training and evaluation: the results equal stock PyTorch's and ``torch_xla``'s bit for bit."""

from collections.abc import Callable
from functools import partial

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast.devices import HOST
from torch import Tensor, nn

from tests.support.devices import require_lstm
from tests.support.models.architectures import ARCHITECTURES
from tests.support.models.runs import WAYS, Way, different, run
from tests.support.models.zoo import NAMES, of_transformers
from tests.support.probe import HAS_XLA, NO_XLA, stock_kernels
from tests.support.properties import examples

EACH, ONE = Way(train=True, one_region=False), Way(train=True, one_region=True)
BUILDS = {build.__name__: build for build in ARCHITECTURES}
CASES = [(HOST, build, way) for build in BUILDS for way in (EACH, ONE)]
CASES += [(HOST, build, Way(train=False, one_region=build == "resnet")) for build in ("resnet", "faster_rcnn", "llama")]
CASES += [("xla", "recurrent", EACH)]
# These cases are slow, and other tests compare each op of these models on XLA, and each model on the CPU.
SLOW = [("xla", "resnet", EACH), ("xla", "bert", ONE)]
BF16 = torch.bfloat16

pytestmark = pytest.mark.usefixtures("one_thread")


def compare(build: Callable[[], tuple[nn.Module, list[Tensor]]], device: str, way: Way) -> None:
    ours = run(build, device, way, lambda: polycast.autocast(device, dtype=BF16))
    with stock_kernels():
        stock = run(build, device, way, lambda: torch.autocast(device, dtype=BF16))
    assert BF16 in ours.values()
    assert different(ours, stock) == []


@pytest.mark.parametrize(
    ("device", "name", "way"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
    ids=str,
)
def test_a_model_matches_stock_kernels(device: str, name: str, way: Way) -> None:
    if device == "xla" and not HAS_XLA:
        pytest.skip(NO_XLA)
    if name == "recurrent":
        require_lstm(device)
    compare(BUILDS[name], device, way)


@given(name=st.sampled_from(NAMES), way=st.sampled_from(WAYS))
@examples(4)
def test_an_architecture_of_transformers_matches_stock_kernels(name: str, way: Way) -> None:
    compare(partial(of_transformers, name), HOST, way)
