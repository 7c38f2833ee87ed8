"""What torch.compile traces of a call of an op, as a text for each node, for any device and without it."""

from typing import Any, NamedTuple

import torch
from polycast.backends import device_type_of
from polycast.debug.verification.outcomes import replaced, tensors
from polycast.debug.verification.samples import Make, arguments, find
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.support.cases import Case
from tests.support.probe import flatten, region, tensors_of

Graph = list[str]


class Tracing(NamedTuple):
    """How a call is traced: the region's lower precision, the dtypes of the inputs by turns, sizes, and gradients."""

    lower: torch.dtype
    given: tuple[torch.dtype, ...]
    dynamic: bool
    backward: bool


class _TracedError(Exception):
    """Ends a trace, with its graph: nothing needs to be compiled from it."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__("traced")
        self.graph = nodes(module)


def traced(case: Case, tracing: Tracing) -> Graph | str:
    """Return the graph of an op's sample in a region, forward and backward in one, or the error that tracing raises."""
    sample = arguments(case.name, Make("cpu", *tracing.given))
    floating = [index for index, tensor in enumerate(tensors(sample)) if tensor.is_floating_point()]
    if not tracing.backward:
        return _traced(case, tracing, [])
    # Where an op has no derivative for one of its inputs, it has one for its first, or none.
    graph = _traced(case, tracing, floating)
    return _traced(case, tracing, floating[:1]) if isinstance(graph, str) and len(floating) > 1 else graph


def _traced(case: Case, tracing: Tracing, leaves: list[int]) -> Graph | str:
    operator = find(case.name)
    assert operator is not None
    sample = arguments(case.name, Make("cpu", *tracing.given))
    # With an environment for sizes, as torch.compile always has one, tracing goes through the Python dispatcher.
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=not tracing.dynamic, allow_non_fake_inputs=True)
    mode.cache_clear()  # what a backward returns twice it may return once where it comes from the cache

    def call(*inputs: torch.Tensor) -> Any:
        fresh = iter(inputs)
        again = replaced(sample, lambda _: next(fresh))
        with region(case.device, tracing.lower), torch.set_grad_enabled(bool(leaves)):
            return operator(*again.args, **again.kwargs)

    try:
        with tensors_of(case.device, mode):
            inputs = [_fake(mode, tensor, device_type_of(case.device)) for tensor in tensors(sample)]
            for index in leaves:
                inputs[index].requires_grad_()
            aot_function(call, _end, partition_fn=_end)(*inputs)
    except _TracedError as traced:
        return traced.graph
    except Exception as error:  # whatever a tracer raises of what it cannot trace
        return f"{type(error).__name__}: {error}".splitlines()[0]
    raise AssertionError(f"{case} was not traced")


def nodes(module: GraphModule) -> Graph:
    """Return each node of a graph: what is called with what, and the dtypes, sizes and strides that it gives."""
    return [
        f"{node.name} = {node.target}({node.args}, {node.kwargs}) -> {_layouts(node.meta.get('val'))}"
        for node in module.graph.nodes
    ]


def _layouts(value: Any) -> list[tuple[object, ...]]:
    return [(tensor.dtype, tuple(tensor.shape), tensor.stride()) for tensor in flatten(value)]


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Return a fake tensor of the device with the sizes, symbolic or not, that the mode gives to a tensor's fake."""
    fake = mode.from_tensor(tensor)
    with mode:
        return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device)


def _end(module: GraphModule, *_: Any, **__: Any) -> Any:
    raise _TracedError(module)
