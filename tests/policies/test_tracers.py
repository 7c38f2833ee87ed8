"""Tracers that would lose the rules of a module raise; those that keep them go on."""

import io
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn

F32, BF16 = torch.float32, torch.bfloat16
X = torch.ones(2, 4)

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.")


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x)
        return result


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(self.linear(x))
        return result


LOST = "records no casts.*, so the rules of this {} would be lost; use torch.compile"


@pytest.mark.parametrize(("name", "kind"), [("", "Outer"), ("inner.linear", "Linear")])
def test_jit_trace_raises_outside_of_a_region(name: str, kind: str) -> None:
    model = Outer()
    polycast.assign(model, {name: "fp32"})
    for policy in (polycast.Policy(), polycast.Policy({"linear": "fp32"})):
        with (
            polycast.autocast("cpu", enabled=False, policy=policy),
            pytest.raises(RuntimeError, match=LOST.format(kind)),
        ):
            torch.jit.trace(model, X)  # type: ignore[no-untyped-call]
    polycast.assign(model, {name: None})
    traced = torch.jit.trace(model, X)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(traced(X), model(X))


def test_jit_trace_holds_the_casts_of_a_region_and_says_where() -> None:
    model = Outer().requires_grad_(False)
    polycast.assign(model, {"inner": "fp32"})
    with polycast.autocast("cpu"), pytest.warns(UserWarning, match=r"this Inner by its rules, .* outside of regions"):
        traced = torch.jit.trace(model, X, check_trace=False)  # type: ignore[no-untyped-call]
    assert traced(X).dtype == F32
    outside = traced(X)
    with polycast.autocast("cpu"):
        torch.testing.assert_close(outside, model(X))


@pytest.mark.parametrize("trace", [torch.fx.symbolic_trace, torch.fx.Tracer().trace, torch.jit.script])
@pytest.mark.parametrize(("name", "kind"), [("", "Outer"), ("inner", "Inner")])
def test_fx_and_jit_script_raise(name: str, kind: str, trace: Callable[[nn.Module], object]) -> None:
    model = Outer()
    polycast.assign(model, {name: "fp32"})
    with pytest.raises(RuntimeError, match=LOST.format(kind)):
        trace(model)
    polycast.assign(model, {name: None})
    traced: Any = trace(model)
    assert isinstance(traced, torch.fx.Graph) or torch.equal(traced(X), model(X))


def test_modules_that_fx_leaves_whole_keep_their_rules() -> None:
    model = Outer()
    polycast.assign(model, {"inner.linear": "fp32"})
    traced = torch.fx.symbolic_trace(model)
    with polycast.autocast("cpu"):
        assert (traced(X).dtype, traced.get_submodule("linear")(X).dtype) == (F32, BF16)


def test_make_fx_records_the_casts() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    model = Outer()
    polycast.assign(model, {"inner": "fp32"})
    with polycast.autocast("cpu"):
        graph = make_fx(lambda x: model(x))(X)
    assert graph(X).dtype == F32


def test_an_export_to_onnx_keeps_the_casts() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    model = Outer()
    polycast.assign(model, {"inner": "fp32"})
    with polycast.autocast("cpu"):
        torch.onnx.export(model, (X,), file := io.BytesIO(), dynamo=False)  # type: ignore[arg-type]
    (output,) = onnx.load_from_string(file.getvalue()).graph.output
    assert output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("rules", [{"linear": "fp32"}, torch.float32])
def test_a_compiled_function_assigns(rules: polycast.policy.policy.PolicyLike) -> None:
    model = Outer()

    def assigned(x: Tensor, rules: polycast.policy.policy.PolicyLike) -> Tensor:
        x = x * 2
        names = polycast.assign(model, {"inner": rules})
        result: Tensor = model(x) + len(names)
        return result

    compiled = torch.compile(assigned, backend="eager")
    with polycast.autocast("cpu"):
        for value, kind in ((rules, F32), (None, BF16), (rules, F32)):
            assert compiled(X, value).dtype == kind
            assert model(X).dtype == kind
    with pytest.raises(torch._dynamo.exc.Unsupported, match="<function assign at"):
        torch.compile(assigned, backend="eager", fullgraph=True)(X, rules)
