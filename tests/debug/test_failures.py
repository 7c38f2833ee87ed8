"""Failures of mixed precision that people reported: watch names the op that loses the number, and a rule that works.

Each function has a few lines that fail in the same way. It is given the output of a linear layer. Its docstring names
the reports.
"""

import re
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

F16, BF16 = torch.float16, torch.bfloat16
FAILURES: dict[str, tuple[Any, ...]] = {}


def failure(
    op: str, x: Tensor, dtype: torch.dtype = F16, rules: dict[str, str] | None = None, gain: float = 1
) -> Callable[[Callable[[Tensor], Tensor]], None]:
    """Add a function to the table, with the op that loses the number and the input of the layer."""

    def add(function: Callable[[Tensor], Tensor]) -> None:
        FAILURES[function.__name__] = function, op, x, dtype, rules or {op: "fp32"}, gain

    return add


@failure("linear", torch.full((2, 256), 259.0), gain=256)
def last_projection_of_the_feed_forward(h: Tensor) -> Tensor:
    """huggingface/transformers#5651"""
    return h / 100


@failure("einsum", 60 * torch.linspace(-1, 1, 1024).reshape(2, 8, 64))
def attention_scores_by_einsum(q: Tensor) -> Tensor:
    """Stability-AI/stablediffusion#89"""
    return torch.softmax(torch.einsum("bid,bjd->bij", q, q) * 0.125, -1)


@failure("clamp_min", torch.tensor([[0.0, 0, 0, 0], [1, 2, 3, 4]]))
def normalize_with_an_eps_of_zero(h: Tensor) -> Tensor:
    """pytorch/pytorch#32137, huggingface/diffusers#13316"""
    return F.normalize(h, dim=-1)


@failure("add", torch.zeros(2, 4))
def rms_norm_with_an_eps_of_zero(h: Tensor) -> Tensor:
    return h / torch.sqrt((h**2).mean(-1, keepdim=True) + 1e-8)


@failure("matmul", 40 * torch.linspace(0, 1, 32768).reshape(4096, 8) + 5)
def linear_attention(h: Tensor) -> Tensor:
    """mit-han-lab/efficientvit#100"""
    q = torch.relu(h).t()
    v = F.pad(torch.tanh(q), (0, 0, 0, 1), value=1.0)
    out = (v @ q.t()) @ (q / 1000)
    return out[:-1] / (out[-1:] + 1e-6)


@failure("mul", torch.tensor([[0.0, 0, 400, 400], [16, 16, 416, 416]]))
def areas_of_boxes(b: Tensor) -> Tensor:
    """pytorch/vision#3383"""
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    wh = torch.minimum(b[0, 2:], b[1, 2:]) - torch.maximum(b[0, :2], b[1, :2])
    return wh[0] * wh[1] / (area.sum() - wh[0] * wh[1])


@failure("exp", torch.full((2, 8), 12.5))
def features_by_exp(h: Tensor) -> Tensor:
    """facebookresearch/xformers#96, huggingface/sentence-transformers#4019"""
    return torch.log1p(torch.exp(h) / torch.exp(h).sum(-1, keepdim=True))


@failure("pow", torch.full((2, 4), 1e-4))
def logarithm_of_a_square(h: Tensor) -> Tensor:
    """NVIDIA/apex#812"""
    return h.pow(2) - 1 - h.pow(2).log()


@failure("clamp", torch.full((2, 4), 10.0))
def focal_loss(h: Tensor) -> Tensor:
    """zylo117/Yet-Another-EfficientDet-Pytorch#502"""
    p = torch.clamp(torch.sigmoid(h), 1e-4, 1 - 1e-4)
    return -0.75 * p**2 * torch.log(1 - p)


@failure("sigmoid", torch.full((1, 4), 6.5), BF16)
def gradient_of_log1p(h: Tensor) -> Tensor:
    """fastino-ai/GLiNER2#155"""
    return 1 - torch.exp(torch.log1p(-torch.sigmoid(h).clamp(max=1 - 1e-6)).sum() / 8)


@failure("linear", torch.ones(2, 8))
def loss_scale(h: Tensor) -> Tensor:
    """NVIDIA/tacotron2#112"""
    return (10 * h.float()).sum() * 65536


@failure("linalg_vector_norm", torch.full((1, 15), 0.3), rules={"matmul": "fp32", "linalg_vector_norm": "fp32"})
def arc_cosine(h: Tensor) -> Tensor:
    """NVIDIA/apex#211"""
    unit = h / h.norm(dim=-1, keepdim=True)
    return torch.acos((unit @ unit.t()) * 0.9999)


@failure("sub", -1000.0 - 8 * torch.arange(8.0)[None], BF16)
def entmax_by_bisection(h: Tensor) -> Tensor:
    """deep-spin/entmax#30"""
    z = h * 0.5
    lo, hi = z.max() - 1, z.max() - 8**-0.5
    for _ in range(20):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if (z - mid).clamp(min=0).pow(2).sum() >= 1 else (lo, mid)
    return (z - lo).clamp(min=0).pow(2) / (z - hi).clamp(min=0).pow(2).sum()


@failure("add", torch.full((2, 8), 20.0))
def residual_blocks(h: Tensor) -> Tensor:
    """JingyunLiang/SwinIR#103, #180"""
    for _ in range(12):
        h = h + h
    return F.layer_norm(h, (8,))


@pytest.mark.parametrize("name", FAILURES)
def test_watch_names_the_op_that_loses_the_number_and_a_rule_that_works(name: str) -> None:
    function, op, x, dtype, rules, gain = FAILURES[name]
    model = nn.Linear(x.shape[-1], x.shape[-1], bias=False)
    model.weight.data = gain * torch.eye(x.shape[-1])

    def run(policy: Any = None) -> list[Tensor]:
        with polycast.autocast("cpu", dtype, policy=policy):
            result = function(model(x)).float()
        return [result, *torch.autograd.grad(result.sum(), model.weight)]

    with polycast.debug.watch(model) as watch:
        failed = [not bool(one.isfinite().all()) for one in run()]
    finding = watch.findings[0]
    assert (finding.op, finding.shows.phase) == (op, "forward" if failed[0] else "backward")
    found = re.fullmatch(r".*tried, and finite: polycast\.Policy\((.*)\)", finding.remedy)
    assert found is not None and eval(found[1]) == rules
    assert bool(run(rules)[1 - failed[0]].isfinite().all())
