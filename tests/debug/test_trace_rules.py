"""A trace names the rule that each call followed, and where the rule was set."""

from concurrent.futures import ThreadPoolExecutor

import polycast
import pytest
import torch
from polycast import Policy
from torch import nn
from torch.nn.functional import linear, mse_loss, relu

from tests.support.devices import RESIZES

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
ONES = torch.ones(2, 2)
HALF = torch.ones(2, 2, dtype=BF16)

pytestmark = [pytest.mark.usefixtures("one_thread"), RESIZES]


def test_rules_come_from_where_they_were_set(real_device: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(real_device)
    ones, half = ONES.to(real_device), HALF.to(real_device)
    region = polycast.autocast(real_device, policy=polycast.Policy({"gelu": "bfloat16"}))
    polycast.assign(model, {"1": {"linear": "fp32"}})
    polycast.use(polycast.Policy({"relu": "fp32"}))
    try:
        with polycast.debug.trace(model) as t, region:
            mse_loss(nn.functional.gelu(relu(model(ones))), half)
    finally:
        polycast.use(None)
    assert [(call.site.module, call.site.op, call.rule, call.origin) for call in t.calls] == [
        ("0", "linear", "lower_precision_fp", "policy.yaml"),
        ("1", "linear", "fp32", "module: Policy: linear"),
        ("", "relu", "fp32", "process: Policy: relu"),
        ("", "gelu", "bfloat16", "region: Policy: gelu"),
        ("", "broadcast_tensors", "unlisted", ""),
        ("", "mse_loss", "fp32", "policy.yaml"),
    ]


def test_each_of_many_modules_has_its_own_rule_and_origin() -> None:
    """These are more policies than torch.compile can tell apart. The rule is that of the time of the call."""
    kinds = ("bfloat16", "float16", "fp32", "lower_precision_fp")
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(500)))
    for number, layer in enumerate(model):
        rules = Policy({"linear": kinds[number % 4], "exp": kinds[number // 4 % 4], "log": kinds[number // 16 % 4]})
        polycast.assign(layer, {"": rules | Policy({"sin": kinds[number // 64 % 4], "cos": kinds[number // 256]})})
    with polycast.debug.trace(model) as t, torch.no_grad(), polycast.autocast("cpu"):
        model(ONES)
    found = [(call.site.module, call.rule, call.origin) for call in t.calls if call.site.op == "linear"]
    assert found == [(str(number), kinds[number % 4], "module: Policy: linear") for number in range(500)]


def test_a_policy_that_was_left_within_the_trace_is_named() -> None:
    """No part of the policy is alive when the trace is read."""
    with polycast.debug.trace() as t, polycast.autocast("cpu"):
        for kind in ("float16", "fp32", "bfloat16"):
            with polycast.autocast("cpu", policy=Policy({"linear": kind, "mul": kind})):
                linear(ONES, ONES) * 2
        linear(ONES, ONES) * 2
    found = [(call.site.op.partition(".")[0], call.rule, call.origin) for call in t.calls]
    expected = [
        (op, kind, f"region: Policy: {op}") for kind in ("float16", "fp32", "bfloat16") for op in ("linear", "mul")
    ]
    assert found == [*expected, ("linear", "lower_precision_fp", "policy.yaml"), ("mul", "unlisted", "")]


def test_a_rule_is_that_of_the_kernel_while_another_thread_changes_the_process() -> None:
    """The returned dtype shows which rule the kernel followed."""
    ended = False

    def change() -> None:
        while not ended:
            for kind in ("float16", "fp32", "bfloat16"):
                polycast.use(Policy({"linear": kind}))

    try:
        with ThreadPoolExecutor(1) as other, polycast.debug.trace() as t, polycast.autocast("cpu"):
            changed = other.submit(change)
            for _ in range(2000):
                linear(ONES, ONES)
            ended = True
            changed.result()
    finally:
        polycast.use(None)
    types = {"float16": F16, "fp32": F32, "bfloat16": BF16, "lower_precision_fp": BF16}
    assert {call.returned == (types[call.rule],) for call in t.calls} == {True}
