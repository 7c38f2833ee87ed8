"""polycast's operators for steps and scalers: PyTorch's checks, fake tensors, and older instruction sets."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.devices import has_float64
from tests.support.optimizers import OPERATORS, Kernels, composition
from tests.support.process import python

COMMON = {"weight_decay": 0.1, "maximize": False}
ADAM = {**COMMON, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decoupled_weight_decay": True}
SGD = {**COMMON, "momentum": 0.9, "nesterov": False}
NAN, INF = float("nan"), float("inf")
OP = torch.ops.polycast


def arguments(name: str, device: str = "cpu") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return new arguments for an operator."""

    def ones() -> list[Tensor]:
        return [torch.ones(shape, device=device) for shape in ((3, 2), (), (4,))]

    def one(dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.ones((), dtype=dtype, device=device)

    scalars = {"lr": 0.0, "lr_tensor": one(), "found_inf": one() * 0, "grad_scale": one() * 2, "clip_coef": one() / 2}
    table: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "find_non_finite": ((ones(),), {}),
        "norm": ((ones(), False), {}),
        "unscale_": ((ones(), one() * 0, one() / 2), {}),
        "update_scale_": ((one(), one(torch.int32), one() * 0, 2.0, 0.5, 2, 1e-3, 65536.0), {}),
        "adam_step_": ((ones(), ones(), ones(), ones(), ones(), [one() for _ in ones()]), {**ADAM, **scalars}),
        "sgd_step_": ((ones(), ones(), ones()), {**SGD, **scalars}),
    }
    return table[name]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_passes_pytorchs_checks(name: str) -> None:
    args, kwargs = arguments(name)
    results = torch.library.opcheck(getattr(OP, name).default, args, kwargs)
    assert set(results.values()) == {"SUCCESS"}


FOUND, WHICH = ((), torch.float32), ((3,), torch.float32)
RESULTS = {"find_non_finite": [FOUND, WHICH], "norm": [FOUND, FOUND, WHICH], "unscale_": [WHICH]}


@pytest.mark.parametrize("device", ["meta", "mtia:0"])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_on_fake_tensors_reads_no_values(name: str, device: str) -> None:
    with nullcontext() if device == "meta" else FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = arguments(name, device)
        written = args[0] if name.endswith("step_") else []
        versions = [tensor._version for tensor in written]
        results = getattr(OP, name)(*args, **kwargs)
        found = [results] if isinstance(results, Tensor) else list(results or ())
        assert [(tuple(item.shape), item.dtype) for item in found] == RESULTS.get(name, [])
        assert {item.device for item in found} <= {torch.device(device)}
        assert all(tensor._version > version for tensor, version in zip(written, versions, strict=True))


@pytest.mark.parametrize("name", ["adam_step_", "sgd_step_", "unscale_"])
def test_leaves_that_require_grad_are_written_in_grad_mode(name: str) -> None:
    """Autograd does not record the write, because the autograd keys fall through to the kernel."""
    (params, *args), kwargs = arguments(name)
    for param in params:
        param.requires_grad_()
    saved = torch.stack([(param * param).sum() for param in params]).sum()
    with composition():
        getattr(OP, name)(params, *args, **kwargs)
    assert all(param.is_leaf and param.requires_grad for param in params)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["adam_step_", "sgd_step_"])
def test_gradients_of_another_dtype_match_gradients_of_the_parameters_dtype(
    name: str, dtype: torch.dtype, kernels: Kernels
) -> None:
    """PyTorch allows a gradient of another dtype only if the parameter's ``grad_dtype`` allows it."""
    if dtype is torch.float64 and not has_float64(kernels.device):
        pytest.skip(f"{kernels} has no float64")
    results = []
    for given in (dtype, torch.float32):
        (params, grads, *state), options = arguments(name, kernels.device)
        getattr(OP, name)(params, [(grad / 3).to(dtype).to(given) for grad in grads], *state, **options)
        results.append([params, state])
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("capability", [pytest.param("DEFAULT", marks=pytest.mark.slow), "AVX2"])
def test_an_older_instruction_set_computes_the_same(capability: str) -> None:
    """A new process, limited to the instruction set, runs the tests of steps, non-finite values and norms."""
    code = f"""
import pytest, torch
assert torch.backends.cpu.get_cpu_capability() == "{capability}"
files = ["tests/optim/test_accuracy.py", "tests/scaler/test_kernels.py"]
raise SystemExit(pytest.main(["-qq", "-p", "no:cacheprovider", "-k", "fused", *files]))
"""
    python(code, ATEN_CPU_CAPABILITY=capability.lower(), USE_TORCH_XLA="0")


@pytest.mark.parametrize(
    ("first", "lowest", "highest"), [(8.0, 0.0, INF), (3e38, 0.0, INF), (1.5, 1.0, 65536.0), (4e4, 1.0, 65536.0)]
)
def test_the_scale_matches_pytorchs_within_its_bounds(
    first: float, lowest: float, highest: float, operators: Kernels
) -> None:
    """``update_scale_`` also matches if the scale would become infinite, or if ``growth_interval`` decreases."""

    def stock(scale: Tensor, *arguments: Any) -> None:
        torch._amp_update_scale_(scale, *arguments[:-2])
        scale.clamp_(lowest, highest)

    def states(update: Callable[..., object], device: str) -> list[tuple[float, int]]:
        scale, tracker = torch.tensor(first, device=device), torch.tensor(0, dtype=torch.int32, device=device)
        seen = []
        for found, interval in ((0, 5), (0, 5), (0, 5), (0, 2), (0, 2), (1, 2), (0, 2), (0, 2), (NAN, 2), (INF, 2)):
            update(scale, tracker, torch.tensor(float(found), device=device), 2.0, 0.5, interval, lowest, highest)
            seen.append((scale.item(), int(tracker.item())))
        return seen

    assert states(OP.update_scale_, operators.device) == states(stock, "cpu")
