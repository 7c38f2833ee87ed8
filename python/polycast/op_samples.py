"""Sample arguments for the ATen overloads that ``policy.yaml`` lists.

>>> find("addmm")(*arguments("addmm", Make("cpu", torch.float32)).args).shape
torch.Size([4, 4])
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast.torch_internals import FakeTensor


class Make:
    """A maker of sample tensors on ``device``. The seed is fixed, so equal sequences of calls make equal values.

    Its floating-point tensors have the given dtypes alternately; the default is float32. Values are drawn in float32 on
    the CPU, then cast and moved. They differ between dtypes by one rounding, and are the same on all devices.
    """

    def __init__(self, device: str, *dtypes: torch.dtype) -> None:
        self._device = device
        self._dtypes: Iterator[torch.dtype] = itertools.cycle(dtypes or (torch.float32,))
        self._generator = torch.Generator().manual_seed(0)

    def __call__(self, *shape: int) -> Tensor:
        """Return a floating-point tensor with values between 0 and 1, which ops such as ``log`` and ``acos`` accept.

        A square matrix is also symmetric and positive definite, with distinct eigenvalues.
        """
        value = torch.rand(shape, generator=self._generator) * 0.8 + 0.1
        if len(shape) == 2 and shape[0] == shape[1]:
            value = (value + value.T) / 20 + torch.linspace(0.5, 0.8, shape[0]).diag()
        return self._place(value.to(next(self._dtypes)))

    def index(self, high: int, *shape: int, low: int = 0) -> Tensor:
        """Return an int64 tensor with the values from ``low`` up to, not including, ``high``, repeated as needed."""
        return self._place(torch.arange(torch.Size(shape).numel()).reshape(shape) % (high - low) + low)

    def _place(self, value: Tensor) -> Tensor:
        if isinstance(value, FakeTensor):  # `value.to` requires a driver of the device, and there may be none
            return torch.empty_like(value, device=self._device)
        return value.to(self._device)


class Arguments(NamedTuple):
    """The arguments of a call."""

    args: Sequence[object]
    kwargs: Mapping[str, object] = MappingProxyType({})


def index(high: int, *shape: int, low: int = 0) -> Callable[[Make], Tensor]:
    """Return a function that calls ``Make.index`` with these arguments."""
    return lambda make: make.index(high, *shape, low=low)


_CONVOLUTION: tuple[object, ...] = ((1, 2, 5), (3, 2, 3), (3,), [1], [0], [1], False, [0], 1)
# These are the positional arguments of overloads for which `_DEFAULTS` are invalid or omit an optional tensor. A key
# lists overloads: "name" is the default overload, and "name.overload" is another. Within the arguments, a tuple is
# the shape of a floating-point tensor, and a function makes a tensor.
SAMPLES: dict[str, tuple[object, ...]] = {
    # Pointwise ops and reductions
    "binary_cross_entropy": ((2, 3), (2, 3), (2, 3)),
    "fake_quantize_per_tensor_affine": ((2, 3), 0.1, 0, 0, 255),
    "nanquantile quantile": ((2, 5), (2,), 1),
    "norm.Scalar": ((2, 3), 2),
    "norm.ScalarOpt_dim": ((2, 3), 2, [1], False),
    "nuclear_norm.dim": ((2, 3), [0, 1]),
    "view_as_complex": ((3, 2),),
    # Indexing
    "index_copy": ((3, 2), 0, index(3, 3), (3, 2)),
    "index_put": ((3, 2), [index(3, 3)], (3, 2)),
    "scatter_add": ((2, 3), 0, index(2, 2, 3), (2, 3)),
    # Products
    "_addmm_activation": ((4,), (2, 3), (3, 4)),
    "addmv": ((2,), (2, 3), (3,)),
    "bilinear": ((2, 3), (2, 4), (5, 3, 4), (5,)),
    "bmm": ((2, 3, 4), (2, 4, 5)),
    "cross": ((2, 3), (2, 3), 1),
    "dot vdot": ((3,), (3,)),
    "einsum": ("ij,jk->ik", [(2, 3), (3, 4)]),
    "linear": ((2, 3), (4, 3), (4,)),
    # Convolutions: input, weight, bias
    "_convolution": (*_CONVOLUTION, False, False, True, True),
    "_convolution.deprecated": (*_CONVOLUTION, False, False, True),
    "conv_tbc": ((5, 1, 2), (3, 2, 3), (3,)),
    "conv1d conv_transpose1d": ((1, 3, 5), (3, 3, 2), (3,)),
    "conv1d.padding": ((1, 2, 5), (3, 2, 3), (3,), [1], "same"),
    "conv2d conv_transpose2d.input": ((1, 3, 4, 4), (3, 3, 2, 2), (3,)),
    "conv2d.padding": ((1, 2, 5, 5), (3, 2, 3, 3), (3,), [1], "same"),
    "conv3d conv_transpose3d.input": ((1, 3, 3, 3, 3), (3, 3, 2, 2, 2), (3,)),
    "conv3d.padding": ((1, 2, 3, 3, 3), (3, 2, 3, 3, 3), (3,), [1], "same"),
    "convolution": _CONVOLUTION,
    # Recurrent cells: input size 3, hidden size 4, gates 3 * 4 (GRU) or 4 * 4 (LSTM)
    "_cudnn_rnn": (
        *((5, 2, 3), [(16, 3), (16, 4), (16,), (16,)], 4, None, (1, 2, 4), (1, 2, 4)),
        *(2, 4, 0, 1, False, 0.0, False, False, [], None),
    ),
    "_thnn_fused_lstm_cell": ((2, 16), (2, 16), (2, 4), (16,), (16,)),
    "gru_cell": ((2, 3), (2, 4), (12, 3), (12, 4), (12,), (12,)),
    "lstm_cell": ((2, 3), [(2, 4), (2, 4)], (16, 3), (16, 4), (16,), (16,)),
    "mkldnn_rnn_layer": (
        *((5, 2, 3), (16, 3), (16, 4), (16,), (16,), (1, 2, 4), (1, 2, 4)),
        *(False, [], 2, 4, 1, True, False, False, False),
    ),
    "rnn_relu_cell rnn_tanh_cell": ((2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)),
    # Attention: query, key, value
    "_native_multi_head_attention": ((2, 3, 4), (2, 3, 4), (2, 3, 4), 4, 2, (12, 4), (12,), (4, 4), (4,)),
    "_scaled_dot_product_flash_attention scaled_dot_product_attention": ((1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8)),
    "batch_norm": ((2, 3, 4), (3,), (3,), (3,), (3,), False, 0.1, 1e-5, False),
    # Losses
    "cosine_embedding_loss": ((2, 3), (2, 3), index(2, 2)),
    "cross_entropy_loss nll_loss": ((2, 3), index(3, 2), (3,)),
    "ctc_loss.IntList": ((5, 2, 4), index(4, 2, 2, low=1), [5, 5], [2, 2]),
    "ctc_loss.Tensor": ((5, 2, 4), index(4, 2, 2, low=1), index(6, 2, low=5), index(3, 2, low=2)),
    "multi_margin_loss": ((2, 3), index(3, 2)),
    "hinge_embedding_loss multilabel_margin_loss": ((2, 3), index(3, 2, 3)),
    "multilabel_margin_loss_forward": ((2, 3), index(3, 2, 3), 1),
    "nll_loss2d nll_loss_nd": ((1, 3, 2, 2), index(3, 1, 2, 2), (3,)),
    # Pooling
    "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d": ((1, 1, 4, 4, 4), [2, 2, 2]),
    "fractional_max_pool2d": ((1, 2, 5, 5), [2, 2], [2, 2], (1, 2, 2)),
    "fractional_max_pool3d": ((1, 2, 5, 5, 5), [2, 2, 2], [2, 2, 2], (1, 2, 3)),
    "max_pool2d": ((1, 1, 4, 4), [2, 2]),
    "max_unpool2d": ((1, 1, 2, 2), index(4, 1, 1, 2, 2), [4, 4]),
    "max_unpool3d": ((1, 1, 2, 2, 2), index(8, 1, 1, 2, 2, 2), [4, 4, 4], [2, 2, 2], [0, 0, 0]),
    # Padding
    "reflection_pad1d replication_pad1d": ((1, 2, 4), [1, 2]),
    "reflection_pad2d replication_pad2d": ((1, 2, 3, 4), [1, 2, 1, 0]),
    "reflection_pad3d replication_pad3d": ((1, 1, 2, 3, 4), [1, 2, 1, 0, 0, 1]),
    # Resampling
    "_grid_sampler_2d_cpu_fallback grid_sampler_2d": ((1, 1, 3, 3), (1, 2, 2, 2), 0, 0, False),
    "grid_sampler grid_sampler_3d": ((1, 1, 3, 3, 3), (1, 2, 2, 2, 3), 0, 0, False),
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa": ((1, 1, 4, 4), [3, 3], False),
    "_upsample_nearest_exact1d upsample_nearest1d": ((1, 1, 4), [6]),
    "_upsample_nearest_exact2d upsample_nearest2d": ((1, 1, 4, 4), [6, 6]),
    "_upsample_nearest_exact3d upsample_nearest3d": ((1, 1, 2, 2, 2), [3, 3, 3]),
    "upsample_bicubic2d upsample_bilinear2d": ((1, 1, 4, 4), [6, 6], False),
    "upsample_linear1d": ((1, 1, 4), [6], False),
    "upsample_trilinear3d": ((1, 1, 2, 2, 2), [3, 3, 3], False),
    # STFT: input, n_fft, hop_length, win_length, window, [center, pad_mode,] normalized, onesided, return_complex
    "stft": ((8,), 4, 2, 4, (4,), False, True, True),
    "stft.center": ((8,), 4, 2, 4, (4,), True, "reflect", False, True, True),
    # Linear algebra
    "linalg_householder_product orgqr": ((4, 3), (3,)),
    "linalg_matrix_rank.tol_tensor": ((4, 3), ()),
    "linalg_tensorinv": (lambda make: make(4, 4).reshape(2, 2, 4),),
    "linalg_tensorsolve": (lambda make: make(4, 4).reshape(2, 2, 4), (2, 2)),
    "lu_solve": ((4, 2), (4, 4), lambda make: make.index(5, 4, low=1).int()),
    "ormqr": ((4, 3), (3,), (4, 2)),
}
SAMPLES = {key: sample for keys, sample in SAMPLES.items() for key in keys.split()}

# For overloads that `SAMPLES` does not list, `_DEFAULTS` has required arguments by type, and `_NAMED_DEFAULTS` has any
# argument by name. Other arguments have the defaults of the op's schema.
_MATRIX = (4, 4)
_DEFAULTS: dict[str, object] = {
    "Tensor": _MATRIX,
    "List[Tensor]": [_MATRIX, _MATRIX],
    "List[int]": [1],
    "Optional[List[int]]": [1],
    "int": 1,
    "number": 2,
    "Optional[number]": 2,
    "float": 0.3,
    "bool": False,
    "str": "fro",
}
_NAMED_DEFAULTS: dict[str, object] = {
    **dict.fromkeys(("bias", "pos_weight", "vec", "vec1", "vec2", "weight"), (4,)),
    "batch1": (2, 4, 4),
    "batch2": (2, 4, 4),
    "normalized_shape": [4],
}

_NONE = "_mps_convolution _thnn_fused_gru_cell convolution_overrideable cudnn_convolution cudnn_convolution_transpose"
_NAMED = "cumprod.dimname cumsum.dimname log_softmax.Dimname prod.dim_Dimname softmax.Dimname sum.dim_DimnameList"
WITHOUT_SAMPLE: dict[str, str] = {
    **dict.fromkeys(_NONE.split(), "has no sample of its arguments here"),
    **dict.fromkeys(_NAMED.split(), "requires named tensors, which newer releases of PyTorch do not have"),
    "index_copy.dimname": "always raises: PyTorch never implemented it",
    "norm.names_ScalarOpt_dim": "always raises: the overload it forwards to does not accept named tensors",
}

# In these ops LAPACK reads uninitialized pivots, so the last bits depend on the previous contents of the memory.
WITHOUT_SAME_BITS = frozenset({"linalg_lstsq"})


def find(key: str) -> Callable[..., Any] | None:
    """Return the overload of a key such as "norm.Scalar", or None if the installed PyTorch does not have it."""
    name, _, overload = key.partition(".")
    return getattr(getattr(torch.ops.aten, name, None), overload or "default", None)


def arguments(key: str, make: Make) -> Arguments:
    """Return sample arguments for an overload of the installed PyTorch."""
    sample: Any = SAMPLES.get(key)
    if sample is None:
        sample = [
            _NAMED_DEFAULTS.get(argument.name) or _DEFAULTS[str(argument.type)]
            for argument in find(key)._schema.arguments  # type: ignore[union-attr]
            if argument.name in _NAMED_DEFAULTS or not argument.has_default_value()
        ]
    return Arguments([_made(value, make) for value in sample])


def _made(value: Any, make: Make) -> object:
    if isinstance(value, tuple):
        return make(*value)
    if isinstance(value, list):
        return [_made(item, make) for item in value]
    return value(make) if callable(value) else value
