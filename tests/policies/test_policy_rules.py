"""What rules come to on each device."""

import pytest
import torch
from polycast import Policy
from polycast._compiled import DEVICES

import tests.policies.library  # noqa: F401

LIKE_CUDA = "cuda xla_gpu mtia maia hpu privateuse1 npu musa mlu"
CPU = "cpu tpu"  # which is like it
ALL = " ".join(DEVICES)

# rules: what each device gets. An op stands for all overloads that are listed with it.
RULES: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "an op": ({"layer_norm": "input_dtype"}, {ALL: "layer_norm input_dtype"}),
    "an overload": ({"pow.Tensor_Scalar": "bfloat16"}, {ALL: "pow.Tensor_Scalar bfloat16"}),
    "the default overload": ({"cat.default": "fp32"}, {ALL: "cat fp32"}),
    "all overloads": (
        {"pow": "fp32"},
        {ALL: "pow.Tensor_Tensor fp32, pow.Scalar fp32, pow.Tensor_Scalar fp32"},
    ),
    "the overloads that can take it": ({"add": "promote"}, {ALL: "add.Tensor promote"}),
    "a function": ({"torch.nn.functional.layer_norm": "fp32"}, {ALL: "layer_norm fp32"}),
    "what runs several ops": (
        {"torch.nn.CrossEntropyLoss": {"cpu": "promote"}},
        {CPU: "cross_entropy_loss promote, nll_loss promote, nll_loss2d promote"},
    ),
    "a custom operator": (
        {"library::attention": "lower_precision_fp"},
        {ALL: "library::attention lower_precision_fp, library::attention.fast lower_precision_fp"},
    ),
    "an overload of a custom operator": (
        {"torch.ops.library.attention.fast": "promote"},
        {ALL: "library::attention.fast promote"},
    ),
    "a dtype of its own": ({"library::mean": "fp32_set_opt_dtype"}, {ALL: "library::mean fp32_set_opt_dtype"}),
    "a dtype to append": ({"norm.Scalar": "fp32_append_dtype"}, {ALL: "norm.Scalar fp32_append_dtype"}),
    "unlisted": ({"mv": "unlisted"}, {ALL: "mv unlisted"}),
    "float32": ({"mv": "float32", "dot": torch.float32}, {ALL: "mv fp32, dot fp32"}),
    "float64": ({"mv": torch.double}, {ALL: "mv float64"}),
    # Devices
    "a device": ({"mv": {"xpu": "fp32"}}, {"xpu": "mv fp32"}),
    "a device that others are like": ({"mv": {"cuda": "fp32"}}, {LIKE_CUDA: "mv fp32"}),
    "a device that is like another": (
        {"mv": {"cuda": "fp32", "mtia": "promote"}},
        {LIKE_CUDA.replace("mtia ", ""): "mv fp32", "mtia": "mv promote"},
    ),
    "others": (
        {"mv": {"cuda": "fp32", "others": "float16"}},
        {LIKE_CUDA: "mv fp32", f"xla xpu mps {CPU}": "mv float16"},
    ),
    "others unlisted": (
        {"mv": {"cuda": "fp32", "others": "unlisted"}},
        {"cuda": "mv fp32", ALL.removeprefix("cuda "): "mv unlisted"},
    ),
    "a device of torch's": ({"mv": {torch.device("cpu", 0): torch.float16}}, {CPU: "mv float16"}),
    # Alternatives
    "a cast with its keys": ({"mv": {"as": "fp32", "torch": ">=2.0", "note": "Why."}}, {ALL: "mv fp32"}),
    "a cast of other releases": ({"mv": {"as": "fp32", "torch": "<2.0"}}, {}),
    "the first that holds": ({"mv": [{"as": "fp32", "torch": "<2.0"}, "promote"]}, {ALL: "mv promote"}),
    "some overloads": (
        {"pow": {"cpu": [{"as": "promote", "overloads": ["Tensor_Tensor"]}, "fp32"]}},
        {CPU: "pow.Tensor_Tensor promote, pow.Scalar fp32, pow.Tensor_Scalar fp32"},
    ),
    # Several rules
    "an overload before its op": (
        {"pow.Scalar": {"cpu": "float16"}, "torch.pow": {"cpu": "fp32"}},
        {CPU: "pow.Tensor_Tensor fp32, pow.Scalar float16, pow.Tensor_Scalar fp32"},
    ),
    "rules that agree": ({"softmax.int": {"cpu": "fp32"}, "aten::softmax.int": "fp32"}, {ALL: "softmax.int fp32"}),
    "none": ({}, {}),
}


def held(rules: dict[str, object]) -> dict[str, list[str]]:
    """Return what each device gets."""
    found: dict[str, list[str]] = {}
    for rule in Policy(rules).by_overload():
        found.setdefault(rule.device, []).append(f"{rule.name} {rule.category}")
    return {device: sorted(found[device]) for device in DEVICES if device in found}


@pytest.mark.parametrize(("rules", "expected"), RULES.values(), ids=RULES)
def test_what_rules_come_to(rules: dict[str, object], expected: dict[str, str]) -> None:
    assert held(rules) == {
        device: sorted(text.split(", ")) for devices, text in expected.items() for device in devices.split()
    }
