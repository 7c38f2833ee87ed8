"""Programs of many kinds: ``trace`` and ``watch`` do not change their results, and ``compare`` accepts them."""

import copy
import io
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.support.devices import required, seed

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated", "ignore:The PyTorch API of nested")

X = torch.linspace(-1, 1, 32).reshape(4, 8)


@torch.library.custom_op("polycast_tracing::noise", mutates_args=())
def noise(x: Tensor) -> Tensor:
    return x + torch.rand_like(x)


@torch.library.custom_op("polycast_tracing::only_lower", mutates_args=())
def only_lower(x: Tensor) -> Tensor:
    assert x.dtype is torch.get_autocast_dtype(x.device.type)
    return x * 2


def sparse(model: nn.Module, _: Tensor) -> Tensor:
    embedding = nn.Embedding(4, 8, sparse=True)
    model(embedding(torch.tensor([1, 2]))).sum().backward()
    return embedding.weight.grad.to_dense()  # type: ignore[union-attr]


def conditional(model: nn.Module, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 100, lambda y: y + 1, lambda y: y - 1, (model(x).detach(),))  # type: ignore[no-any-return]


PROGRAMS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "forward-mode derivatives": lambda model, x: torch.func.jvp(model, (x,), (x,)),
    "reverse-mode derivatives": lambda model, x: torch.func.jacrev(next(model.children()))(x[0]),
    "per-sample": lambda model, x: torch.func.vmap(model)(x),
    "sparse gradients": sparse,
    "a custom operator with random numbers": lambda model, x: noise(model(x).detach()),
    "a custom operator of one dtype": lambda model, x: only_lower(model(x).detach()),
    "checkpointing": lambda model, x: checkpoint(model, x, use_reentrant=False),
    "a copy": lambda model, x: copy.deepcopy(model)(x),
    "meta tensors": lambda _, x: torch.mm(x.to("meta"), x.T.to("meta")).shape,
    "nested tensors": lambda model, x: model(torch.nested.nested_tensor([x[:1], x[1:]], layout=torch.jagged)).values(),
    "strided nested tensors": lambda model, x: torch.nested.nested_tensor([model(x)]).to_padded_tensor(0),
    "a scripted module": lambda _, x: torch.jit.script(nn.Linear(8, 2))(x).shape,
    "a branch": conditional,
    "complex numbers": lambda model, x: torch.fft.rfft(model(x).float()).abs(),
    "a region of another dtype": lambda model, x: run_in_float16(model, x),
    "a layer that runs other code with hooks": lambda _, x: fast_path(x[None]),
}


def run_in_float16(model: nn.Module, x: Tensor) -> Tensor:
    with polycast.autocast(x.device, torch.float16):
        return model(x)  # type: ignore[no-any-return]


def fast_path(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()(x)  # type: ignore[no-any-return]


def make() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8))


# Only these programs run on XLA, because XLA takes seconds to compile each program. In addition, `torch_xla` cannot run
# some of the other programs under a dispatch mode.
ON_XLA = ("per-sample", "a custom operator with random numbers", "checkpointing", "a region of another dtype")


def result(device: str, name: str, around: Callable[[nn.Module], AbstractContextManager[Any]]) -> Any:
    seed(device)
    torch._dynamo.reset()  # Since PyTorch 2.11, `torch.cond` raises after a run under a dispatch mode.
    with torch.device(device):
        model = make()
        with around(model), polycast.autocast(device):
            found = PROGRAMS[name](model, X.to(device))
        return found, torch.rand(1)


@pytest.mark.parametrize("around", [polycast.debug.trace, polycast.debug.watch])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_results(
    name: str, around: Callable[[nn.Module], AbstractContextManager[Any]], real_device: str, capfd: Any
) -> None:
    if real_device == "xla" and name not in ON_XLA:
        pytest.skip("XLA takes seconds to compile it, or torch_xla does not run it")
    with required(real_device):
        plain = result(real_device, name, lambda _: nullcontext())
    torch.testing.assert_close(result(real_device, name, around), plain, rtol=0, atol=0)
    assert "RecordFunction" not in capfd.readouterr().err  # PyTorch prints the errors of a recorder.


# The excluded program has an operator that rejects the inputs of the reference run.
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "a custom operator of one dtype"])
def test_a_program_can_be_compared(name: str) -> None:
    model = make()
    comparison = polycast.debug.compare(polycast.autocast("cpu")(lambda: PROGRAMS[name](model, X)), model)
    assert comparison.missing == 0 and len(comparison.worst()) == len(comparison)
    assert bool(comparison) == (name != "meta tensors")  # Meta tensors have no values.


def test_a_scripted_part_does_not_stop_a_trace() -> None:
    model = nn.Sequential(nn.Linear(8, 8), torch.jit.script(nn.Linear(8, 8)))
    for _ in range(2):
        with polycast.debug.trace(model) as t, polycast.autocast("cpu"):
            model(X)
    assert sum(call.site.op == "linear" for call in t.calls) == 2


def add_noise(x: Tensor) -> Tensor:
    return torch.relu(x) + torch.ops.polycast_tracing.noise(x)  # type: ignore[no-any-return]


def test_a_boxed_call_of_scripted_code_lists_only_its_own_tensors() -> None:
    """A boxed call lists only the tensors of its op, although its stack also contains the result of ``relu``."""
    set_autocast_mode: Any = getattr(torch._C, "_jit_set_autocast_mode")  # noqa: B009
    inserts_casts = set_autocast_mode(False)
    try:
        scripted = torch.jit.script(add_noise)
        with polycast.debug.trace() as t, polycast.autocast("cpu"):
            for _ in range(3):
                scripted(X)
    finally:
        set_autocast_mode(inserts_casts)
    found = [call.given for call in t.calls if call.op == "polycast_tracing::noise"]
    assert found == [(torch.float32,)] * 3


def test_models_can_be_saved_inside_and_copied_afterwards() -> None:
    model = make()
    with polycast.debug.watch(model):
        copied = copy.deepcopy(model)
        torch.save(model, io.BytesIO())
    torch.save(copied, io.BytesIO())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in copied.modules())
