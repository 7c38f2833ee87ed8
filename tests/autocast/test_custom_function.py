"""``custom_fwd`` and ``custom_bwd``: the autocast state in the forward and backward of an autograd function."""

from collections import UserDict
from collections.abc import Callable
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast.cast_by_hand import NARROW
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from tests.support.devices import NEEDS_XLA

F64, F32, BF16, HALF, INT = torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64

Function = Any  # `apply` of a `torch.autograd.Function` has no type annotations.
# The latest eager backward stores whether autocast is enabled, autocast's dtype, and the saved tensors' dtypes.
seen: list[tuple[bool, torch.dtype, list[torch.dtype]]] = []


def _multiply_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = ctx.saved_tensors
    if not torch.compiler.is_compiling():
        kind = a.device.type
        seen[:] = [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind), [a.dtype, b.dtype])]
    return grad.mm(b.t()), a.t().mm(grad)


def context_first(cast_inputs: torch.dtype | None = None, library: Any = polycast, **device: str) -> Function:
    """Return an autograd function for a matrix product, whose ``forward`` receives the context."""

    class Multiply(torch.autograd.Function):
        @staticmethod
        @library.custom_fwd(cast_inputs=cast_inputs, **device)  # type: ignore[untyped-decorator]
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a, b)
            return a.mm(b)

        backward = staticmethod(library.custom_bwd(**device)(_multiply_backward))

    return Multiply


def context_apart(cast_inputs: torch.dtype | None = None) -> Function:
    """Return an autograd function for a matrix product, with a separate ``setup_context``."""

    wrap: Any = polycast.custom_fwd(cast_inputs=cast_inputs)

    class Multiply(torch.autograd.Function):
        generate_vmap_rule = True
        forward = staticmethod(wrap(lambda a, b: a.mm(b)))

        @staticmethod
        @wrap  # type: ignore[untyped-decorator]
        def setup_context(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], _: torch.Tensor) -> None:
            ctx.save_for_backward(*inputs)

        backward = staticmethod(polycast.custom_bwd(_multiply_backward))

    return Multiply


STYLES = pytest.mark.parametrize("style", [context_first, context_apart])
Style = Callable[..., Function]


@STYLES
@pytest.mark.parametrize(
    ("device", "enabled", "cast_inputs", "output", "backward"),
    [
        # Without autocast in backward, the product of float32 and bfloat16 would raise.
        ("cpu", True, None, BF16, (True, BF16, [F32, F32])),
        ("cpu", True, HALF, HALF, (False, BF16, [HALF, HALF])),
        ("cpu", False, None, F32, (False, BF16, [F32, F32])),
        ("cpu", False, HALF, F32, (False, BF16, [F32, F32])),
        pytest.param(
            *("xla", True, HALF, HALF, (False, BF16, [HALF, HALF])),
            marks=NEEDS_XLA,
        ),
    ],
)
def test_backward_runs_under_the_state_of_forward(
    style: Style, device: str, enabled: bool, cast_inputs: torch.dtype | None, output: torch.dtype, backward: Any
) -> None:
    """Backward runs under the autocast state of its forward, not of the region around it (specification 7.2)."""
    a, b = (torch.full((2, 2), value, device=device, requires_grad=True) for value in (2.0, 3.0))
    with polycast.autocast(device, enabled=enabled):
        result = style(cast_inputs).apply(a, b)
    assert result.dtype is output
    with polycast.autocast(device, enabled=not enabled):  # This region has no effect on backward.
        result.sum().backward()
    assert seen == [backward]
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.dtype, b.grad.dtype) == (F32, F32)
    assert (a.grad.tolist(), b.grad.tolist()) == ([[6.0, 6.0]] * 2, [[4.0, 4.0]] * 2)


class Sequence(list[Any]):
    """A container that PyTorch's pytree functions treat as a leaf."""


class Pair(NamedTuple):
    left: Any
    right: Any


def dtypes(value: Any) -> Any:
    """Return a nested value in which each tensor is replaced by its dtype."""
    return tree_map_only(torch.Tensor, lambda tensor: tensor.dtype, value)


def test_inputs_are_cast_in_nested_containers() -> None:
    given = [F32, (HALF, {"key": F32}), Pair(F32, "text"), F64, INT, NARROW, (None, 1.5, torch.Size([2]))]
    wanted = [BF16, (BF16, {"key": BF16}), Pair(BF16, "text"), F64, INT, NARROW, (None, 1.5, torch.Size([2]))]
    made = tree_map_only(torch.dtype, lambda dtype: torch.empty(2, dtype=dtype), given)

    def forward(*args: Any, **kwargs: Any) -> Any:
        assert not torch.is_autocast_enabled("cpu")
        return dtypes(args), dtypes(kwargs)

    with polycast.autocast("cpu"):
        found = polycast.custom_fwd(cast_inputs="bf16")(forward)(made, torch.ones(1), name=made)
        cast = polycast.custom_fwd(cast_inputs="bf16")(lambda *args: args)
        listed, mapped = cast(Sequence([torch.ones(1)]), UserDict(key=torch.ones(1)))
    assert found == ((wanted, BF16), {"name": wanted})
    assert (type(listed), listed[0].dtype, mapped["key"].dtype) == (Sequence, BF16, BF16)


def test_the_default_device_is_the_accelerator_of_the_inputs() -> None:
    forward = polycast.custom_fwd(cast_inputs=HALF)(lambda *args: dtypes(args))
    with FakeTensorMode(), polycast.autocast("xpu"):
        host, accelerator, shape = (torch.ones(2, device=device) for device in ("cpu", "xpu", "meta"))
        assert forward(host, accelerator) == (F32, HALF)
        assert forward(shape, accelerator) == (F32, HALF)
        assert forward(host, shape) == (F32, F32)  # These inputs select the CPU, which has no active region.


def test_setup_context_gets_the_output_that_forward_returned() -> None:
    def setup_context(_: Any, inputs: Any, output: Any) -> Any:
        return dtypes((inputs, output))

    with polycast.autocast("cpu"):
        found = polycast.custom_fwd(cast_inputs=HALF)(setup_context)(None, (torch.ones(2),), torch.ones(2))
    assert found == ((HALF,), F32)


@STYLES
def test_second_derivatives_of_custom_functions_are_correct(style: Style) -> None:
    def multiply(a: torch.Tensor, b: torch.Tensor) -> Any:
        with polycast.autocast("cpu"):
            return style().apply(a, b)

    a, b = (torch.rand(2, 2, dtype=F64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(multiply, (a, b))
    assert torch.autograd.gradgradcheck(multiply, (a, b))


@pytest.mark.parametrize("cast_inputs", [None, HALF])
def test_function_transforms_accept_the_form_with_setup_context(cast_inputs: torch.dtype | None) -> None:
    function = context_apart(cast_inputs)

    def loss(a: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = function.apply(a, 3 * torch.ones(2, 2))
        assert result.dtype is (cast_inputs or BF16)
        return result.sum(dtype=F32)

    with polycast.autocast("cpu"):
        batch = torch.vmap(torch.func.grad(loss))(torch.ones(4, 2, 2))
    assert batch.dtype is F32
    assert torch.equal(batch, torch.full((4, 2, 2), 6.0))


@STYLES
@pytest.mark.parametrize("cast_inputs", [None, HALF])
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo causes the warning.
def test_compiled_functions_match_eager_ones(style: Style, cast_inputs: torch.dtype | None) -> None:
    function = style(cast_inputs)

    def multiply(a: torch.Tensor, b: torch.Tensor) -> Any:
        with polycast.autocast("cpu"):
            return function.apply(a, b)

    def run(call: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        a, b = (torch.linspace(0, 1, 4).reshape(2, 2).requires_grad_() for _ in range(2))
        result = call(a, b)
        return [result, *torch.autograd.grad(result.sum(), (a, b))]

    compiled = torch.compile(multiply, fullgraph=True, backend="aot_eager")
    for ours, eager in zip(run(compiled), run(multiply), strict=True):
        assert ours.dtype is eager.dtype
        assert torch.equal(ours, eager)


@pytest.mark.parametrize("device_type", ["cpu", "cuda"])
@pytest.mark.parametrize("cast_inputs", [None, F32])
def test_custom_functions_with_a_device_type_give_the_results_of_torch_amp(
    device_type: str, cast_inputs: torch.dtype | None
) -> None:
    """Custom functions give the results of ``torch.amp``, even for another device type than the active region's."""

    def outcome(library: Any) -> list[Any]:
        pair: list[Any] = [torch.full((2, 2), number).bfloat16().requires_grad_() for number in (1.0, 3.0)]
        with polycast.autocast("cpu"):
            result: Any = context_first(cast_inputs, library, device_type=device_type).apply(*pair)
        result.sum().backward()
        return [result.dtype, result.tolist(), *(tensor.grad.tolist() for tensor in pair), *seen[0]]

    assert outcome(polycast) == outcome(torch.amp)
