"""Transforms, tracers and compilers of code with regions: results are correct, and no cast remains in the cache."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from tests.cast_cache.stock import is_kept

pytestmark = pytest.mark.usefixtures("one_thread")
X = torch.rand(5, 3, 8, 8)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2)).eval()


def in_region(module: Callable[[Tensor], Tensor], x: Tensor = X) -> Tensor:
    with polycast.autocast("cpu"):
        module(x)
        return module(x).float()


def eager(module: nn.Module, x: Tensor = X) -> Tensor:
    with torch.no_grad(), polycast.autocast("cpu", cache_enabled=False):
        out: Tensor = module(x).float()
        return out


def gradient(module: nn.Module, name: str) -> Tensor:
    """Return the gradient of a parameter, or of the input if the name is empty."""
    x = X.clone().requires_grad_()
    with polycast.autocast("cpu", cache_enabled=False):
        out = module(x).float()
    return torch.autograd.grad(out.sum(), module.get_parameter(name) if name else x)[0]


def differentiated(module: nn.Module) -> Any:
    weights = {name: parameter.detach() for name, parameter in module.named_parameters()}
    return grad(lambda weights: in_region(lambda x: functional_call(module, weights, (x,))).sum())(weights)["3.weight"]


def compiled(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    torch.compiler.reset()
    return torch.compile(call, backend="aot_eager", fullgraph=True)


def frozen(module: nn.Module) -> Tensor:
    """Run the snippet "Inference with TorchScript Path" of Intel's document "Auto Mixed Precision (AMP) on GPU"."""
    with polycast.autocast("cpu"):
        module(X)  # The frozen graph must not contain this cast as a constant.
        traced = torch.jit.freeze(torch.jit.trace(module, X))  # type: ignore[no-untyped-call]
    with torch.no_grad(), polycast.autocast("cpu"):
        result: Tensor = traced(X).float()
        return result


# The first function of a pair transforms or compiles a module. The second function returns the expected values.
RUNS: dict[str, tuple[Callable[[nn.Module], Any], Callable[[nn.Module], Tensor]]] = {
    "vmap": (lambda module: vmap(lambda x: in_region(module, x[None])[0], randomness="error")(X), eager),
    "grad": (differentiated, lambda module: gradient(module, "3.weight")),
    "vmap of grad, over plain weights": (
        lambda module: vmap(grad(lambda x: in_region(module, x[None]).sum()))(X),
        lambda module: gradient(module, ""),
    ),
    "jvp": (lambda module: jvp(lambda x: in_region(module, x), (X,), (torch.ones_like(X),))[0], eager),
    "compiled": (lambda module: compiled(lambda x: in_region(module, x))(X), eager),
    "compiled inside": (lambda module: in_region(compiled(module)), eager),
    "make_fx": (lambda module: make_fx(lambda x: in_region(module, x))(X)(X), eager),
    "traced and frozen": (frozen, eager),
}


# Newer PyTorch releases warn about `torch.jit`, which `frozen` and forward-mode AD use.
@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("kept", [False, True], ids=["alone", "kept, inside a region that caches"])
@pytest.mark.parametrize("name", RUNS)
def test_transforms_tracers_and_compilers_match_eager_code(name: str, kept: bool) -> None:
    run, expected = RUNS[name]
    module = model()
    with cast_cache.keep(module) if kept else nullcontext():
        wanted = expected(module)
        with polycast.autocast("cpu", enabled=kept):
            in_region(module)
            found = run(module)
            in_region(module)
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
        assert torch.equal(in_region(module), eager(module))
    assert not is_kept(module.get_parameter("3.weight"))


# The compiler warns that the profiler's function and polycast's hook run outside of the graph. Newer PyTorch releases
# also import deprecated modules.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("fused", [False, True])
def test_weights_are_cast_again_after_a_compiled_optimizer_step(fused: bool) -> None:
    torch.compiler.reset()
    layer, x = nn.Linear(4, 4), torch.rand(2, 4)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.5, fused=fused)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    step = torch.compile(optimizer.step, backend="aot_eager")
    with cast_cache.keep(layer), torch.no_grad():
        for _ in range(3):
            old = in_region(layer, x)
            step()
            new = in_region(layer, x)
            assert torch.equal(new, eager(layer, x)) and not torch.equal(new, old)
