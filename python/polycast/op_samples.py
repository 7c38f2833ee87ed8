"""Sample arguments for every ATen overload that policy.yaml lists.

A key of SAMPLES is "name" for the default overload and "name.overload" for any other.

>>> find("addmm")(*arguments("addmm", Make("cpu", torch.float32)).args).shape
torch.Size([2, 4])
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast.torch_internals import FakeTensor, variable_functions


class Make:
    """Builds the tensors of one sample on `device`, from a fixed seed: two Makes build the same values.

    The floating-point tensors have these dtypes in turn, float32 by default. Values are drawn in float32 on the CPU,
    then cast and moved, so they differ between dtypes by one rounding and between devices not at all.
    """

    def __init__(self, device: str, *dtypes: torch.dtype) -> None:
        self._device = device
        self._dtypes: Iterator[torch.dtype] = itertools.cycle(dtypes or (torch.float32,))
        self._generator = torch.Generator().manual_seed(0)

    def __call__(self, *shape: int) -> Tensor:
        """A floating tensor with values between 0.1 and 0.9: fit for log, acos, erfinv, and as probabilities."""
        return self._floating(self._uniform(*shape))

    def named(self, **sizes: int) -> Tensor:
        """A floating tensor with named dimensions, without the warning that those are experimental."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Named tensors", category=UserWarning)
            result: Tensor = self(*sizes.values()).refine_names(*sizes)  # type: ignore[no-untyped-call]
            return result

    def index(self, high: int, *shape: int, low: int = 0) -> Tensor:
        """An int64 tensor with values from `low` up to, not including, `high`."""
        return self._place(torch.randint(low, high, shape, generator=self._generator))

    def permutation(self, *shape: int) -> Tensor:
        """An int64 tensor with every value below its number of elements once."""
        count = torch.Size(shape).numel()
        return self._place(torch.randperm(count, generator=self._generator).reshape(shape))

    def sign(self, *shape: int) -> Tensor:
        """An int64 tensor of -1 and 1."""
        return self._place(torch.randint(2, shape, generator=self._generator) * 2 - 1)

    def matrix(self, rows: int, columns: int) -> Tensor:
        """A floating matrix of full rank, whose singular values lie near 1, 2, 3, ..."""
        return self._floating(self._matrix(rows, columns))

    def positive_definite(self, n: int) -> Tensor:
        """A floating symmetric matrix whose eigenvalues lie near 1, 2, ..., n."""
        return self._floating(self._positive_definite(n))

    def cholesky(self, n: int) -> Tensor:
        """The lower Cholesky factor of a positive definite matrix."""
        return self._floating(torch.linalg.cholesky(self._positive_definite(n)))

    def lu(self, n: int) -> tuple[Tensor, Tensor]:
        """The packed LU factors of a matrix, and their int32 pivots."""
        factors, pivots = torch.linalg.lu_factor(self._matrix(n, n))
        return self._floating(factors), self._place(pivots)

    def reflectors(self, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """The Householder reflectors of a matrix, as geqrf packs them, and their scalar factors."""
        reflectors, tau = torch.geqrf(self._matrix(rows, columns))
        return self._floating(reflectors), self._floating(tau)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self._generator) * 0.8 + 0.1

    def _matrix(self, rows: int, columns: int) -> Tensor:
        result = self._uniform(rows, columns) / 4
        result.diagonal().add_(torch.arange(1, min(rows, columns) + 1))
        return result

    def _positive_definite(self, n: int) -> Tensor:
        matrix = self._matrix(n, n)
        return (matrix + matrix.T) / 2

    def _floating(self, value: Tensor) -> Tensor:
        return self._place(value.to(next(self._dtypes)))

    def _place(self, value: Tensor) -> Tensor:
        if isinstance(value, FakeTensor):  # value.to would ask for the driver of a device that need not exist
            return torch.empty_like(value, device=self._device)
        return value.to(self._device)


class Arguments(NamedTuple):
    """The arguments of a call."""

    args: Sequence[object]
    kwargs: Mapping[str, object] = MappingProxyType({})


# What a sample returns: the positional arguments, or an Arguments where one must be passed by keyword.
Sample = Callable[[Make], tuple[object, ...] | Arguments]


def each(keys: str, sample: Sample) -> dict[str, Sample]:
    """Give several ops one sample."""
    return dict.fromkeys(keys.split(), sample)


SAMPLES: dict[str, Sample] = {
    # Pointwise, and other ops with such arguments
    **each(
        "acos asin cosh erfinv exp expm1 log log10 log1p log2 prod reciprocal relu rsqrt sinh softplus sum tan",
        lambda make: (make(2, 3),),
    ),
    **each(
        "addcdiv addcmul binary_cross_entropy triplet_margin_loss", lambda make: (make(2, 3), make(2, 3), make(2, 3))
    ),
    **each(
        "atan2 polar pow.Tensor_Tensor dist linalg_vecdot huber_loss kl_div l1_loss mse_loss smooth_l1_loss",
        lambda make: (make(2, 3), make(2, 3)),
    ),
    "fake_quantize_per_tensor_affine": lambda make: (make(2, 3), 0.1, 0, 0, 255),
    "pow.Scalar": lambda make: (2, make(2, 3)),
    **each("pow.Tensor_Scalar linalg_vector_norm norm.Scalar", lambda make: (make(2, 3), 2)),
    **each("prelu mv", lambda make: (make(2, 3), make(3))),
    "view_as_complex": lambda make: (make(3, 2),),
    # Reductions, scans and norms
    **each("cumprod cumsum prod.dim_int log_softmax.int softmax.int", lambda make: (make(2, 3), 1)),
    **each(
        "cumprod.dimname cumsum.dimname prod.dim_Dimname log_softmax.Dimname softmax.Dimname",
        lambda make: (make.named(row=2, column=3), "column"),
    ),
    "frobenius_norm.dim": lambda make: (make(2, 3), [0, 1]),
    "linalg_matrix_norm": lambda make: (make.matrix(3, 2), 2),
    "linalg_matrix_norm.str_ord": lambda make: (make.matrix(3, 2), "nuc"),
    **each("logsumexp sum.dim_IntList", lambda make: (make(2, 3), [1])),
    **each("nanquantile quantile", lambda make: (make(2, 5), make(2), 1)),
    **each("nanquantile.scalar quantile.scalar", lambda make: (make(2, 5), 0.3, 1)),
    "norm.ScalarOpt_dim": lambda make: (make(2, 3), 2, [1], False),
    "nuclear_norm": lambda make: (make.matrix(3, 2),),
    "nuclear_norm.dim": lambda make: (make.matrix(3, 2), [0, 1]),
    "renorm": lambda make: (make(2, 3), 2, 0, 0.5),
    "sum.dim_DimnameList": lambda make: (make.named(row=2, column=3), ["column"]),
    "trace": lambda make: (make(3, 3),),
    # Joining and indexing
    **each("cat stack", lambda make: ([make(2, 3), make(2, 3)],)),
    "index_copy": lambda make: (make(3, 2), 0, make.permutation(3), make(3, 2)),
    "index_put": lambda make: (make(3, 2), [make.permutation(3)], make(3, 2)),
    "scatter_add": lambda make: (make(2, 3), 0, make.index(2, 2, 3), make(2, 3)),
    # Products
    "_addmm_activation": lambda make: (make(4), make(2, 3), make(3, 4)),
    "addbmm": lambda make: (make(3, 5), make(2, 3, 4), make(2, 4, 5)),
    "addmm": lambda make: (make(2, 4), make(2, 3), make(3, 4)),
    "addmv": lambda make: (make(2), make(2, 3), make(3)),
    "addr": lambda make: (make(2, 3), make(2), make(3)),
    "baddbmm": lambda make: (make(2, 3, 5), make(2, 3, 4), make(2, 4, 5)),
    "bilinear": lambda make: (make(2, 3), make(2, 4), make(5, 3, 4), make(5)),
    "bmm": lambda make: (make(2, 3, 4), make(2, 4, 5)),
    **each("chain_matmul linalg_multi_dot", lambda make: ([make(2, 3), make(3, 4), make(4, 5)],)),
    "cross": lambda make: (make(2, 3), make(2, 3), 1),
    **each("dot vdot", lambda make: (make(3), make(3))),
    "einsum": lambda make: ("ij,jk->ik", [make(2, 3), make(3, 4)]),
    "linear": lambda make: (make(2, 3), make(4, 3), make(4)),
    "matmul": lambda make: (make(3, 3), make(3, 3)),
    "mm": lambda make: (make(2, 3), make(3, 4)),
    "tensordot": lambda make: (make(2, 3), make(3, 4), [1], [0]),
    # Convolutions: input, weight, bias
    "_convolution": lambda make: (
        *(make(1, 2, 5), make(3, 2, 3), make(3)),
        *([1], [0], [1], False, [0], 1, False, False, True, True),
    ),
    "_convolution.deprecated": lambda make: (
        *(make(1, 2, 5), make(3, 2, 3), make(3)),
        *([1], [0], [1], False, [0], 1, False, False, True),
    ),
    "conv1d": lambda make: (make(1, 2, 5), make(3, 2, 3), make(3)),
    "conv1d.padding": lambda make: (make(1, 2, 5), make(3, 2, 3), make(3), [1], "same"),
    "conv2d": lambda make: (make(1, 2, 5, 5), make(3, 2, 3, 3), make(3)),
    "conv2d.padding": lambda make: (make(1, 2, 5, 5), make(3, 2, 3, 3), make(3), [1], "same"),
    "conv3d": lambda make: (make(1, 2, 3, 3, 3), make(3, 2, 2, 2, 2), make(3)),
    "conv3d.padding": lambda make: (make(1, 2, 3, 3, 3), make(3, 2, 3, 3, 3), make(3), [1], "same"),
    "conv_tbc": lambda make: (make(5, 1, 2), make(3, 2, 3), make(3)),
    "conv_transpose1d": lambda make: (make(1, 2, 4), make(2, 3, 3), make(3)),
    "conv_transpose2d.input": lambda make: (make(1, 2, 3, 3), make(2, 3, 2, 2), make(3)),
    "conv_transpose3d.input": lambda make: (make(1, 2, 2, 2, 2), make(2, 3, 2, 2, 2), make(3)),
    "convolution": lambda make: (make(1, 2, 5), make(3, 2, 3), make(3), [1], [0], [1], False, [0], 1),
    # Recurrent cells: input 3, hidden size 4, gates 3 * 4 (GRU) or 4 * 4 (LSTM)
    "_cudnn_rnn": lambda make: (
        *(make(5, 2, 3), [make(16, 3), make(16, 4), make(16), make(16)], 4, None, make(1, 2, 4), make(1, 2, 4)),
        *(2, 4, 0, 1, False, 0.0, False, False, [], None),
    ),
    "_thnn_fused_lstm_cell": lambda make: (make(2, 16), make(2, 16), make(2, 4), make(16), make(16)),
    "gru_cell": lambda make: (make(2, 3), make(2, 4), make(12, 3), make(12, 4), make(12), make(12)),
    "lstm_cell": lambda make: (make(2, 3), [make(2, 4), make(2, 4)], make(16, 3), make(16, 4), make(16), make(16)),
    "mkldnn_rnn_layer": lambda make: (
        *(make(5, 2, 3), make(16, 3), make(16, 4), make(16), make(16), make(1, 2, 4), make(1, 2, 4)),
        *(False, [], 2, 4, 1, True, False, False, False),
    ),
    **each(
        "rnn_relu_cell rnn_tanh_cell", lambda make: (make(2, 3), make(2, 4), make(4, 3), make(4, 4), make(4), make(4))
    ),
    # Attention: query, key, value
    "_native_multi_head_attention": lambda make: (
        *(make(2, 3, 4), make(2, 3, 4), make(2, 3, 4), 4, 2),
        *(make(12, 4), make(12), make(4, 4), make(4)),
    ),
    **each(
        "_scaled_dot_product_flash_attention scaled_dot_product_attention",
        lambda make: (make(1, 2, 3, 8), make(1, 2, 3, 8), make(1, 2, 3, 8)),
    ),
    # Normalisation
    "_softmax": lambda make: (make(2, 3), 1, False),
    "batch_norm": lambda make: (make(2, 3, 4), make(3), make(3), make(3), make(3), False, 0.1, 1e-5, False),
    "group_norm": lambda make: (make(2, 4, 3), 2, make(4), make(4)),
    "layer_norm": lambda make: (make(2, 4), [4], make(4), make(4)),
    "native_layer_norm": lambda make: (make(2, 4), [4], make(4), make(4), 1e-5),
    "rms_norm": lambda make: (make(2, 4), [4], make(4), 1e-5),
    # Distances
    "cdist": lambda make: (make(2, 4), make(3, 4)),
    "cosine_similarity": lambda make: (make(2, 4), make(2, 4)),
    "pdist": lambda make: (make(3, 4),),
    # Losses
    "binary_cross_entropy_with_logits": lambda make: (make(2, 3), make(2, 3), make(2, 3), make(3)),
    "cosine_embedding_loss": lambda make: (make(2, 3), make(2, 3), make.sign(2)),
    **each("cross_entropy_loss nll_loss", lambda make: (make(2, 3), make.index(3, 2), make(3))),
    "ctc_loss.IntList": lambda make: (make(5, 2, 4), make.index(4, 2, 2, low=1), [5, 5], [2, 2]),
    "ctc_loss.Tensor": lambda make: (
        make(5, 2, 4),
        make.index(4, 2, 2, low=1),
        make.index(6, 2, low=5),
        make.index(3, 2, low=2),
    ),
    **each("hinge_embedding_loss soft_margin_loss", lambda make: (make(2, 3), make.sign(2, 3))),
    "margin_ranking_loss": lambda make: (make(3), make(3), make.sign(3)),
    "multi_margin_loss": lambda make: (make(2, 3), make.index(3, 2)),
    "multilabel_margin_loss": lambda make: (make(2, 3), make.index(3, 2, 3)),
    "multilabel_margin_loss_forward": lambda make: (make(2, 3), make.index(3, 2, 3), 1),
    **each("nll_loss2d nll_loss_nd", lambda make: (make(1, 3, 2, 2), make.index(3, 1, 2, 2), make(3))),
    "poisson_nll_loss": lambda make: (make(2, 3), make(2, 3), True, False, 1e-8, 1),
    # Pooling
    **each(
        "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d",
        lambda make: (make(1, 1, 4, 4, 4), [2, 2, 2]),
    ),
    "fractional_max_pool2d": lambda make: (make(1, 2, 5, 5), [2, 2], [2, 2], make(1, 2, 2)),
    "fractional_max_pool3d": lambda make: (make(1, 2, 5, 5, 5), [2, 2, 2], [2, 2, 2], make(1, 2, 3)),
    "max_pool2d": lambda make: (make(1, 1, 4, 4), [2, 2]),
    "max_unpool2d": lambda make: (make(1, 1, 2, 2), make.permutation(1, 1, 2, 2), [4, 4]),
    "max_unpool3d": lambda make: (
        *(make(1, 1, 2, 2, 2), make.permutation(1, 1, 2, 2, 2)),
        *([4, 4, 4], [2, 2, 2], [0, 0, 0]),
    ),
    # Padding
    **each("reflection_pad1d replication_pad1d", lambda make: (make(1, 2, 4), [1, 2])),
    **each("reflection_pad2d replication_pad2d", lambda make: (make(1, 2, 3, 4), [1, 2, 1, 0])),
    **each("reflection_pad3d replication_pad3d", lambda make: (make(1, 1, 2, 3, 4), [1, 2, 1, 0, 0, 1])),
    # Resampling
    **each(
        "_grid_sampler_2d_cpu_fallback grid_sampler_2d", lambda make: (make(1, 1, 3, 3), make(1, 2, 2, 2), 0, 0, False)
    ),
    **each("_upsample_bicubic2d_aa _upsample_bilinear2d_aa", lambda make: (make(1, 1, 4, 4), [3, 3], False)),
    **each("_upsample_nearest_exact1d upsample_nearest1d", lambda make: (make(1, 1, 4), [6])),
    **each("_upsample_nearest_exact2d upsample_nearest2d", lambda make: (make(1, 1, 4, 4), [6, 6])),
    **each("_upsample_nearest_exact3d upsample_nearest3d", lambda make: (make(1, 1, 2, 2, 2), [3, 3, 3])),
    **each("grid_sampler grid_sampler_3d", lambda make: (make(1, 1, 3, 3, 3), make(1, 2, 2, 2, 3), 0, 0, False)),
    **each("upsample_bicubic2d upsample_bilinear2d", lambda make: (make(1, 1, 4, 4), [6, 6], False)),
    "upsample_linear1d": lambda make: (make(1, 1, 4), [6], False),
    "upsample_trilinear3d": lambda make: (make(1, 1, 2, 2, 2), [3, 3, 3], False),
    # Spectral
    **each(
        "fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 "
        "fft_irfftn fft_rfft fft_rfft2 fft_rfftn",
        lambda make: (make(2, 4),),
    ),
    # Window length, and in stft.center also centring and its padding; then normalized, onesided, return_complex
    "stft": lambda make: (make(8), 4, 2, 4, make(4), False, True, True),
    "stft.center": lambda make: (make(8), 4, 2, 4, make(4), True, "reflect", False, True, True),
    # Linear algebra. The SVDs are of one column: with more, the signs are each backend's own choice
    **each(
        "_lu_with_info inverse linalg_cond linalg_eig linalg_eigvals linalg_inv linalg_inv_ex",
        lambda make: (make.matrix(3, 3),),
    ),
    **each(
        "cholesky linalg_cholesky linalg_cholesky_ex linalg_eigh linalg_eigvalsh linalg_matrix_sqrth",
        lambda make: (make.positive_definite(3),),
    ),
    "cholesky_inverse": lambda make: (make.cholesky(3),),
    "cholesky_solve": lambda make: (make(3, 2), make.cholesky(3)),
    **each("geqrf linalg_qr linalg_svdvals pinverse qr", lambda make: (make.matrix(4, 3),)),
    "linalg_cond.p_str": lambda make: (make.matrix(3, 3), "fro"),
    **each("linalg_householder_product orgqr", lambda make: make.reflectors(4, 3)),
    "linalg_lstsq": lambda make: (make.matrix(4, 3), make(4, 2)),
    "linalg_matrix_rank": lambda make: (make.matrix(4, 3), 0.1),
    "linalg_matrix_rank.atol_rtol_float": lambda make: Arguments((make.matrix(4, 3),), {"atol": 0.1, "rtol": 0.1}),
    "linalg_matrix_rank.atol_rtol_tensor": lambda make: Arguments((make.matrix(4, 3),), {"atol": make()}),
    "linalg_matrix_rank.tol_tensor": lambda make: (make.matrix(4, 3), make()),
    "linalg_solve": lambda make: (make.matrix(3, 3), make(3, 2)),
    "linalg_svd": lambda make: (make.matrix(4, 1), False),
    "linalg_tensorinv": lambda make: (make.matrix(4, 4).reshape(2, 2, 4),),
    "linalg_tensorsolve": lambda make: (make.matrix(4, 4).reshape(2, 2, 4), make(2, 2)),
    "lu_solve": lambda make: (make(3, 2), *make.lu(3)),
    "ormqr": lambda make: (*make.reflectors(4, 3), make(4, 2)),
    "svd": lambda make: (make.matrix(4, 1),),
    "triangular_solve": lambda make: (make(3, 2), make.matrix(3, 3)),
}


_NONE = "_mps_convolution _thnn_fused_gru_cell convolution_overrideable cudnn_convolution cudnn_convolution_transpose"
WITHOUT_SAMPLE: dict[str, str] = {
    **dict.fromkeys(_NONE.split(), "has no sample of its arguments here"),
    "index_copy.dimname": "always raises: PyTorch never implemented it",
    "norm.names_ScalarOpt_dim": "always raises: the overload it forwards to does not take named tensors",
}

# LAPACK reads pivots there that nobody wrote: the last bits depend on what was in memory.
WITHOUT_SAME_BITS = frozenset({"linalg_lstsq"})


def find(key: str) -> Callable[..., Any] | None:
    """The function that a key of SAMPLES names, None where the installed PyTorch has no such overload."""
    name, _, overload = key.partition(".")
    packet = getattr(torch.ops.aten, name, None)
    overload = overload or "default"
    if packet is None or overload not in packet.overloads():
        return None
    if "name" in overload.lower():
        # torch.ops takes no named tensors. Python's own binding does, and picks the overload by the names it is given.
        packet, overload = variable_functions, name
    operator: Callable[..., Any] = getattr(packet, overload)
    return operator


def arguments(key: str, make: Make) -> Arguments:
    """Builds the arguments of the sample `key`."""
    result = SAMPLES[key](make)
    return result if isinstance(result, Arguments) else Arguments(result)
