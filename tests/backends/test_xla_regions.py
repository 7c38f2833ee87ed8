"""Regions on XLA: what torch_xla's scripts write, and attention of mixed types."""

import polycast
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from tests.support.probe import HAS_XLA, NO_XLA

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
F32, BF16 = torch.float32, torch.bfloat16


def test_torch_xlas_own_region_does_not_open_on_the_host_and_ours_does(capsys: pytest.CaptureFixture[str]) -> None:
    import torch_xla
    import torch_xla.amp

    device = torch_xla.device()
    inputs = torch.ones(2, 2, device=device)
    with pytest.raises(AttributeError, match="'autocast' object has no attribute"):
        torch_xla.amp.autocast(device).__enter__()
    assert capsys.readouterr().out == "Warning: AMP only supported for XLA:TPU. Ignoring autocast.\n"
    for region in (polycast.autocast(device), torch.autocast("xla")):
        with region:
            assert (inputs @ inputs).dtype == BF16


def _attend(query: torch.dtype, value: torch.dtype, mask: torch.dtype | None = None) -> torch.dtype:
    def make(dtype: torch.dtype) -> torch.Tensor:
        return torch.ones(1, 1, 2, 2, dtype=dtype, device="xla")

    return attention(make(query), make(query), make(value), None if mask is None else make(mask)).dtype


def test_attention_of_mixed_types_runs_by_a_rule() -> None:
    rule = polycast.Policy({"scaled_dot_product_attention": {"xla": "lower_precision_fp"}})
    with polycast.autocast("xla"):
        with pytest.raises(RuntimeError, match="Expected query, key, and value to have the same dtype"):
            _attend(F32, BF16)
        with polycast.autocast("xla", policy=rule):
            assert _attend(F32, BF16) == BF16


def test_a_mask_in_float32_does_not_widen_attention() -> None:
    """Why policy.yaml does not promote it on XLA: a mask in the dtype of the weights would widen the rest."""
    promote = polycast.Policy({"scaled_dot_product_attention": {"xla": "promote"}})
    with polycast.autocast("xla"):
        assert _attend(BF16, BF16, F32) == BF16
        with polycast.autocast("xla", policy=promote):
            assert _attend(BF16, BF16, F32) == F32
