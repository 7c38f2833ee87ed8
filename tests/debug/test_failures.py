"""Failures of mixed precision from bug reports: ``watch`` names the op that produces Inf or NaN, and a fix.

This file has three programs. ``docs/which-nan.md`` has the other programs, and the output of ``watch`` for them.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import polycast
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.snippets import difference, examples

F16, BF16 = torch.float16, torch.bfloat16


class Failure(NamedTuple):
    """A program after a linear layer, the input of this layer, and the output of ``watch``."""

    program: Callable[[Tensor], Tensor]
    x: Tensor
    dtype: torch.dtype = F16
    gain: float = 1.0
    printed: str = ""


def linear_attention(h: Tensor) -> Tensor:
    """Return the attention of the bug report mit-han-lab/efficientvit#100."""
    q = torch.relu(h).t()
    v = F.pad(torch.tanh(q), (0, 0, 0, 1), value=1.0)
    out = (v @ q.t()) @ (q / 1000)
    return out[:-1] / (out[-1:] + 1e-6)


LINEAR_ATTENTION = """\
step 0: infinity in float16: matmul, in forward
  given float16 up to 1, float16 up to 45, result up to inf (1.02e+05 in float32); rule of matmul: ...
  tried, and finite: polycast.Policy({"matmul": "fp32"})
"""


def entmax_by_bisection(h: Tensor) -> Tensor:
    """Return the entmax of the bug report deep-spin/entmax#30."""
    z = h * 0.5
    lo, hi = z.max() - 1, z.max() - 8**-0.5
    for _ in range(20):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if (z - mid).clamp(min=0).pow(2).sum() >= 1 else (lo, mid)
    return (z - lo).clamp(min=0).pow(2) / (z - hi).clamp(min=0).pow(2).sum()


ENTMAX = """\
step 0: NaN in bfloat16: div, in forward; it begins in sub
  given bfloat16 up to 528, bfloat16 up to 500; rule of sub: unlisted
  tried, and finite: polycast.Policy({"sub": "fp32"})
"""


# The gradient of this program stops at the square root, whose gradient at 0 is infinite.
WEIGHTED = """\
step 0: infinity in float16: the gradient of to, in backward; it begins in linear
  given float32 up to 1.05e+06; rule of linear: ...
  a GradScaler with a smaller init_scale avoids it; tried, and finite: polycast.Policy({"linear": "fp32"})
"""


def failures() -> dict[str, Failure]:
    tokens = 40 * torch.linspace(0, 1, 32768).reshape(4096, 8) + 5
    found = {
        "linear_attention": Failure(linear_attention, tokens, printed=LINEAR_ATTENTION),
        "entmax": Failure(entmax_by_bisection, -1000.0 - 8 * torch.arange(8.0)[None], BF16, printed=ENTMAX),
        "weighted": Failure(
            lambda h: (h.detach().sqrt() * h.tanh()).float() * 2**20, torch.arange(4.0)[None], printed=WEIGHTED
        ),
    }
    names: dict[str, Any] = {}
    first, *programs = examples("docs/which-nan.md")
    exec(first.source, names)

    def show(program: Callable[[Tensor], Tensor], *args: Any, **options: Any) -> None:
        found[program.__name__] = Failure(program, *args, **options)

    for source, output in programs:
        known = [*found]
        exec(source, {**names, "show": show})
        for name in found.keys() - known:  # One example of the page does not call `show`.
            found[name] = found[name]._replace(printed=output)
    assert len(found) == 16
    return found


FAILURES = failures()


@pytest.mark.parametrize("name", FAILURES)
def test_watch_names_the_op_that_overflows_or_rounds_and_a_rule_that_prevents_this(name: str) -> None:
    """``watch`` names the op that overflows or rounds, and a rule under which the results are finite."""
    program, x, dtype, gain, printed = FAILURES[name]
    model = nn.Linear(x.shape[-1], x.shape[-1], bias=False)
    model.weight.data = gain * torch.eye(x.shape[-1])

    def run(policy: Any = None) -> list[Tensor]:
        with polycast.autocast("cpu", dtype, policy=policy):
            result = program(model(x)).float()
        return [result, *torch.autograd.grad(result.sum(), model.weight)]

    with polycast.debug.watch(model) as watch:
        failed = [not bool(one.isfinite().all()) for one in run()]
    text = difference(str(watch), printed)
    assert not text, text
    assert watch.findings[0].shows.phase == ("forward" if failed[0] else "backward")
    found = re.search(r"tried, and finite: polycast\.Policy\((.*)\)", printed)
    assert found is not None
    assert bool(run(eval(found[1]))[1 - failed[0]].isfinite().all())
    assert max(map(len, printed.splitlines())) <= 140
