"""Asking the policy: each answer against the table that is registered, each mistake by its text."""

import re

import pytest
from polycast import policy
from polycast._compiled import DEVICES
from polycast.policy.rules import BUILT_IN

DEVICE_NAMES = ", ".join(DEVICES)
CATEGORY_NAMES = ", ".join(policy.categories())


def test_devices_and_categories_are_those_of_the_table() -> None:
    assert policy.devices() == tuple(DEVICES)
    assert {rule.device for rule in BUILT_IN} == {*policy.devices()}
    assert {rule.category for rule in BUILT_IN} <= {*policy.categories()}
    assert all(sentence.endswith(".") for sentence in policy.categories().values())


def test_an_answer_is_a_copy() -> None:
    policy.categories().clear()
    assert policy.categories()


@pytest.mark.parametrize(
    ("op", "device", "category"),
    [
        ("conv2d", "cuda", "lower_precision_fp"),
        ("aten::conv2d", "cpu", "lower_precision_fp"),
        ("aten.conv2d.padding", "xla", "lower_precision_fp"),
        ("pow.Tensor_Scalar", "xla", "fp32"),
        ("pow.Scalar", "xla", "unlisted"),
        ("relu", "cuda", "unlisted"),
        ("binary_cross_entropy", "cuda", "banned"),
        ("norm.Scalar", "cuda", "fp32_append_dtype"),
        ("cat", "cpu", "promote"),
        # By the names that people call
        ("torch.nn.functional.conv2d", "cuda", "lower_precision_fp"),
        ("Conv2d", "cpu", "lower_precision_fp"),
        ("torch.ops.aten.conv2d", "cpu", "lower_precision_fp"),
        ("softmin", "xla", "fp32"),
        ("cross_entropy", "cpu", "fp32"),
        ("torch.nn.functional.interpolate", "cpu", "unlisted"),
        # Ops of torch's that no rule names
        ("add", "cuda", "unlisted"),
        ("add.Tensor", "cuda", "unlisted"),
        ("torch.add", "cpu", "unlisted"),
        ("torch.nn.functional.gelu", "cpu", "unlisted"),
        ("mm.dtype", "cuda", "unlisted"),
    ],
)
def test_the_category_of_an_op(op: str, device: str, category: str) -> None:
    assert policy.category(op, device) == category


@pytest.mark.parametrize("device", policy.devices())
def test_what_a_device_lists_is_what_is_registered_for_it(device: str) -> None:
    rules = [rule for rule in BUILT_IN if rule.device == device]
    assert policy.ops(device) == tuple(sorted({rule.op for rule in rules}))
    for category in policy.categories():
        assert policy.ops(device, category) == tuple(sorted({rule.op for rule in rules if rule.category == category}))
    assert policy.notes(device) == {rule.op: rule.note for rule in rules if rule.note}


def test_the_rows_of_an_op_are_those_of_its_overloads() -> None:
    assert set().union(*map(policy.rules, {rule.op for rule in BUILT_IN})) == {*BUILT_IN}
    assert policy.rules("pow.Scalar") == tuple(rule for rule in policy.rules("pow") if rule.overload == "Scalar")
    assert policy.rules("add") == ()
    assert {rule.op for rule in policy.rules("torch.nn.CrossEntropyLoss")} == {
        *("cross_entropy_loss", "log_softmax", "nll_loss", "nll_loss2d", "sum")
    }


NO_GPU = f"polycast has no device 'gpu' in its policy; it has {DEVICE_NAMES}; did you mean 'cuda'?"
NAME = "give its name, such as 'conv2d', or torch's function or class"
# Calls, and what they raise.
WRONG = f"""\
category("conv2", "cuda")
  ValueError: unknown op 'conv2'; did you mean 'conv2d'?
category("pow.Tensor_Scaler", "cuda")
  ValueError: 'pow' has no overload 'Tensor_Scaler'; did you mean 'Tensor_Scalar'?
rules("qqq")
  ValueError: unknown op 'qqq'
rules("torch.ad")
  ValueError: unknown op 'torch.ad'; did you mean 'torch.addr'?
rules("torch.nn.GELU")
  ValueError: 'torch.nn.GELU' is no op, and the policy does not say which ops it runs; ask for those, as 'gelu'
rules("gumbel_softmax")
  ValueError: 'gumbel_softmax' is no op, and the policy does not say which ops it runs; ask for those
category("cross_entropy", "cuda")
  ValueError: 'cross_entropy' runs several ops on cuda: log_softmax (fp32_set_opt_dtype), nll_loss (fp32), nll_loss2d \
(fp32), sum (fp32_set_opt_dtype); ask for one of them
category("conv2d", "cdua")
  ValueError: polycast has no device 'cdua' in its policy; it has {DEVICE_NAMES}; did you mean 'cuda'?
ops("gpu")
  ValueError: {NO_GPU}
notes("gpu")
  ValueError: {NO_GPU}
ops("cuda", "fp23")
  ValueError: unknown category 'fp23'; did you mean 'fp32'?
ops("cuda", "x")
  ValueError: unknown category 'x'; use one of {", ".join(sorted(policy.categories()))}
rules(None)
  TypeError: the op is None; {NAME}
category(3, "cuda")
  TypeError: the op is 3; {NAME}
category("conv2d", 0)
  TypeError: the device is 0; give a text such as 'cpu', or a torch.device
ops("cuda", ["fp32"])
  TypeError: the category is ['fp32']; give a name of {CATEGORY_NAMES}
""".splitlines()


@pytest.mark.parametrize(("call", "text"), list(zip(WRONG[::2], WRONG[1::2], strict=True)))
def test_what_is_wrong_is_told_with_what_is_known(call: str, text: str) -> None:
    error, _, message = text.strip().partition(": ")
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}$") as raised:
        eval(f"policy.{call}")
    assert raised.type.__name__ == error
