"""`polycast OP`: the rules of an op, and why torch changed them."""

import pytest
from polycast.command_line import ops
from polycast.policy.releases import releases


@pytest.mark.parametrize("name", ["rms_norm", "torch.nn.RMSNorm"])
def test_an_op_has_the_reason_of_each_change(name: str) -> None:
    """Also under a torch before the change, where the op is unlisted."""
    assert f"rms_norm, torch 2.12: {releases()['torch-2.12'].reasons['rms_norm']}" in ops.text(name)


def test_an_op_that_never_changed_has_no_reason() -> None:
    assert ops.reasons({"bmm"}) == [] and ", torch 2." not in ops.text("bmm")
