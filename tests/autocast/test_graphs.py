"""The graphs that are traced with the policy's kernels, compared with the graphs of stock PyTorch.

All tensors are fake. Backward runs for CPU tensors only, because autograd cannot record tensors of an absent device.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import _extension
from polycast.cast_by_hand import flatten, replaced
from polycast.devices import device_type_of
from polycast.op_samples import WITHOUT_SAMPLE, Make, arguments, find
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.support.cases import CASES, NOTES, Case
from tests.support.probe import HAS_XLA, kernels_of, region, stock_kernels, tensors_of
from tests.support.properties import examples

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
HOST = "cpu"
# PyTorch or `torch_xla` has autocast kernels for these devices, and their fake tensors have an autocast key.
WITH_KERNELS = ["cpu", "cuda", "xpu", "mps", "mtia", *(["xla"] if HAS_XLA else [])]
EVERYWHERE = [case for case in CASES if case.device in WITH_KERNELS and case.name not in WITHOUT_SAMPLE]
ON_HOST = [case for case in EVERYWHERE if case.device == HOST]
PROMOTE_RAISES = "Unexpected floating ScalarType in at::autocast::prioritize"
Graph = list[str]

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
]


class Traced(NamedTuple):
    """A rule, the region's dtype, the dtypes between which the inputs alternate, and the options of the trace."""

    case: Case
    lower: torch.dtype
    given: tuple[torch.dtype, ...]
    dynamic: bool
    backward: bool


@st.composite
def ops(draw: st.DrawFn) -> Traced:
    """Draw a rule, and the dtypes and options with which to trace its op."""
    case = draw(st.sampled_from(ON_HOST) | st.sampled_from(EVERYWHERE))
    lower = draw(st.sampled_from(_extension.DEVICES[case.device].lower_precision))
    given_types = draw(st.sampled_from([(F32,), (lower,), (lower, F32), (HALF, BF16)]))
    backward = device_type_of(case.device) == HOST and draw(st.booleans())
    return Traced(case, lower, given_types, draw(st.booleans()), backward)


@given(op=ops())
@examples(40)
def test_the_graph_of_an_op_equals_the_graph_of_stock_pytorch(op: Traced) -> None:
    with kernels_of(op.case.device):
        ours = graph(op)
    with stock_kernels():
        stock = graph(op)
    differs_on_purpose = (op.case.op, op.case.device) in NOTES or PROMOTE_RAISES in stock
    if op.case.category == "banned":  # Only the beginnings of the error messages are equal.
        ours, stock = (found[: found.index("unsafe to autocast")] for found in (ours, stock))
    assert ours == stock or differs_on_purpose


def graph(op: Traced) -> Graph | str:
    """Return the graph of an op in a region, or the error of the trace. ``op.backward`` adds the backward."""
    sample = arguments(op.case.name, Make(HOST, *op.given))
    leaves = [index for index, tensor in enumerate(flatten(sample)) if tensor.is_floating_point()]
    found = _graph(op, leaves if op.backward else [])
    # Some ops have a derivative only for their first floating-point input.
    return _graph(op, leaves[:1]) if op.backward and isinstance(found, str) else found


class _EndError(Exception):
    """An exception that ends a trace before compilation, with the graph as its argument."""


def _end(module: GraphModule, *_: Any, **__: Any) -> Any:
    raise _EndError(nodes(module))


def _graph(op: Traced, leaves: list[int]) -> Graph | str:
    sample = arguments(op.case.name, Make(HOST, *op.given))
    # With a `ShapeEnv`, tracing uses the Python dispatcher, like `torch.compile`.
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=not op.dynamic, allow_non_fake_inputs=True)
    mode.cache_clear()  # The cache would return two tensors for an op that returns one tensor twice.

    def call(*inputs: torch.Tensor) -> Any:
        fresh = iter(inputs)
        again = replaced(sample, lambda _: next(fresh))
        with region(op.case.device, op.lower), torch.set_grad_enabled(bool(leaves)):
            return find(op.case.name)(*again.args, **again.kwargs)  # type: ignore[misc]

    try:
        with tensors_of(op.case.device, mode):
            inputs = [_fake(mode, tensor, device_type_of(op.case.device)) for tensor in flatten(sample)]
            for index in leaves:
                inputs[index].requires_grad_()
            aot_function(call, _end, partition_fn=_end)(*inputs)
    except _EndError as traced:
        found: Graph = traced.args[0]
        return found
    except Exception as error:  # A tracer may raise any error.
        return f"{type(error).__name__}: {error}".splitlines()[0]
    raise AssertionError(f"{op} was not traced")


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Return a fake tensor on the device. The mode derives its sizes and strides from ``tensor``."""
    fake = mode.from_tensor(tensor)
    with mode:
        return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device)


def nodes(module: GraphModule) -> Graph:
    """Return each node of a graph as text: its name, target and arguments, and the layout of each result."""
    layouts = [
        [(tensor.dtype, tuple(tensor.shape), tensor.stride()) for tensor in flatten(node.meta.get("val"))]
        for node in module.graph.nodes
    ]
    return [
        f"{node.name} = {node.target}({node.args}, {node.kwargs}) -> {layout}"
        for node, layout in zip(module.graph.nodes, layouts, strict=True)
    ]


def test_a_linear_over_merged_heads_compiles_as_under_stock_pytorch() -> None:
    ours = compiled_graph()
    with stock_kernels():
        assert ours == compiled_graph()
    assert any("aten.mm" in node for node in ours)


def compiled_graph() -> Graph:
    """Return the inference graph of ``torch.compile`` for a linear layer over merged attention heads."""
    graphs: list[Graph] = []
    projection = torch.nn.Linear(4096, 8, bias=False)

    def keep(module: GraphModule, _: list[torch.Tensor]) -> Callable[..., object]:
        graphs.append(nodes(module))
        return module.forward

    @torch.compile(backend=aot_autograd(fw_compiler=keep), dynamic=True, fullgraph=True)
    def merge(heads: torch.Tensor) -> torch.Tensor:
        with torch.autocast(HOST):
            return projection(heads.permute(0, 2, 1, 3).reshape(4, 1, 4096))  # type: ignore[no-any-return]

    with torch.no_grad():
        merge(torch.ones(4, 32, 1, 128))
    (only,) = graphs
    return only
