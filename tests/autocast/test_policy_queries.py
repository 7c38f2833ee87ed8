"""Asking the policy: each answer against the table that is registered, each mistake by its text."""

import re
from collections.abc import Callable

import pytest
from polycast import policy
from polycast._compiled import DEVICES, ROWS

DEVICE_NAMES = ", ".join(DEVICES)
CATEGORY_NAMES = ", ".join(policy.categories())


def test_devices_and_categories_are_those_of_the_table() -> None:
    assert policy.devices() == tuple(DEVICES)
    assert {row.device for row in ROWS} == {*policy.devices()}
    assert {row.category for row in ROWS} <= {*policy.categories()}
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
        # Ops of torch's that no row names
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
    rows = [row for row in ROWS if row.device == device]
    assert policy.ops(device) == tuple(sorted({row.op for row in rows}))
    for category in policy.categories():
        assert policy.ops(device, category) == tuple(sorted({row.op for row in rows if row.category == category}))
    assert policy.notes(device) == {row.op: row.note for row in rows if row.note}


def test_the_rows_of_an_op_are_those_of_its_overloads() -> None:
    assert set().union(*map(policy.op_rows, {row.op for row in ROWS})) == {*ROWS}
    assert policy.op_rows("pow.Scalar") == tuple(row for row in policy.op_rows("pow") if row.overload == "Scalar")
    assert policy.op_rows("add") == ()
    assert {row.op for row in policy.op_rows("torch.nn.CrossEntropyLoss")} == {
        *("cross_entropy_loss", "log_softmax", "nll_loss", "nll_loss2d", "sum")
    }


@pytest.mark.parametrize(
    ("question", "arguments", "text"),
    [
        (policy.category, ["conv2", "cuda"], "neither torch nor the policy has an op 'conv2'; did you mean 'conv2d'?"),
        (
            policy.category,
            ["pow.Tensor_Scaler", "cuda"],
            "torch has no overload 'pow.Tensor_Scaler'; did you mean 'pow.Tensor_Scalar'?",
        ),
        (policy.op_rows, ["qqq"], "neither torch nor the policy has an op 'qqq'"),
        (policy.op_rows, ["torch.ad"], "neither torch nor the policy has an op 'torch.ad'; did you mean 'torch.addr'?"),
        *(
            (policy.op_rows, [name], f"'{name}' is no op, and the policy does not say which ops it runs; ask for those")
            for name in ("GELU", "torch.nn.GELU", "gumbel_softmax")
        ),
        (
            policy.category,
            ["cross_entropy", "cuda"],
            "'cross_entropy' runs several ops of cuda: log_softmax (fp32_set_opt_dtype), nll_loss (fp32), "
            "nll_loss2d (fp32), sum (fp32_set_opt_dtype); ask for one of them",
        ),
        (
            policy.category,
            ["conv2d", "cdua"],
            f"polycast has no device 'cdua' in its policy; it has {DEVICE_NAMES}; did you mean 'cuda'?",
        ),
        (
            policy.ops,
            ["gpu"],
            f"polycast has no device 'gpu' in its policy; it has {DEVICE_NAMES}; did you mean 'cuda'?",
        ),
        (
            policy.notes,
            ["gpu"],
            f"polycast has no device 'gpu' in its policy; it has {DEVICE_NAMES}; did you mean 'cuda'?",
        ),
        (policy.ops, ["cuda", "fp23"], f"no category 'fp23'; there are {CATEGORY_NAMES}; did you mean 'fp32'?"),
        (policy.ops, ["cuda", "x"], f"no category 'x'; there are {CATEGORY_NAMES}"),
    ],
)
def test_an_unknown_name_is_told_with_the_known_ones(
    question: Callable[..., object], arguments: list[str], text: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        question(*arguments)


@pytest.mark.parametrize(
    ("question", "arguments", "text"),
    [
        (policy.op_rows, [None], "the op is None; give its name, such as 'conv2d' or 'pow.Tensor_Scalar'"),
        (policy.category, [3, "cuda"], "the op is 3; give its name, such as 'conv2d' or 'pow.Tensor_Scalar'"),
        (policy.category, ["conv2d", 0], "the device is 0; give a text such as 'cpu', or a torch.device"),
        (policy.ops, ["cuda", ["fp32"]], f"the category is ['fp32']; give a name of {CATEGORY_NAMES}"),
    ],
)
def test_what_is_no_name_is_told_what_is(question: Callable[..., object], arguments: list[object], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        question(*arguments)
