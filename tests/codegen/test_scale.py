"""A policy twice as long is twice the work, counted in calls: seconds would depend on the machine."""

import gc
import sys
from pathlib import Path

import pytest
from polycast._grammar.categories import Category

from codegen.parse import read_policy
from codegen.render import render
from codegen.schemas import Schemas

DEVICES = 10
CATEGORIES = ("lower_precision_fp", "fp32", "promote", "stock")


def calls(path: Path, ops: int) -> int:
    """Return how many functions, of Python and of C, read and render a policy whose ops name every device each."""
    lines = ["devices:"]
    lines += [f"  d{n}: {{dispatch_key: AutocastD{n}, lower_precision: [bfloat16]}}" for n in range(DEVICES)]
    lines += ["categories:", *(f"  {category.value}: A sentence." for category in Category), "ops:"]
    for op in range(ops):
        cast = ", ".join(f"d{n}: {CATEGORIES[(op + n) % len(CATEGORIES)]}" for n in range(DEVICES))
        lines.append(f"  op{op:05}: {{cast: {{{cast}}}, public: [torch.op{op:05}]}}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    schemas = "".join(f"- func: op{op:05}(Tensor self, Tensor other) -> Tensor\n" for op in range(ops))
    torch, count = Schemas(schemas, (2, 9)), 0

    def count_calls(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # what other tests have left is finalized by calls, too
    sys.setprofile(count_calls)
    try:
        render(read_policy(path, path.name, torch))
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def test_every_further_op_costs_the_same(tmp_path: Path) -> None:
    _, few, some, many = (calls(tmp_path / "policy.yaml", ops) for ops in (1, 20, 40, 80))  # the first call imports
    assert many - some == pytest.approx(2 * (some - few), rel=0.001)
