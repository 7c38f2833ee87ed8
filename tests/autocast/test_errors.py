"""The errors of regions, installations, policy queries and custom functions; ``errors.txt`` has their texts."""

import polycast
import pytest
import torch
from polycast.devices import XLA

from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.recorded_errors import RecordedError

REGIONS = [
    "autocast('cpu', torch.float32)",
    "autocast('gpu')",
    "autocast('meta')",
    "autocast('privateuse1')",
    "autocast('Cpu:0')",
    "autocast('xla_gpu')",
    "autocast(5)",
    "autocast('cpu', 'bfloat')",
    "autocast('cpu', True)",
    "autocast('xla', torch.float16)",
]
INSTALLATIONS = [
    *(f"install('cpu', {device!r})" for device in ("gpu", "neuron", "qqq", ["cpu"], "xla_gpu")),
    "uninstall('cpu', 'cuad')",
    "install('cpu', like='cuda')",
]
QUERIES = [
    "policy.category('conv2', 'cuda')",
    "policy.category('pow.Tensor_Scaler', 'cuda')",
    "policy.rules('qqq')",
    "policy.rules('torch.ad')",
    "policy.rules('torch.nn.Transformer')",
    "policy.rules('Sequential')",
    "policy.rules('gumbel_softmax')",
    "policy.category('cross_entropy', 'cuda')",
    "policy.category('conv2d', 'cdua')",
    "policy.resolved(device='gpu')",
    "policy.rules(None)",
    "policy.category('conv2d', 0)",
]
FUNCTIONS = [
    "custom_fwd(cast_inputs='float3')",
    "custom_fwd(cast_inputs='bflot16')",
    "custom_fwd(cast_inputs='fp23')",
    "custom_fwd(cast_inputs='mm')",
    "custom_fwd(cast_inputs=float)",
    "custom_fwd(cast_inputs=torch.int32)",
    "custom_fwd('cpu')",
    "custom_fwd(torch.float32)",
    "custom_fwd(cast_inputs=torch.float32)('x')",
    "custom_bwd('cuda')",
    "custom_bwd(print)(object())",
]


@pytest.mark.parametrize("call", [*REGIONS, *INSTALLATIONS, *QUERIES, *FUNCTIONS])
def test_a_mistake_raises_and_changes_nothing(call: str, recorded_error: RecordedError) -> None:
    if "'xla'" in call and not HAS_XLA:
        pytest.skip(NO_XLA)
    before = polycast.installed()
    with recorded_error():
        eval(f"polycast.{call}")
    assert polycast.installed() == before


def test_a_region_on_xla_requires_torch_xla(monkeypatch: pytest.MonkeyPatch, recorded_error: RecordedError) -> None:
    monkeypatch.setattr(XLA, "is_here", False)
    with recorded_error():
        polycast.autocast("xla")
    with polycast.autocast("xla", enabled=False):
        assert not torch.is_autocast_enabled("xla")
