"""For every row of the documents' op lists, which policy.yaml holds, the call that a user would write.

How a row is judged, inside an autocast region of its device and its lower precision:

- lower_precision_fp: from float32 inputs, every floating output has the lower precision;
- fp32: from inputs of the lower precision, every floating output has float32 (complex64 if complex);
- promote: lower precision and float32 inputs give float32, lower precision alone gives itself;
- banned: the call raises a RuntimeError.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from codegen.parse import read_policy
from codegen.schemas import Schemas

from .ops import Make

Call = Callable[[Make], object]


@dataclass(frozen=True)
class Row:
    """What a document promises of one op on one device."""

    document: str
    device: str
    lower_precision: torch.dtype
    category: str
    name: str
    call: Call
    probe: str | None


def cell(kind: Callable[..., nn.RNNCellBase], make: Make, **options: str) -> object:
    """The output of a recurrent cell of input size 3 and hidden size 4, its parameters made by `make`."""
    module = kind(3, 4, device="meta", **options)
    parameters = {name: make(*parameter.shape) for name, parameter in module.named_parameters()}
    return torch.func.functional_call(module, parameters, make(2, 3))


def deprecated(call: Call) -> Call:
    """The same call without the warning that the op is deprecated."""

    def quiet(make: Make) -> object:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deprecated", category=UserWarning)
            return call(make)

    return quiet


# By the name that the documents write, misspellings kept. Where a name covers several ops, all of them are called.
CALLS: dict[str, Call] = {
    # Pointwise
    "__pow__": lambda make: (make(2, 3) ** 2, make(2, 3) ** make(2, 3)),
    "__rdiv__": lambda make: make(2, 3).__rdiv__(2),  # Python 3 has no operator for it
    "__rpow__": lambda make: 2 ** make(2, 3),
    "__rtruediv__": lambda make: 2 / make(2, 3),
    "acos": lambda make: torch.acos(make(2, 3)),
    "addcdiv": lambda make: torch.addcdiv(make(2, 3), make(2, 3), make(2, 3)),
    "addcmul": lambda make: torch.addcmul(make(2, 3), make(2, 3), make(2, 3)),
    "asin": lambda make: torch.asin(make(2, 3)),
    "atan2": lambda make: torch.atan2(make(2, 3), make(2, 3)),
    "cosh": lambda make: torch.cosh(make(2, 3)),
    "erfinv": lambda make: torch.erfinv(make(2, 3)),
    "exp": lambda make: torch.exp(make(2, 3)),
    "expm1": lambda make: torch.expm1(make(2, 3)),
    "log": lambda make: torch.log(make(2, 3)),
    "log10": lambda make: torch.log10(make(2, 3)),
    "log1p": lambda make: torch.log1p(make(2, 3)),
    "log2": lambda make: torch.log2(make(2, 3)),
    "pow": lambda make: (torch.pow(make(2, 3), 2), torch.pow(2, make(2, 3)), torch.pow(make(2, 3), make(2, 3))),
    "prelu": lambda make: F.prelu(make(2, 3), make(3)),
    "reciprocal": lambda make: torch.reciprocal(make(2, 3)),
    "relu": lambda make: F.relu(make(2, 3)),
    "rsqrt": lambda make: torch.rsqrt(make(2, 3)),
    "sinh": lambda make: torch.sinh(make(2, 3)),
    "softplus": lambda make: F.softplus(make(2, 3)),
    "tan": lambda make: torch.tan(make(2, 3)),
    # Reductions, scans and norms
    "cumprod": lambda make: torch.cumprod(make(2, 3), dim=1),
    "cumsum": lambda make: torch.cumsum(make(2, 3), dim=1),
    "dist": lambda make: torch.dist(make(2, 3), make(2, 3)),
    "frobenius_norm": deprecated(lambda make: torch.frobenius_norm(make(2, 3), dim=[0, 1])),
    "norm": lambda make: (torch.norm(make(2, 3)), torch.norm(make(2, 3), dim=1), make(2, 3).norm(p=3)),
    "normalize": lambda make: F.normalize(make(2, 3)),
    "nuclear_norm": deprecated(
        lambda make: (torch.nuclear_norm(make(3, 2)), torch.nuclear_norm(make(3, 2), dim=[0, 1])),
    ),
    "prod": lambda make: (torch.prod(make(2, 3)), torch.prod(make(2, 3), dim=1)),
    "renorm": lambda make: torch.renorm(make(2, 3), p=2, dim=0, maxnorm=0.5),
    "sum": lambda make: (torch.sum(make(2, 3)), torch.sum(make(2, 3), dim=1)),
    "trace": lambda make: torch.trace(make(3, 3)),
    # Joining and indexing
    "cat": lambda make: torch.cat([make(2, 3), make(1, 3)]),
    "index_copy": lambda make: torch.index_copy(make(3, 2), 0, make.index(3, 2), make(2, 2)),
    "index_put": lambda make: torch.index_put(make(3, 2), [make.index(3, 2)], make(2, 2)),
    "scatter_add": lambda make: torch.scatter_add(make(2, 3), 0, make.index(2, 2, 3), make(2, 3)),
    "stack": lambda make: torch.stack([make(2, 3), make(2, 3)]),
    # Products
    "__matmul__": lambda make: make(2, 3) @ make(3, 4),
    "addbmm": lambda make: torch.addbmm(make(3, 5), make(2, 3, 4), make(2, 4, 5)),
    "addmm": lambda make: torch.addmm(make(2, 4), make(2, 3), make(3, 4)),
    "addmv": lambda make: torch.addmv(make(2), make(2, 3), make(3)),
    "addr": lambda make: torch.addr(make(2, 3), make(2), make(3)),
    "baddbmm": lambda make: torch.baddbmm(make(2, 3, 5), make(2, 3, 4), make(2, 4, 5)),
    "bilinear": lambda make: F.bilinear(make(2, 3), make(2, 4), make(5, 3, 4), make(5)),
    "bmm": lambda make: torch.bmm(make(2, 3, 4), make(2, 4, 5)),
    "chain_matmul": deprecated(lambda make: torch.chain_matmul(make(2, 3), make(3, 4), make(4, 5))),  # type: ignore[no-untyped-call]
    "cross": lambda make: torch.cross(make(2, 3), make(2, 3), dim=1),
    "dot": lambda make: torch.dot(make(3), make(3)),
    "linalg_multi_dot": lambda make: torch.linalg.multi_dot([make(2, 3), make(3, 4), make(4, 5)]),
    "linear": lambda make: F.linear(make(2, 3), make(4, 3), make(4)),
    "matmul": lambda make: torch.matmul(make(2, 3), make(3, 4)),
    "mm": lambda make: torch.mm(make(2, 3), make(3, 4)),
    "multi_dot": lambda make: torch.linalg.multi_dot([make(2, 3), make(3, 4), make(4, 5)]),
    "mv": lambda make: torch.mv(make(2, 3), make(3)),
    "tensordot": lambda make: torch.tensordot(make(2, 3), make(3, 4), dims=1),
    # Convolutions: input, weight, bias
    "_convolution": lambda make: torch._convolution(
        make(1, 2, 5), make(3, 2, 3), make(3), [1], [0], [1], False, [0], 1, False, False, True, True
    ),
    "conv1d": lambda make: F.conv1d(make(1, 2, 5), make(3, 2, 3), make(3)),
    "conv2d": lambda make: F.conv2d(make(1, 2, 5, 5), make(3, 2, 3, 3), make(3)),
    "conv3d": lambda make: F.conv3d(make(1, 2, 3, 3, 3), make(3, 2, 2, 2, 2), make(3)),
    "conv_tbc": lambda make: torch.conv_tbc(make(5, 1, 2), make(3, 2, 3), make(3)),
    "conv_transpose1d": lambda make: F.conv_transpose1d(make(1, 2, 4), make(2, 3, 3), make(3)),
    "conv_transpose2d": lambda make: F.conv_transpose2d(make(1, 2, 3, 3), make(2, 3, 2, 2), make(3)),
    "conv_transpose3d": lambda make: F.conv_transpose3d(make(1, 2, 2, 2, 2), make(2, 3, 2, 2, 2), make(3)),
    "convolution": lambda make: torch.convolution(make(1, 2, 5), make(3, 2, 3), make(3), [1], [0], [1], False, [0], 1),
    # Recurrent cells
    "GRUCell": lambda make: cell(nn.GRUCell, make),
    "LSTMCell": lambda make: cell(nn.LSTMCell, make),
    "RNNCell": lambda make: (cell(nn.RNNCell, make), cell(nn.RNNCell, make, nonlinearity="relu")),
    "_thnn_fused_gru_cell": lambda make: torch.ops.aten._thnn_fused_gru_cell(
        make(2, 12), make(2, 12), make(2, 4), make(12), make(12)
    ),
    "gru_cell": lambda make: torch.gru_cell(make(2, 3), make(2, 4), make(12, 3), make(12, 4), make(12), make(12)),
    # Normalisation
    "batch_norm": lambda make: (
        F.batch_norm(make(2, 3), make(3), make(3), make(3), make(3)),
        F.batch_norm(make(2, 3), None, None, make(3), make(3), training=True),
    ),
    "group_norm": lambda make: F.group_norm(make(2, 4, 3), 2, make(4), make(4)),
    "layer_norm": lambda make: F.layer_norm(make(2, 4), [4], make(4), make(4)),
    "log_softmax": lambda make: F.log_softmax(make(2, 3), dim=1),
    "softmax": lambda make: F.softmax(make(2, 3), dim=1),
    "softmin": lambda make: F.softmin(make(2, 3), dim=1),
    # Distances
    "cdist": lambda make: torch.cdist(make(2, 4), make(3, 4)),
    "cosine_similarity": lambda make: F.cosine_similarity(make(2, 4), make(2, 4)),
    "pdist": lambda make: F.pdist(make(3, 4)),
    # Losses
    "BCELoss": lambda make: nn.BCELoss()(make(2, 3), make(2, 3)),
    "binary_cross_entropy": lambda make: F.binary_cross_entropy(make(2, 3), make(2, 3)),
    "binary_cross_entropy_with_logits": lambda make: F.binary_cross_entropy_with_logits(make(2, 3), make(2, 3)),
    "cosine_embbeding_loss": lambda make: F.cosine_embedding_loss(make(2, 3), make(2, 3), make.sign(2)),
    "cosine_embedding_loss": lambda make: F.cosine_embedding_loss(make(2, 3), make(2, 3), make.sign(2)),
    "cross_entropy": lambda make: F.cross_entropy(make(2, 3), make.index(3, 2), make(3)),
    "cross_entropy_loss": lambda make: F.cross_entropy(make(2, 3), make.index(3, 2), make(3)),
    "hinge_embedding_loss": lambda make: F.hinge_embedding_loss(make(2, 3), make.sign(2, 3)),
    "huber_loss": lambda make: F.huber_loss(make(2, 3), make(2, 3)),
    "kl_div": lambda make: F.kl_div(make(2, 3), make(2, 3), reduction="batchmean"),
    "l1_loss": lambda make: F.l1_loss(make(2, 3), make(2, 3)),
    "margin_ranking_loss": lambda make: F.margin_ranking_loss(make(3), make(3), make.sign(3)),
    "mse_loss": lambda make: F.mse_loss(make(2, 3), make(2, 3)),
    "multi_margin_loss": lambda make: F.multi_margin_loss(make(2, 3), make.index(3, 2)),
    "multilabel_margin_loss": lambda make: F.multilabel_margin_loss(make(2, 3), make.index(3, 2, 3)),
    "nll_loss": lambda make: F.nll_loss(make(2, 3), make.index(3, 2), make(3)),
    "nll_loss2d": lambda make: torch._C._nn.nll_loss2d(make(1, 3, 2, 2), make.index(3, 1, 2, 2), make(3)),  # type: ignore[attr-defined]
    "nll_loss_nd": lambda make: F.nll_loss(make(1, 3, 2, 2), make.index(3, 1, 2, 2), make(3)),
    "poisson_nll_loss": lambda make: F.poisson_nll_loss(make(2, 3), make(2, 3)),
    "smooth_l1_loss": lambda make: F.smooth_l1_loss(make(2, 3), make(2, 3)),
    "soft_margin_loss": lambda make: F.soft_margin_loss(make(2, 3), make.sign(2, 3)),
    "triplet_margin_loss": lambda make: F.triplet_margin_loss(make(2, 3), make(2, 3), make(2, 3)),
    # Pooling, padding and sampling, the last of volumes: images ask for the driver, to see whether cudnn will do
    "grid_sample": lambda make: F.grid_sample(make(1, 1, 3, 3, 3), make(1, 2, 2, 2, 3), align_corners=False),
    "grid_sampler": lambda make: torch.grid_sampler(make(1, 1, 3, 3, 3), make(1, 2, 2, 2, 3), 0, 0, False),
    "max_pool2d": lambda make: F.max_pool2d(make(1, 1, 4, 4), 2),
    "reflection_pad": lambda make: (
        F.pad(make(1, 2, 4), [1, 2], mode="reflect"),
        F.pad(make(1, 2, 3, 4), [1, 2, 1, 0], mode="reflect"),
        F.pad(make(1, 1, 2, 3, 4), [1, 2, 1, 0, 0, 1], mode="reflect"),
    ),
    "replication_pad": lambda make: (
        F.pad(make(1, 2, 4), [1, 2], mode="replicate"),
        F.pad(make(1, 2, 3, 4), [1, 2, 1, 0], mode="replicate"),
        F.pad(make(1, 1, 2, 3, 4), [1, 2, 1, 0, 0, 1], mode="replicate"),
    ),
    # Spectral, of sizes that are no power of two: those are the ones that float16 lacks
    "fft_fft": lambda make: torch.fft.fft(make(3, 5)),
    "fft_fft2": lambda make: torch.fft.fft2(make(3, 5)),
    "fft_fftn": lambda make: torch.fft.fftn(make(3, 5)),
    "fft_hfft": lambda make: torch.fft.hfft(make(3, 5)),
    "fft_ifft": lambda make: torch.fft.ifft(make(3, 5)),
    "fft_ifft2": lambda make: torch.fft.ifft2(make(3, 5)),
    "fft_ifftn": lambda make: torch.fft.ifftn(make(3, 5)),
    "fft_ihfft": lambda make: torch.fft.ihfft(make(3, 5)),
    "fft_irfft": lambda make: torch.fft.irfft(make(3, 5)),
    "fft_irfft2": lambda make: torch.fft.irfft2(make(3, 5)),
    "fft_irfftn": lambda make: torch.fft.irfftn(make(3, 5)),
    "fft_rfft": lambda make: torch.fft.rfft(make(3, 5)),
    "fft_rfft2": lambda make: torch.fft.rfft2(make(3, 5)),
    "fft_rfftn": lambda make: torch.fft.rfftn(make(3, 5)),
    # Linear algebra
    "chloesky": deprecated(lambda make: torch.cholesky(make.positive_definite(3))),
    "inverse": lambda make: torch.inverse(make.matrix(3, 3)),
    "linalg_inv_ex": lambda make: torch.linalg.inv_ex(make.matrix(3, 3)),
    "linalg_svd": lambda make: torch.linalg.svd(make.matrix(4, 3)),
    "qr": deprecated(lambda make: torch.qr(make.matrix(4, 3))),
    "svd": lambda make: torch.svd(make.matrix(4, 3)),
    "triangular_solve": deprecated(lambda make: torch.triangular_solve(make(3, 2), make.matrix(3, 3))),
}


# By device and name, where a fake tensor of that device does not get through: the op to probe, right below autocast.
PROBES: dict[tuple[str, str], str] = {
    ("cuda", "GRUCell"): "gru_cell",
    ("xpu", "_convolution"): "_convolution",
    ("xpu", "_thnn_fused_gru_cell"): "_thnn_fused_gru_cell",
    ("xpu", "gru_cell"): "gru_cell",
}


POLICY = Path(__file__).parent.parent.parent / "policy.yaml"

# Every row of every list in the policy's `documents`.
ROWS = [
    Row(
        promise.document,
        device,
        getattr(torch, dtype),
        promise.category.value,
        name,
        CALLS[name],
        PROBES.get((device, name)),
    )
    for promise in read_policy(POLICY, POLICY.name, Schemas.installed()).documents
    for device in promise.devices
    for dtype in promise.dtypes
    for name, _ in promise.names
]
