"""Queries of the built-in policy, compared with the compiled rules."""

import pytest
from polycast import policy
from polycast._extension import DEVICES
from polycast.policy.rules import BUILT_IN


def test_devices_and_categories_match_the_table() -> None:
    assert policy.devices() == tuple(DEVICES)
    assert {rule.device for rule in BUILT_IN} == {*policy.devices()}
    assert {rule.category for rule in BUILT_IN} <= {*policy.categories()}
    assert all(sentence.endswith(".") for sentence in policy.categories().values())
    policy.categories().clear()  # The returned `dict` is a copy.
    assert policy.categories()


@pytest.mark.parametrize(
    ("op", "device", "category"),
    [
        ("cross_entropy", "cpu", "fp32"),  # `cross_entropy` is a composite of several ops.
        ("torch.nn.functional.interpolate", "cpu", "unlisted"),
        ("pow.Scalar", "xla", "unlisted"),
        ("mm.dtype", "cuda", "unlisted"),
        *((rule.name, rule.device, rule.category) for rule in BUILT_IN[::97]),
    ],
)
def test_policy_category_returns_the_category_of_an_op(op: str, device: str, category: str) -> None:
    assert policy.category(op, device) == category


@pytest.mark.parametrize("device", ["cpu", "xla_gpu"])
def test_the_rules_of_a_device_are_the_built_in_rules(device: str) -> None:
    assert policy.resolved({}, device=device) == tuple(sorted(rule for rule in BUILT_IN if rule.device == device))


def test_an_op_has_a_row_for_each_overload() -> None:
    assert set().union(*map(policy.rules, {rule.op for rule in BUILT_IN})) == {*BUILT_IN}
    assert policy.rules("pow.Scalar") == tuple(rule for rule in policy.rules("pow") if rule.overload == "Scalar")
    assert policy.rules("add") == ()
    ops = {"cross_entropy_loss", "log_softmax", "nll_loss", "nll_loss2d", "sum"}
    assert {rule.op for rule in policy.rules("torch.nn.CrossEntropyLoss")} == ops
