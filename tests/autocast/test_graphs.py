"""The graphs that torch.compile traces under the policy's kernels: those that it traces under torch's own.

`python -m tools.graphs` compares those of every device, type and way to trace.
"""

from collections.abc import Callable

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from testing.cases import CASES, Case
from testing.graphs import Graph, Tracing, nodes, traced
from testing.probe import stock_kernels
from testing.samples.ops import WITHOUT_SAMPLE
from testing.tally import Tally

F32, BF16 = torch.float32, torch.bfloat16
HOST = "cpu"
ROWS = [case for case in CASES if case.device == HOST and case.name not in WITHOUT_SAMPLE]
TRACINGS = [
    Tracing(BF16, (F32, BF16), dynamic=False, backward=True),
    Tracing(BF16, (BF16, F32), dynamic=True, backward=False),
]

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
]


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("The same graphs as under stock torch")
    request.config.pluginmanager.register(tally)
    return tally


@pytest.fixture(scope="module")
def stock() -> dict[tuple[Case, Tracing], Graph | str]:
    """What is traced with torch's own kernels."""
    with stock_kernels():
        return {(case, tracing): traced(case, tracing) for case in ROWS for tracing in TRACINGS}


@pytest.mark.parametrize("case", ROWS, ids=str)
@pytest.mark.parametrize("tracing", TRACINGS, ids=str)
def test_the_graph_of_an_op_is_that_of_stock_torch(
    case: Case, tracing: Tracing, stock: dict[tuple[Case, Tracing], Graph | str], tally: Tally
) -> None:
    graph = traced(case, tracing)
    with tally.count("errors" if isinstance(graph, str) else "graphs"):
        assert graph == stock[case, tracing]


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
