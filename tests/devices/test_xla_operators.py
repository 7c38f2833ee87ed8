"""polycast's operators on XLA: registrations, errors, in-place writes, and compiled programs."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.devices import NEEDS_XLA
from tests.support.process import python
from tests.support.recorded_errors import RecordedError

pytestmark = NEEDS_XLA


@pytest.fixture(scope="module")
def printed_and_programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """Return the output of a process that imports ``torch_xla`` last, and the programs that XLA compiles for it."""
    code = """
import sys, torch, polycast
print("torch_xla" in sys.modules)
import torch_xla
polycast.GradScaler  # This registers the operators.
lists = [[torch.rand(3, 3).to("xla") for _ in range(4)] for _ in range(4)]
steps = [torch.zeros(()).to("xla") for _ in range(4)]
options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
torch_xla.sync(wait=True)
torch.ops.polycast.adam_step_(*lists, [], steps, lr=0.1, decoupled_weight_decay=False, **options)
torch_xla.sync(wait=True)
print(steps[0].item())
"""
    folder = tmp_path_factory.mktemp("programs")
    printed = python(code, XLA_FLAGS=f"--xla_dump_to={folder} --xla_dump_hlo_as_text", POLYCAST_INSTALL="1")
    return printed, [path.read_text() for path in folder.glob("*cpu_after_optimizations.txt")]


def test_torch_xla_can_be_imported_after_polycast_which_does_not_load_it(
    printed_and_programs: tuple[str, list[str]],
) -> None:
    """Importing polycast does not load ``torch_xla``, which can be imported later. SPMD tests use the other order."""
    assert printed_and_programs[0] == "False\n1.0\n"


def test_every_result_uses_the_buffer_of_its_input(printed_and_programs: tuple[str, list[str]]) -> None:
    """A compiled step writes its results to the buffers of its inputs. Otherwise, XLA would copy every tensor twice."""
    (program,) = [text for text in printed_and_programs[1] if "f32[3,3]" in text]
    assert program.count("may-alias") == 16
    assert " = f32[3,3]{1,0} copy(" not in program


def test_the_dispatcher_finds_the_kernels_in_grad_mode() -> None:
    grads, found_inf, inv_scale = [torch.ones(2, device="xla")], torch.zeros((), device="xla"), torch.tensor(0.5)
    non_finite = torch.ops.polycast.unscale_(grads, found_inf, inv_scale.to("xla"))
    assert torch.ops.polycast.find_non_finite(grads)[0].item() == 0
    assert (grads[0].tolist(), non_finite.tolist()) == ([0.5, 0.5], [False])


def test_operators_that_write_raise_for_fake_tensors() -> None:
    with FakeTensorMode(), torch.no_grad():
        param = torch.ones(2, device="xla")
        assert torch.ops.polycast.find_non_finite([param])[1].shape == (1,)
        with pytest.raises(RuntimeError):
            torch.ops.polycast.unscale_([param], torch.zeros((), device="xla"), torch.ones((), device="xla"))


def zeros(*shape: int, device: str = "xla", dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype).to(device)


# Each function returns a wrong argument for `sgd_step_`.
WRONG: dict[str, Callable[[], dict[str, Any]]] = {
    "two elements for found_inf": lambda: {"found_inf": zeros(2)},
    "an integer for found_inf": lambda: {"found_inf": zeros(dtype=torch.int32)},
    "found_inf on the CPU": lambda: {"found_inf": zeros(device="cpu")},
    "grad_scale on the CPU": lambda: {"grad_scale": zeros(device="cpu")},
    "gradients of other sizes": lambda: {"grads": [zeros(3)]},
    "state on the CPU": lambda: {"momentum_buffers": [zeros(2, device="cpu")]},
}


@pytest.mark.parametrize("title", WRONG)
def test_invalid_input_raises_before_any_write(title: str, recorded_error: RecordedError) -> None:
    param = torch.ones(2, device="xla")
    options = {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.9, "nesterov": False, "maximize": False}
    given = {"params": [param], "grads": [zeros(2)], "momentum_buffers": [zeros(2)], **options}
    with recorded_error():
        torch.ops.polycast.sgd_step_(**{**given, **WRONG[title]()})
    assert (param.tolist(), param._version) == ([1.0, 1.0], 0)


ALIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda param: param.detach(),
    "row": lambda param: param.detach()[1],
    "turned": lambda param: param.detach().t(),
    "base": lambda param: param._base,  # type: ignore[dict-item, return-value]
}


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_sees_the_update(alias: str) -> None:
    param = torch.zeros(1, 4, 3, device="xla")[0].requires_grad_()
    other, optimizer = ALIASES[alias](param), syncfree.SGD([param], lr=1.0)
    for count in (1, 2):
        param.grad = torch.ones_like(param)
        optimizer.step()
        assert {*other.detach().cpu().flatten().tolist()} == {-float(count)}


def test_computations_and_constants_of_many_groups_are_created_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from polycast.xla import computation
    from torch_xla.core import xla_builder

    created = mock.Mock(wraps=xla_builder.create_computation)
    monkeypatch.setattr(computation, "_computations", {})
    monkeypatch.setattr(xla_builder, "create_computation", created)
    tensors, device = [torch.empty(size, device="xla") for size in range(1, 601)], torch.device("cpu")
    for _ in range(3):
        for tensor in tensors:
            computation.call("rule", lambda ops: ops, [tensor])
    assert created.call_count == 600
    first, again = ([computation.upload((float(number),), device, number) for number in range(600)] for _ in "12")
    assert all(left is right for left, right in zip(first, again, strict=True))
