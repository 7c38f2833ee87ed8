"""``compare`` on inexact programs, most of them from bug reports: it ranks the responsible op first and finds a fix."""

import functools
from pathlib import Path

import polycast
import pytest
import torch
import yaml
from torch import Tensor

CASES = yaml.safe_load(Path(__file__).with_name("inexact.yaml").read_text(encoding="utf-8"))


@torch.library.custom_op("polycast_inexact::triple", mutates_args=())
def triple(x: Tensor) -> Tensor:
    return x * (3.6 if x.dtype is torch.bfloat16 else 3)


@pytest.mark.parametrize("case", CASES, ids=[case["thread"] for case in CASES])
def test_the_responsible_op_is_first_and_its_rule_fixes_the_program(case: dict[str, str]) -> None:
    names = {"torch": torch, "functools": functools, "one": torch.ones(1, 1, requires_grad=True)}
    data = eval(case["data"], names)

    def run(enabled: bool = True) -> Tensor:
        with polycast.autocast("cpu", case["dtype"], enabled=enabled):
            h = (data[..., None] @ names["one"]).squeeze(-1)
            return eval(case["code"], {**names, "h": h}).detach()  # type: ignore[no-any-return]

    truth = run(enabled=False)
    errors = polycast.debug.compare(run)
    print(errors)
    assert (run() - truth).norm() > 0.02 * truth.norm(), "the program is right"
    assert case["op"] == errors.worst()[0].op
    assert errors.policy is not None and errors.error_under_policy < 0.02
    with polycast.use(errors.policy):
        assert (run() - truth).norm() < 0.02 * truth.norm()
