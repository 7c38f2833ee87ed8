"""The sentences of the documents that promise something, and for each what a user would write to see it hold."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import polycast
import torch
import torch.nn.functional as F
from polycast import policy
from polycast.backends import device_type_of
from polycast.debug.verification.samples import Make
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.cases import FIRST_ON_KEY
from tests.support.probe import flatten, is_here, probes, reach, region

F64, F32, BF16, HALF, INT = torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64
Call = Callable[[Make], object]


@dataclass(frozen=True)
class Place:
    """Where a sentence is looked at: a device of the policy, and a lower precision of its regions."""

    device: str
    lower: torch.dtype

    @property
    def device_type(self) -> str:
        return device_type_of(self.device)

    def region(self, enabled: bool = True) -> AbstractContextManager[None]:
        return region(self.device, self.lower) if enabled else nullcontext()

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """No autocasting inside a region. torch.autocast asks for the driver, so elsewhere it is the bare switch."""
        if is_here(self.device):
            with polycast.autocast(self.device_type, enabled=False):
                yield
        else:
            torch.set_autocast_enabled(self.device_type, False)
            try:
                yield
            finally:
                torch.set_autocast_enabled(self.device_type, True)

    def make(self, *dtypes: torch.dtype) -> Make:
        return Make(self.device_type, *dtypes)

    def result(self, call: Call, *dtypes: torch.dtype, enabled: bool = True) -> torch.dtype:
        """The dtype that a call returns in a region, of float32 inputs unless others are asked for."""
        with self.region(enabled):
            return next(flatten(call(self.make(*dtypes)))).dtype

    def types_below(self, op: str, call: Call) -> set[torch.dtype]:
        """The dtypes in which the inputs of an op arrive below autocast, of float32 inputs."""
        with self.region(), probes(self.device, [op]):
            return set(reach(lambda: call(self.make())).tensors)

    def listed(self, op: str) -> torch.dtype:
        """The dtype that the policy gives to an op of float32 inputs."""
        return self.lower if policy.category(op, self.device) == "lower_precision_fp" else F32


# What happens, and what the sentence says.
Pair = tuple[object, object]
Check = Callable[[Place], Iterable[Pair]]


def multiply(make: Make) -> Tensor:
    return torch.mm(make(2, 2), make(2, 2))


def regions(at: Place) -> Iterable[Pair]:
    yield at.result(multiply), at.lower
    yield at.result(multiply, enabled=False), F32


def out_of_place(at: Place) -> Iterable[Pair]:
    def allowed(make: Make) -> Tensor:
        return make(2, 4).addmm(make(2, 3), make(3, 4))

    def in_place(make: Make) -> Tensor:
        return make(2, 4).addmm_(make(2, 3), make(3, 4))

    def out(make: Make) -> Tensor:
        return torch.addmm(make(2, 4), make(2, 3), make(3, 4), out=make(2, 4))

    yield at.result(allowed), at.lower
    for op, call, wanted in (("addmm", allowed, at.lower), ("addmm_", in_place, F32), ("addmm.out", out, F32)):
        yield at.types_below(op, call), {wanted}


def not_eligible(at: Place) -> Iterable[Pair]:
    for enabled in (True, False):
        yield at.result(multiply, F64, enabled=enabled), F64
        yield at.result(lambda make: torch.cdist(make(2, 3), make(2, 3)), F64, enabled=enabled), F64
        yield at.result(lambda make: torch.mm(make.index(5, 2, 2), make.index(5, 2, 2)), enabled=enabled), INT
        yield at.result(lambda make: torch.prod(make.index(5, 2, 2)), enabled=enabled), INT


def explicit_dtype(at: Place) -> Iterable[Pair]:
    def calls(dtype: torch.dtype) -> Iterator[Call]:
        yield lambda make: torch.prod(make(2, 3), dim=1, dtype=dtype)
        yield lambda make: torch.sum(make(2, 3), dim=1, dtype=dtype)
        yield lambda make: make(2, 3).cumsum(dim=1, dtype=dtype)

    for dtype in (F64, F32, HALF, BF16):
        for call in calls(dtype):
            yield at.result(call), dtype
            yield at.result(call, at.lower), dtype


def unlisted(at: Place) -> Iterable[Pair]:
    yield "abs" in {op for device in policy.devices() for op in policy.ops(device)}, False
    for given in (F32, HALF, BF16, F64):
        yield at.result(lambda make: torch.abs(make(2, 3)), given), given


def downstream(at: Place) -> Iterable[Pair]:
    yield at.result(lambda make: torch.abs(multiply(make))), at.lower
    yield at.result(lambda make: torch.abs(multiply(make)), enabled=False), F32


def module(made: nn.Module, make: Make, *inputs: Tensor) -> Any:
    parameters = {name: make(*parameter.shape) for name, parameter in made.named_parameters()}
    return torch.func.functional_call(made, parameters, inputs)


def namespaces(at: Place) -> Iterable[Pair]:
    linear = torch.ops.aten.linear.default
    for call in (
        lambda make: module(nn.Linear(3, 4, device="meta"), make, make(2, 3)),
        lambda make: F.linear(make(2, 3), make(4, 3), make(4)),
        lambda make: linear(make(2, 3), make(4, 3), make(4)),
        lambda make: make(2, 3) @ make(3, 4),
        lambda make: make(2, 3).mm(make(3, 4)),
        lambda make: torch.matmul(make(2, 3), make(3, 4)),
        lambda make: torch.ops.aten.mm.default(make(2, 3), make(3, 4)),
    ):
        yield at.result(call), at.lower
    for call in (
        lambda make: nn.MSELoss()(make(2, 3), make(2, 3)),
        lambda make: F.mse_loss(make(2, 3), make(2, 3)),
        lambda make: torch.ops.aten.mse_loss.default(make(2, 3), make(2, 3)),
    ):
        yield at.result(call, at.lower), F32
    for call in (
        lambda make: nn.ReLU()(make(2, 3)),
        lambda make: F.relu(make(2, 3)),
        lambda make: torch.relu(make(2, 3)),
        lambda make: make(2, 3).relu(),
    ):
        yield at.result(call), at.listed("relu")
    for call in (
        lambda make: nn.MaxPool2d(2)(make(1, 1, 4, 4)),
        lambda make: F.max_pool2d(make(1, 1, 4, 4), 2),
        lambda make: torch.max_pool2d(make(1, 1, 4, 4), 2),
    ):
        yield at.result(call), at.listed("max_pool2d")


def recurrent_cells(at: Place) -> Iterable[Pair]:
    def run(cell: nn.Module) -> Call:
        return lambda make: module(cell, make, make(2, 3))

    for op, call in {
        "gru_cell": run(nn.GRUCell(3, 4, device="meta")),
        "lstm_cell": run(nn.LSTMCell(3, 4, device="meta")),
        "rnn_tanh_cell": run(nn.RNNCell(3, 4, device="meta")),
        "rnn_relu_cell": run(nn.RNNCell(3, 4, nonlinearity="relu", device="meta")),
    }.items():
        yield at.types_below(op, call), {at.listed(op)}


def promote(at: Place) -> Iterable[Pair]:
    calls: dict[str, Call] = {
        "addcmul": lambda make: torch.addcmul(make(2, 3), make(2, 3), make(2, 3)),
        "stack": lambda make: torch.stack([make(2, 3), make(2, 3)]),
    }
    listed = [call for op, call in calls.items() if policy.category(op, at.device) == "promote"]
    yield listed != [], True
    for call in listed:
        yield at.result(call, at.lower), at.lower
        yield at.result(call, at.lower, F32), F32
        yield at.result(call, F32, at.lower), F32


def native_promotion(at: Place) -> Iterable[Pair]:
    for enabled in (True, False):
        for lower in (HALF, BF16):
            yield at.result(lambda make: make(2, 3) + make(2, 3), lower, F32, enabled=enabled), F32
            yield at.result(lambda make: torch.add(make(2, 3), make(2, 3)), F32, lower, enabled=enabled), F32


def banned(at: Place) -> Iterable[Pair]:
    for call in (
        lambda make: F.binary_cross_entropy(make(2, 3), make(2, 3)),
        lambda make: nn.BCELoss()(make(2, 3), make(2, 3)),
    ):
        try:
            at.result(call)
        except RuntimeError as error:
            text = str(error)
        yield "are unsafe to autocast" in text, True
        yield "binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe" in text, True


def safe(at: Place) -> Iterable[Pair]:
    for given in (F32, at.lower):
        yield at.result(lambda make: F.binary_cross_entropy_with_logits(make(2, 3), make(2, 3)), given), F32
        yield at.result(lambda make: nn.BCEWithLogitsLoss()(make(2, 3), make(2, 3)), given), F32


def other_devices(at: Place) -> Iterable[Pair]:
    for other in {"cpu", "cuda", "xpu", "mps", "mtia", "meta"} - {at.device_type}:
        with FakeTensorMode(), at.region():
            yield (other, multiply(Make(other)).dtype), (other, F32)


def disabled_inside(at: Place) -> Iterable[Pair]:
    with at.region():
        first = multiply(at.make())
        with at.switched_off():
            yield torch.mm(first.float(), first.float()).dtype, F32
            yield torch.mm(first, first).dtype, at.lower  # of its inputs
        yield torch.mm(first.float(), first.float()).dtype, at.lower


def threads(at: Place) -> Iterable[Pair]:
    a, b = at.make()(2, 3), at.make()(3, 4)

    def forward() -> torch.dtype:
        return torch.mm(a, b).dtype

    def forward_in_region() -> torch.dtype:
        with at.region():
            return forward()

    with at.region(), ThreadPoolExecutor(1) as thread:
        yield thread.submit(forward).result(), F32
        yield thread.submit(forward_in_region).result(), at.lower
        yield forward(), at.lower


def backward(at: Place) -> Iterable[Pair]:
    seen: dict[str, torch.dtype] = {}

    def watch(name: str, output: Tensor) -> Tensor:
        assert output.grad_fn is not None
        output.grad_fn.register_prehook(lambda grads: seen.update({name: grads[0].dtype}))
        return output

    a, b = at.make()(2, 3).requires_grad_(), at.make()(3, 4).requires_grad_()
    with at.region(), torch.set_grad_enabled(True):
        product = watch("product", torch.mm(a, b))
        loss = watch("loss", F.mse_loss(product, torch.zeros_like(product)))
    torch.autograd.backward(loss)
    yield seen, {"product": at.lower, "loss": F32}
    yield {leaf.grad.dtype for leaf in (a, b) if leaf.grad is not None}, {F32}


def underflow(at: Place) -> Iterable[Pair]:
    a, b = at.make()(2, 3).requires_grad_(), at.make()(3, 4)
    with at.region(), torch.set_grad_enabled(True):
        product = torch.mm(a, b)
    torch.autograd.backward(product.float().sum() * 1e-9)
    assert a.grad is not None
    yield bool(a.grad.any()), at.lower is BF16


def bfloat16_by_default(at: Place) -> Iterable[Pair]:
    with polycast.autocast(at.device_type), torch.no_grad():
        yield multiply(at.make()).dtype, BF16


def both_precisions(at: Place) -> Iterable[Pair]:
    for dtype in (BF16, HALF):
        with polycast.autocast(at.device_type, dtype), torch.no_grad():
            yield multiply(at.make()).dtype, dtype


def tracing(at: Place) -> Iterable[Pair]:
    # A cached cast is no part of the trace, with torch's kernels or with these.
    with polycast.autocast(at.device_type, at.lower, cache_enabled=False), torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit")
        model = nn.Linear(3, 4, device=at.device_type).eval()
        traced = torch.jit.freeze(torch.jit.trace(model, at.make()(2, 3)))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        yield traced(at.make()(2, 3)).dtype, at.lower


def rules_of_cuda(at: Place) -> Iterable[Pair]:
    for op in policy.ops("cuda"):
        yield policy.category(op, at.device) in (policy.category(op, "cuda"), policy.UNLISTED), True


# The sentences stand as in the first document named; the others say the same, of their own device and lower precision.
# A sentence about one device holds on every device of the policy, once for each key, unless the sentence names some.
XLA, CUDA, EXAMPLES = "pytorch_xla_amp", "torch_cuda_amp", "torch_amp_examples"
XPU, XLA_REPOSITORY = "torch_xpu_amp", "pytorch_xla_amp_draft"


@dataclass(frozen=True)
class Sentence:
    """A sentence, the documents that have it, and the check that it holds."""

    sentence: str
    documents: tuple[str, ...]
    check: Check
    devices: tuple[str, ...] = tuple(FIRST_ON_KEY)
    itself: bool = False  # needs the device: fake tensors of it will not do


SENTENCES = [
    Sentence("Instances of torch.cuda.amp.autocast enable autocasting for chosen regions.", (EXAMPLES,), regions),
    Sentence(
        "Only out-of-place ops and Tensor methods are eligible to be autocasted. In-place variants and calls that "
        "explicitly supply an out=... Tensor are allowed in autocast-enabled regions, but won't go through "
        "autocasting.",
        (XLA, CUDA, XPU),
        out_of_place,
    ),
    Sentence(
        "Ops that run in float64 or non-floating-point dtypes are not eligible, and will run in these types whether or "
        "not autocast is enabled.",
        (XLA, CUDA, XPU),
        not_eligible,
    ),
    Sentence(
        "Ops called with an explicit dtype=... argument are not eligible, and will produce output that respects the "
        "dtype argument.",
        (XLA, CUDA),
        explicit_dtype,
    ),
    Sentence(
        "Ops not listed below do not go through autocasting. They run in the type defined by their inputs.",
        (XLA, CUDA, XPU),
        unlisted,
    ),
    Sentence(
        "Autocasting may still change the type in which unlisted ops run if they're downstream from autocasted ops.",
        (XLA, CUDA, XPU),
        downstream,
    ),
    Sentence(
        "If functions are exposed in multiple namespaces, they go through autocasting regardless of the namespace.",
        (CUDA, XPU),
        namespaces,
    ),
    Sentence("Ops that can autocast to float16: GRUCell, LSTMCell, RNNCell", (CUDA,), recurrent_cells),
    Sentence(
        "If all of the inputs are float16, the op runs in float16. If any of the inputs is float32, autocast casts all "
        "inputs to float32 and runs the op in float32.",
        (CUDA, XPU),
        promote,
    ),
    Sentence(
        "If inputs are a mixture of float16 and float32, these ops run in float32 and produce float32 output, "
        "regardless of whether autocast is enabled.",
        (CUDA, XPU),
        native_promotion,
    ),
    Sentence(
        "Therefore, binary_cross_entropy and BCELoss raise an error in autocast-enabled regions.",
        (CUDA,),
        banned,
        tuple(device for device in FIRST_ON_KEY if policy.category("binary_cross_entropy", device) == "banned"),
    ),
    Sentence("binary_cross_entropy_with_logits and BCEWithLogits are safe to autocast.", (CUDA,), safe),
    Sentence("Only CUDA ops are eligible for autocasting.", (CUDA,), other_devices),
    Sentence(
        "a safe fallback is to disable autocast and force execution in float32 ( or dtype) at any points of use where "
        "errors occur",
        (EXAMPLES,),
        disabled_inside,
    ),
    Sentence("The autocast state is thread local", (EXAMPLES,), threads),
    Sentence(
        "Backward ops run in the same type that autocast used for the corresponding forward ops.",
        (XLA,),
        backward,
        itself=True,
    ),
    Sentence(
        "Gradient values with small magnitudes may not be representable in float16. These values will flush to zero",
        (CUDA,),
        underflow,
        ("cpu",),
        itself=True,
    ),
    Sentence(
        "Since TPU's use bfloat16 mixed precision, gradient scaling is not necessary.",
        (XLA, XLA_REPOSITORY),
        underflow,
        ("xla",),
        itself=True,
    ),
    Sentence("TPUs natively support bfloat16", (XLA, XLA_REPOSITORY), bfloat16_by_default, ("xla",), itself=True),
    Sentence(
        "torch.bfloat16 is the default lower precision floating point data type when torch.xpu.amp is enabled.",
        (XPU,),
        bfloat16_by_default,
        ("xpu",),
    ),
    Sentence(
        "Inference workloads using torch.xpu.amp support torch.bfloat16 and torch.float16.",
        (XPU,),
        both_precisions,
        ("xpu",),
    ),
    Sentence("torch.xpu.amp.autocast can be used with torch.jit.trace", (XPU,), tracing, ("cpu",)),
    Sentence("AMP on XLA:GPU devices reuse Pytorch's AMP rules.", (XLA,), rules_of_cuda, ("xla_gpu",)),
]
