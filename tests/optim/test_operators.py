"""The operators in torch's own checks, on tensors without memory, and on each instruction set."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.optimizers import OPERATORS, OURS, PATHS, Kernels, make
from tests.support.process import python

COMMON = {"weight_decay": 0.1, "maximize": False}
ADAM = {**COMMON, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decoupled_weight_decay": True}
SGD = {**COMMON, "momentum": 0.9, "nesterov": False}


def arguments(name: str, device: str = "cpu") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return fresh arguments of an operator."""

    def ones() -> list[Tensor]:
        shapes: list[tuple[int, ...]] = [(3, 2), (), (4,)]
        return [torch.ones(shape, device=device) for shape in shapes]

    def one(dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.ones((), dtype=dtype, device=device)

    counters = [one() for _ in ones()]
    scalars = {"lr": torch.tensor(0.1), "found_inf": one() * 0, "grad_scale": one() * 2, "clip_coef": one() / 2}
    table: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "find_non_finite": ((ones(),), {}),
        "norm": ((ones(), 2.0), {}),
        "unscale_": ((ones(), one() * 0, one() / 2), {}),
        "update_scale_": ((one(), one(torch.int32), one() * 0, 2.0, 0.5, 2, 1e-3, 65536.0), {}),
        "adam_step_": ((ones(), ones(), ones(), ones(), ones(), counters), {**ADAM, **scalars}),
        "sgd_step_": ((ones(), ones(), ones()), {**SGD, **scalars}),
    }
    return table[name]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_passes_torchs_checks(name: str) -> None:
    args, kwargs = arguments(name)
    results = torch.library.opcheck(getattr(torch.ops.polycast, name).default, args, kwargs)
    assert set(results.values()) == {"SUCCESS"}


class NoReads(TorchDispatchMode):
    """Raises where the host syncs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "item", "is_nonzero", "equal"), f"{name} reads back"
        return func(*args, **(kwargs or {}))


@contextmanager
def without_memory(device: str) -> Iterator[None]:
    """Make tensors of a device creatable that is not here, none of which can be read."""
    if device == "meta":
        yield
    else:
        with FakeTensorMode(allow_non_fake_inputs=True):
            yield


FOUND, WHICH = ((), torch.float32), ((3,), torch.float32)


@pytest.mark.parametrize("device", ["meta", "mtia:0"])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_on_tensors_without_memory_reads_nothing(name: str, device: str) -> None:
    with without_memory(device):
        args, kwargs = arguments(name, device)
        kwargs.pop("lr", None)
        lr = {"lr": torch.ones((), device=device)} if "step" in name else {}
        with NoReads():  # type: ignore[no-untyped-call]
            results = getattr(torch.ops.polycast, name)(*args, **kwargs, **lr)
        found = [results] if isinstance(results, Tensor) else list(results or ())
        wanted = {"find_non_finite": [FOUND, WHICH], "norm": [FOUND, FOUND, WHICH], "unscale_": [WHICH]}.get(name, [])
        assert [(tuple(item.shape), item.dtype) for item in found] == wanted
        assert {item.device for item in found} <= {torch.device(device)}


@pytest.mark.parametrize("device", ["meta", "cuda:0"])
@pytest.mark.parametrize("kind", ["SGD nesterov", "AdamW amsgrad maximize"])
def test_a_step_on_tensors_without_memory_reads_nothing(kind: str, device: str) -> None:
    with without_memory(device):
        params = [torch.ones(3, 2, device=device), torch.ones(4, device=device)]
        optimizer: Any = make(OURS, kind, params)
        for scalars in ({}, {"found_inf": torch.ones((), device=device), "grad_scale": torch.ones((), device=device)}):
            for param in params:
                param.grad = torch.ones_like(param)
            versions = [param._version for param in params]
            with NoReads():  # type: ignore[no-untyped-call]
                optimizer.step(**scalars)
            optimizer.param_groups[0]["lr"] = torch.ones((), device=device)
            assert all(param._version > version for param, version in zip(params, versions, strict=True))
        state = [value for values in optimizer.state.values() for value in values.values()]
        assert {value.device for value in state} <= {torch.device(device)}


def results() -> list[list[float]]:
    """Return what a few calls of each operator compute."""
    torch.manual_seed(0)
    rows = []
    for kind, options in (("SGD", {"momentum": 0.9, "weight_decay": 0.01}), ("AdamW", {"amsgrad": True})):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            params = [torch.randn(size).to(dtype).requires_grad_() for size in (1, 17, 1100)]
            state_dtype = torch.float32 if dtype is torch.float16 else None
            optimizer = OURS[kind](params, lr=0.1, **options, state_dtype=state_dtype)
            for _ in range(5):
                for param in params:
                    param.grad = torch.randn(param.shape).to(dtype)
                optimizer.step(grad_scale=torch.tensor(3.0))
            rows.append([param.double().sum().item() for param in params])
    grads = [torch.randn(size) for size in (1, 17, 1100, 40_000)]
    rows.append([torch.ops.polycast.norm(grads, norm_type)[0].item() for norm_type in (1.0, 2.0, 3.0, float("inf"))])
    bad = [torch.where(torch.arange(40) == place, float("inf"), 1.0) for place in range(41)]
    rows.append(torch.ops.polycast.find_non_finite(bad)[1].tolist())
    torch.ops.polycast.unscale_(grads, torch.zeros(()), torch.tensor(0.3))
    return [*rows, [grad.double().sum().item() for grad in grads]]


@pytest.mark.parametrize("capability", [pytest.param("DEFAULT", marks=pytest.mark.slow), "AVX2"])
def test_an_older_instruction_set_computes_the_same(capability: str) -> None:
    code = "import torch\nfrom tests.optim.test_operators import results\nprint(results())\n"
    code += "print(torch.backends.cpu.get_cpu_capability())"
    found, name = python(code, ATEN_CPU_CAPABILITY=capability.lower()).splitlines()
    assert name == capability
    for found_row, wanted_row in zip(ast.literal_eval(found), results(), strict=True):
        assert found_row == pytest.approx(wanted_row, rel=2e-3, abs=2e-3)


UPDATES: dict[str, tuple[float, int, float, float]] = {
    # scale, tracker, found_inf -> scale; the tracker starts again
    "grows": (8.0, 1, 0.0, 16.0),
    "backs off from a NaN": (8.0, 1, float("nan"), 4.0),
    "backs off to the floor": (1.5, 1, 1.0, 1.0),
    "grows to the ceiling": (40_000.0, 1, 0.0, 65536.0),
}


@pytest.mark.parametrize("case", UPDATES)
def test_the_scale_follows_its_rule(case: str, operators: Kernels) -> None:
    scale, tracker, found_inf, new_scale = UPDATES[case]
    device = operators.device
    tensors = torch.tensor(scale, device=device), torch.tensor(tracker, dtype=torch.int32, device=device)
    versions = [tensor._version for tensor in tensors]
    torch.ops.polycast.update_scale_(*tensors, torch.tensor(found_inf, device=device), 2.0, 0.5, 2, 1.0, 65536.0)
    assert (tensors[0].item(), tensors[1].item()) == (new_scale, 0)
    assert all(tensor._version > version for tensor, version in zip(tensors, versions, strict=True))


@pytest.mark.parametrize("first", [8.0, 3e38])
def test_the_scale_is_torchs_where_it_would_be_infinite_and_where_the_interval_is_lowered(
    first: float, operators: Kernels
) -> None:
    def states(update: Callable[..., object], device: str, *bounds: float) -> list[tuple[float, int]]:
        scale, tracker = torch.tensor(first, device=device), torch.tensor(0, dtype=torch.int32, device=device)
        seen = []
        for found, interval in ((0, 5), (0, 5), (0, 5), (0, 2), (0, 2), (1, 2), (0, 2), (0, 2)):
            update(scale, tracker, torch.tensor(float(found), device=device), 2.0, 0.5, interval, *bounds)
            seen.append((scale.item(), int(tracker.item())))
        return seen

    ours = states(torch.ops.polycast.update_scale_, operators.device, 0.0, float("inf"))
    assert ours == states(torch._amp_update_scale_, "cpu")


@pytest.mark.parametrize("name", OPERATORS)
def test_the_composition_is_another_kernel(name: str) -> None:
    """What the other tests call the composition calls ATen ops, and the fused kernel does not."""
    called = {}
    for path in ("fused", "composition"):
        args, kwargs = arguments(name)
        with PATHS[path](), torch.autograd.profiler.profile() as profile:  # type: ignore[no-untyped-call]
            getattr(torch.ops.polycast, name)(*args, **kwargs)
        names = [event.name for event in profile.function_events]
        called[path] = [name for name in names if name.startswith(("aten::_fused", "aten::_foreach", "aten::_amp"))]
    assert called["composition"] and not called["fused"]
