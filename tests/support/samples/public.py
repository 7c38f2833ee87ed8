"""Sample calls of each public name in ``policy.yaml``.

Most names use a sample of their op. A module is constructed with the arguments in ``_BUILT`` or ``_MODULES_OF``. Its
``forward`` receives the leading arguments of the sample. ``ARGUMENTS`` has the arguments of other names.

>>> prepare("conv2d", "torch.nn.Conv2d", ["conv2d"], Make("cpu"))[0]().shape
torch.Size([1, 3, 3, 3])
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from polycast.op_samples import WITHOUT_SAMPLE, Arguments, Make, arguments
from torch import nn


def prepare(op: str, name: str, overloads: Iterable[str], make: Make) -> list[Callable[[], Any]]:
    """Return the calls of an op under a public name.

    The arguments exist before the calls. They come from ``ARGUMENTS``, or from each fitting sample of ``overloads``.
    """
    function = attrgetter(name.removeprefix("torch."))(torch)
    if (op, name) in ARGUMENTS:
        given = [_arguments(ARGUMENTS[op, name](make))]
    else:
        first = torch.Tensor if name.startswith("torch.Tensor.") else object
        samples = [arguments(overload, make) for overload in overloads if overload not in WITHOUT_SAMPLE]
        given = [sample for sample in samples if isinstance(sample.args[0], first)]
    if not given:
        raise LookupError(f"no sample of {op} fits {name}; give it arguments in ARGUMENTS, {__file__}")
    if not (isinstance(function, type) and issubclass(function, nn.Module)):
        return [partial(function, *args, **kwargs) for args, kwargs in given]
    module, state = _module(function, make, _arguments(_MODULES_OF.get((op, name)) or _MODULES.get(name, ())))
    parameters = inspect.signature(module.forward).parameters.values()
    required = sum(parameter.default is parameter.empty for parameter in parameters)
    inputs = [tuple(args[:required]) for args, _ in given]
    return [partial(torch.func.functional_call, module, state, args) for args in inputs]


def composites(make: Make) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield calls of the composites in ``policy.yaml``, with arguments that reach all of their ops."""
    F = nn.functional  # noqa: N806
    x, classes = make(5, 2, 4), make.index(3, 2)

    def of(kind: type[nn.Module], *build: object, inputs: tuple[object, ...], **options: object) -> Callable[[], Any]:
        module, state = _module(kind, make, Arguments(build, options))
        return partial(torch.func.functional_call, module.train(), state, inputs)

    # `torch_xla` replaces `nn.GRU` with a class that runs on XLA only.
    for recurrent in (nn.modules.rnn.GRU, nn.LSTM, nn.RNN, *([nn.GRU] if x.device.type == "xla" else [])):
        yield f"torch.nn.{recurrent.__name__}", of(recurrent, 4, 4, inputs=(x,))
    yield "torch.nn.RNN", of(nn.RNN, 4, 4, nonlinearity="relu", inputs=(x,))
    for inputs in ((x, x, x), (x, x, x, None, False), (x, x, x, None, True, make(5, 5))):
        yield "torch.nn.MultiheadAttention", of(nn.MultiheadAttention, 4, 2, inputs=inputs)
    attention, state = _module(nn.MultiheadAttention, make, Arguments((4, 2), {"batch_first": True}))
    yield "torch.nn.MultiheadAttention", partial(torch.func.functional_call, attention, state, (x, x, x))
    yield "torch.nn.MultiheadAttention", of(nn.MultiheadAttention, 4, 2, kdim=3, inputs=(x, make(5, 2, 3), x))
    for target, scores in ((classes, make(2, 3)), (make(2, 3), make(2, 3)), (make.index(3, 2, 2, 2), make(2, 3, 2, 2))):
        yield "torch.nn.functional.cross_entropy", partial(F.cross_entropy, scores, target)
        yield "torch.nn.CrossEntropyLoss", partial(nn.CrossEntropyLoss(), scores, target)
    for p in (2, "fro", "nuc"):
        yield "torch.norm", partial(torch.norm, make(3, 2), p)
        yield "torch.Tensor.norm", partial(torch.Tensor.norm, make(3, 2), p)
    yield "torch.nn.functional.normalize", partial(F.normalize, make(3, 2))
    yield "torch.nn.functional.fold", partial(F.fold, make(1, 4, 4), 3, 2)
    yield "torch.nn.functional.logsigmoid", partial(F.logsigmoid, make(3, 2))
    yield "torch.nn.functional.pairwise_distance", partial(F.pairwise_distance, make(3, 2), make(3, 2))
    yield "torch.nn.PairwiseDistance", partial(nn.PairwiseDistance(), make(3, 2), make(3, 2))
    yield "torch.nn.functional.unfold", partial(F.unfold, make(1, 1, 3, 3), 2)
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield "torch.nn.functional.pad", partial(F.pad, make(1, 2, 3), (1, 1), mode)


def _module(kind: type[nn.Module], make: Make, build: Arguments) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """Return a module in evaluation mode, and its state from ``make``."""
    with torch.device("meta"):
        module = kind(*build.args, **build.kwargs).eval()
    return module, {name: make(*tensor.shape) for name, tensor in module.state_dict().items()}


def _arguments(values: tuple[object, ...] | Arguments) -> Arguments:
    return values if isinstance(values, Arguments) else Arguments(values)


# Each row has the shape of `interpolate`'s input, and the size of the output's spatial dimensions.
_IMAGES = {"1d": ((1, 1, 4), 6), "2d": ((1, 1, 4, 4), 6), "3d": ((1, 1, 2, 2, 2), 3)}
_RESIZED = {f"_upsample_nearest_exact{kind}": (*image, "nearest-exact") for kind, image in _IMAGES.items()}
_RESIZED |= {
    f"upsample_{mode}{kind}": (*_IMAGES[kind], mode)
    for mode, kind in (("bicubic", "2d"), ("bilinear", "2d"), ("linear", "1d"), ("trilinear", "3d"))
}
_RESIZED |= {f"upsample_nearest{kind}": (*image, "nearest") for kind, image in _IMAGES.items()}
_PADDED = {"1d": ((1, 2, 4), [1, 2]), "2d": ((1, 2, 3, 4), [1, 2, 1, 0]), "3d": ((1, 1, 2, 3, 4), [1, 2, 1, 0, 0, 1])}

# These `torch.nn` modules require arguments, which match the samples of the modules' ops.
_BUILT: dict[tuple[int, ...], str] = {
    (1,): """
        LogSoftmax ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d
        Softmax Softmin
    """,
    (2,): "AdaptiveAvgPool3d AdaptiveMaxPool3d AvgPool3d MaxPool2d MaxPool3d MaxUnpool2d MaxUnpool3d",
    (3,): "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d",
    (4,): "LayerNorm PReLU RMSNorm",
    (6,): "UpsamplingBilinear2d UpsamplingNearest2d",
    (2, 2): "FractionalMaxPool2d FractionalMaxPool3d",
    (2, 4): "GroupNorm",
    (3, 3, 2): "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    (3, 4): "GRUCell LSTMCell Linear RNNCell",
    (3, 4, 5): "Bilinear",
}
_MODULES: dict[str, tuple[object, ...]] = {
    f"torch.nn.{name}": build for build, names in _BUILT.items() for name in names.split()
}
# For one op, a module has these arguments, which take precedence over `_BUILT`.
_MODULES_OF: dict[tuple[str, str], tuple[object, ...] | Arguments] = {
    **{(op, "torch.nn.Upsample"): (size, None, mode) for op, (_, size, mode) in _RESIZED.items()},
    ("kl_div", "torch.nn.KLDivLoss"): Arguments((), {"reduction": "batchmean"}),
    ("rnn_relu_cell", "torch.nn.RNNCell"): Arguments((3, 4), {"nonlinearity": "relu"}),
}


def _pair(make: Make) -> tuple[torch.Tensor, ...]:
    return make(2, 3), make(2, 3)


def _of(shape: tuple[int, ...], *options: object, **named: object) -> Callable[[Make], Arguments]:
    return lambda make: Arguments((make(*shape), *options), named)


# These names do not use a sample of their op.
ARGUMENTS: dict[tuple[str, str], Callable[[Make], tuple[object, ...] | Arguments]] = {
    **{
        (f"_upsample_{mode}2d_aa", "torch.nn.functional.interpolate"): _of((1, 1, 4, 4), 3, mode=mode, antialias=True)
        for mode in ("bicubic", "bilinear")
    },
    **{
        (op, "torch.nn.functional.interpolate"): _of(shape, size, None, mode)
        for op, (shape, size, mode) in _RESIZED.items()
    },
    **{
        (f"{way}_pad{kind}", "torch.nn.functional.pad"): _of(shape, pad, mode)
        for way, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for kind, (shape, pad) in _PADDED.items()
    },
    ("batch_norm", "torch.nn.functional.batch_norm"): lambda make: (make(2, 3, 4), make(3), make(3)),
    ("batch_norm", "torch.nn.functional.instance_norm"): lambda make: (make(2, 3, 4),),
    **{
        ("batch_norm", f"torch.nn.{name}{kind}"): _of(shape)
        for name in ("BatchNorm", "InstanceNorm")
        for kind, shape in (("2d", (2, 3, 4, 4)), ("3d", (2, 3, 4, 4, 4)))
    },
    ("binary_cross_entropy_with_logits", "torch.nn.functional.binary_cross_entropy_with_logits"): _pair,
    ("chain_matmul", "torch.chain_matmul"): lambda make: (make(2, 3), make(3, 4), make(4, 5)),
    ("frobenius_norm", "torch.norm"): lambda make: (make(2, 3), "fro"),
    ("frobenius_norm", "torch.Tensor.norm"): lambda make: (make(2, 3), "fro"),
    ("grid_sampler", "torch.nn.functional.grid_sample"): lambda make: Arguments(
        (make(1, 1, 3, 3, 3), make(1, 2, 2, 2, 3)), {"align_corners": False}
    ),
    ("kl_div", "torch.nn.functional.kl_div"): lambda make: Arguments(_pair(make), {"reduction": "batchmean"}),
    ("linalg_matrix_norm", "torch.linalg.norm"): lambda make: (make(3, 2), 2),
    ("norm", "torch.nn.functional.pairwise_distance"): _pair,
    ("norm", "torch.nn.PairwiseDistance"): _pair,
    **{("nuclear_norm", f"torch.{name}"): lambda make: (make(3, 2), "nuc") for name in ("norm", "Tensor.norm")},
    ("poisson_nll_loss", "torch.nn.functional.poisson_nll_loss"): _pair,
    ("reciprocal", "torch.Tensor.__rdiv__"): lambda make: (make(2, 3), 2),
    ("reciprocal", "torch.Tensor.__rtruediv__"): lambda make: (make(2, 3), 2),
    ("softmax", "torch.nn.Softmax2d"): lambda make: (make(2, 3, 4, 4),),
    **dict.fromkeys(
        (("stft", "torch.stft"), ("stft", "torch.Tensor.stft")),
        lambda make: Arguments((make(8), 4, 2, 4, make(4)), {"center": False, "return_complex": True}),
    ),
    ("tensordot", "torch.tensordot"): lambda make: (make(2, 3), make(3, 4), 1),
}
