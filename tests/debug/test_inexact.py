"""compare, on programs that people reported as inexact: the op to blame comes first, and the rule fixes the program."""

from collections.abc import Callable

import polycast
import pytest
import torch
from torch import Tensor

HALF, BF16 = torch.float16, torch.bfloat16
ONE = torch.ones(1, 1, requires_grad=True)
HEIGHTS = torch.linspace(-1, 1, 64)
TAIL = (-1.25 * torch.log(torch.arange(1.0, 4097))).mul(16).round() / 16
DIGITS = torch.tensor([[1.0, 0, 0, 4], [2, 3, 4, 4], [3, 1, 2, 3], [7, 4, 4, 4]])
RADICES = torch.tensor([1.0, 8, 40, 200])
FREQUENCIES = 10000 ** -(torch.arange(8.0) / 8)


@torch.library.custom_op("polycast_inexact::triple", mutates_args=())
def triple(x: Tensor) -> Tensor:
    return x * (3.6 if x.dtype is BF16 else 3)


def similarity(h: Tensor) -> Tensor:
    a, b = h, h + 0.1
    return (a * b).sum(-1) * torch.rsqrt(((a * a).sum(-1) * (b * b).sum(-1)).clamp_min(1e-16))


def masked_mean(h: Tensor) -> Tensor:
    mask = torch.ones_like(h)
    return (h * mask).sum(-1) / mask.sum(-1)


def total(h: Tensor) -> Tensor:
    found = torch.zeros(1, dtype=h.dtype)
    for one in h:
        found = found + one
    return found


def small_gradient(h: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(h.float().pow(2).mean() * 1e-6, ONE)
    return gradient


def attention(h: Tensor) -> Tensor:
    """Its mask is no error, and its scores are."""
    scores = 40 * h + 300 + torch.full((64, 64), torch.finfo(h.dtype).min, dtype=h.dtype).triu(1)
    return torch.softmax(scores, -1)


def index(h: Tensor) -> Tensor:
    return torch.arange(4000.0)[(h * 2000 + 1900).long()] % 16


# The thread of the report; the dtype, the op to blame, the data, and what is computed from it in this dtype.
CASES: list[tuple[str, torch.dtype, str, Tensor, Callable[[Tensor], Tensor]]] = [
    ("pytorch#133085", HALF, "pow", 2000 * HEIGHTS, lambda h: h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)),
    ("pytorch#69512", HALF, "mul", torch.linspace(-2, 2, 512), similarity),
    ("convasr#73", HALF, "sum", torch.full((70000,), 0.5), masked_mean),
    ("diffusers#13920", BF16, "matmul", 65536 + torch.arange(64.0), lambda h: (FREQUENCIES[:, None] @ h[None]).cos()),
    (
        "DiffSynth-Studio#562",
        BF16,
        "to",
        torch.ones(2),
        lambda h: torch.cos((torch.tensor([0.9784, 0.6818]).to(h.dtype) * 1000).float()),
    ),
    ("vllm-fork#503", BF16, "to", torch.zeros(64), lambda h: torch.softmax(h + torch.arange(2e3, 2064).to(h.dtype), 0)),
    ("Open-Rig3R#35", HALF, "to", HEIGHTS, small_gradient),
    ("vector-quantize#114", BF16, "sum", DIGITS, lambda h: (h * RADICES.to(h.dtype)).sum(-1).float() % 8),
    ("prime-rl#568", BF16, "add", torch.ones(600), total),
    ("Modalities#464", BF16, "logsumexp", 12 * torch.eye(1, 50000), lambda h: torch.logsumexp(h, -1) - h[:, 0]),
    ("Megatron-LM#7182", BF16, "cumsum", TAIL, lambda h: (torch.softmax(h, -1).cumsum(-1) < 0.99).sum().float()),
    ("a custom op", BF16, "polycast_inexact::triple", HEIGHTS, triple),
    ("a mask", BF16, "add", HEIGHTS, attention),
    ("an index", BF16, "add", HEIGHTS, index),
    ("RoPE", BF16, "arange", HEIGHTS, lambda h: h * torch.arange(3000, 3064, dtype=h.dtype).sin()),
]


@pytest.mark.parametrize(
    ("dtype", "op", "data", "compute"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_op_to_blame_is_first_and_its_rule_fixes_the_program(
    dtype: torch.dtype, op: str, data: Tensor, compute: Callable[[Tensor], Tensor]
) -> None:
    def run(enabled: bool = True) -> Tensor:
        with polycast.autocast("cpu", dtype, enabled=enabled):
            return compute((data[..., None] @ ONE).squeeze(-1)).detach()

    truth = run(enabled=False)
    errors = polycast.debug.compare(run)
    print(errors)
    assert (run() - truth).norm() > 0.02 * truth.norm(), "the program is right"
    assert op == errors.worst()[0].op
    assert errors.policy is not None and errors.error_under_policy < 0.02
    with polycast.use(errors.policy):
        assert (run() - truth).norm() < 0.02 * truth.norm()
