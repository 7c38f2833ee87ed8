"""The graphs that torch.compile traces under the policy's kernels are those that it traces under torch's own.

Fake tensors stand for devices that are not here, without a backward, which they cannot record.
"""

from collections.abc import Callable

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import _compiled
from polycast.backends import device_type_of
from polycast.debug.verification.samples import WITHOUT_SAMPLE
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from tests.support.cases import CASES, Case
from tests.support.graphs import Graph, Tracing, nodes, traced
from tests.support.probe import HAS_XLA, kernels_of, stock_kernels
from tests.support.properties import examples

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
HOST = "cpu"
# The devices that torch, or torch_xla, has kernels for, and whose fake tensors carry an autocast key.
WITH_KERNELS = ["cpu", "cuda", "xpu", "mps", "mtia", *(["xla"] if HAS_XLA else [])]
EVERYWHERE = [case for case in CASES if case.device in WITH_KERNELS and case.name not in WITHOUT_SAMPLE]
ON_HOST = [case for case in EVERYWHERE if case.device == HOST]
PROMOTE_RAISES = "Unexpected floating ScalarType in at::autocast::prioritize"

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
]


@st.composite
def cells(draw: st.DrawFn) -> tuple[Case, Tracing]:
    """Draw an op on a device, and a way to trace it."""
    case = draw(st.sampled_from(ON_HOST) | st.sampled_from(EVERYWHERE))
    lower = draw(st.sampled_from(_compiled.DEVICES[case.device].lower_precision))
    given_types = draw(st.sampled_from([(F32,), (lower,), (lower, F32), (HALF, BF16)]))
    backward = device_type_of(case.device) == "cpu" and draw(st.booleans())
    return case, Tracing(lower, given_types, draw(st.booleans()), backward)


@given(cell=cells())
@examples(60)
def test_the_graph_of_an_op_is_that_of_stock_torch(cell: tuple[Case, Tracing]) -> None:
    case, _ = cell
    with kernels_of(case.device):
        ours = traced(*cell)
    with stock_kernels():
        stock = traced(*cell)
    differs_on_purpose = case.op in polycast.policy.notes(case.device) or PROMOTE_RAISES in stock
    assert ours == stock or differs_on_purpose or (isinstance(ours, str) and isinstance(stock, str))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_linear_over_merged_heads_is_compiled_as_under_stock_torch(dynamic: bool) -> None:
    ours = compiled_graph(dynamic)
    with stock_kernels():
        assert ours == compiled_graph(dynamic)
    assert any("aten.mm" in node for node in ours)


def compiled_graph(dynamic: bool) -> Graph:
    """Return the graph that torch.compile makes of a projection without bias behind attention, in inference."""
    graphs: list[Graph] = []
    projection = torch.nn.Linear(4096, 8, bias=False)

    def keep(module: GraphModule, _: list[torch.Tensor]) -> Callable[..., object]:
        graphs.append(nodes(module))
        return module.forward

    @torch.compile(backend=aot_autograd(fw_compiler=keep), dynamic=dynamic, fullgraph=True)
    def merge(heads: torch.Tensor) -> torch.Tensor:
        with torch.autocast(HOST):
            return projection(heads.permute(0, 2, 1, 3).reshape(4, 1, 4096))  # type: ignore[no-any-return]

    with torch.no_grad():
        merge(torch.ones(4, 32, 1, 128))
    (graph,) = graphs
    return graph
