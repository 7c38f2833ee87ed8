"""Transforms, modes, tracers and compilers run over regions, get right results and leave nothing in the cast cache."""

from collections.abc import Callable, Iterator

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from tests.cast_cache.stock import held, stock


@pytest.fixture(autouse=True)
def empty(one_thread: None) -> Iterator[None]:  # noqa: ARG001
    """End with nothing kept."""
    yield
    assert held() == (0, 0)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2)).eval()


X = torch.rand(5, 3, 8, 8)


def in_region(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with polycast.autocast("cpu"):
        module(x)
        return module(x).float()


def mapped(module: nn.Module) -> Tensor:
    result: Tensor = vmap(lambda x: in_region(module, x[None])[0], randomness="error")(X)
    return result


def differentiated(module: nn.Module) -> Tensor:
    weights = {name: parameter.detach() for name, parameter in module.named_parameters()}
    result: Tensor = grad(lambda weights: in_region(lambda x: functional_call(module, weights, (x,)), X).sum())(
        weights
    )["3.weight"]
    return result


def expected_gradient(module: nn.Module) -> Tensor:
    with polycast.autocast("cpu", cache_enabled=False):
        out = module(X).float()
    (gradient,) = torch.autograd.grad(out.sum(), module.get_parameter("3.weight"))
    return gradient


def differentiated_inputs(module: nn.Module) -> Tensor:
    """The weights are plain tensors inside of the transform."""
    result: Tensor = vmap(grad(lambda x: in_region(module, x[None]).sum()))(X)
    return result


def expected_input_gradient(module: nn.Module) -> Tensor:
    x = X.clone().requires_grad_()
    with polycast.autocast("cpu", cache_enabled=False):
        out = module(x).float()
    (gradient,) = torch.autograd.grad(out.sum(), x)
    return gradient


def forward_mode(module: nn.Module) -> Tensor:
    result: Tensor = jvp(lambda x: in_region(module, x), (X,), (torch.ones_like(X),))[0]
    return result


def compiled(module: nn.Module) -> Tensor:
    torch.compiler.reset()
    result: Tensor = torch.compile(lambda x: in_region(module, x), backend="aot_eager", fullgraph=True)(X)
    return result


def compiled_inside(module: nn.Module) -> Tensor:
    torch.compiler.reset()
    return in_region(torch.compile(module, backend="aot_eager", fullgraph=True), X)


def traced_to_graph(module: nn.Module) -> Tensor:
    result: Tensor = make_fx(lambda x: in_region(module, x))(X)(X)
    return result


def eager(module: nn.Module, x: Tensor = X) -> Tensor:
    with torch.no_grad(), polycast.autocast("cpu", cache_enabled=False):
        out: Tensor = module(x).float()
        return out


# Forward mode loads decompositions that newer releases of torch warn of.
@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("around", [False, True], ids=["alone", "inside a region that caches"])
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (mapped, eager),
        (differentiated, expected_gradient),
        (differentiated_inputs, expected_input_gradient),
        (forward_mode, eager),
        (compiled, eager),
        (compiled_inside, eager),
        (traced_to_graph, eager),
    ],
)
def test_results_are_right(
    run: Callable[[nn.Module], Tensor], expected: Callable[[nn.Module], Tensor], around: bool, kept: bool
) -> None:
    module = model()
    if kept:
        cast_cache.keep(module)
    wanted = expected(module)
    with polycast.autocast("cpu", enabled=around):
        in_region(module, X)
        found = run(module)
        in_region(module, X)
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
    assert torch.equal(in_region(module, X), eager(module))
    cast_cache.release(module)


def test_fake_tensors_are_not_stored() -> None:
    module = model()
    cast_cache.keep(module)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, polycast.autocast("cpu"):
        module(mode.from_tensor(X))
    assert held() == (0, 0)
    assert torch.equal(in_region(module, X), eager(module))
    cast_cache.release(module)


def freeze(module: nn.Module, region: torch.autocast) -> Callable[[Tensor], Tensor]:
    """The snippet of the XPU document, "Inference with TorchScript Path"."""
    with region:
        module(X)  # a cast that could become a constant of the graph
        traced = torch.jit.trace(module, X)  # type: ignore[no-untyped-call]
        frozen: Callable[[Tensor], Tensor] = torch.jit.freeze(traced)
        return frozen


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
def test_a_traced_and_frozen_model_equals_eager(kept: bool) -> None:
    module = model()
    assert all(parameter.requires_grad for parameter in module.parameters())
    if kept:
        cast_cache.keep(module)
    frozen = freeze(module, polycast.autocast("cpu"))
    with torch.no_grad(), polycast.autocast("cpu"):
        assert torch.equal(frozen(X).float(), eager(module))
    cast_cache.release(module)


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_stock_cannot_trace_it() -> None:
    with stock(), pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        freeze(model(), torch.autocast("cpu", torch.bfloat16))


# The compiler says of the profiler's function and of ours that they run outside of the graph; newer releases of torch
# warn of what they themselves import for it.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("fused", [False, True])
def test_a_compiled_step_is_seen(fused: bool) -> None:
    torch.compiler.reset()
    layer, x = nn.Linear(4, 4), torch.rand(2, 4)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.5, fused=fused)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    cast_cache.keep(layer)
    step = torch.compile(optimizer.step, backend="aot_eager")
    for _ in range(3):
        with torch.no_grad():
            old = in_region(layer, x)
            step()
            new = in_region(layer, x)
        assert torch.equal(new, eager(layer, x)) and not torch.equal(new, old)
    cast_cache.release(layer)
