"""Where the dispatcher finds the operators on XLA, and what they refuse."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.process import python
from tests.support.xla import xla

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_the_dispatcher_finds_the_kernels(mode: Callable[[], Any]) -> None:
    grads, found_inf, inv_scale = [torch.ones(2, device=xla())], torch.zeros((), device=xla()), torch.tensor(0.5)
    with mode():
        non_finite = torch.ops.polycast.unscale_(grads, found_inf, inv_scale.to(xla()))
        assert torch.ops.polycast.find_non_finite(grads)[0].item() == 0
    assert (grads[0].tolist(), non_finite.tolist()) == ([0.5, 0.5], [False])


ORDERS = ["import torch_xla, polycast", "import polycast, torch_xla"]


@pytest.mark.parametrize("imports", ORDERS)
@pytest.mark.parametrize("switch", ["0", "1"])
def test_they_are_registered_in_either_order_of_imports(imports: str, switch: str) -> None:
    code = f"""
import torch
{imports}
polycast.GradScaler  # which has the operators registered
x = torch.ones(2).to("xla")
print(*torch.ops.polycast.norm([x, x], 1.0))
"""
    assert "tensor(4., device='xla:0')" in python(code + "import torch_xla", POLYCAST_INSTALL=switch)


def test_nothing_loads_torch_xla() -> None:
    assert python("import sys, polycast; print('torch_xla' in sys.modules)") == "False\n"


def test_fake_tensors_pass_through() -> None:
    with FakeTensorMode(), torch.no_grad():
        param = torch.ones(2, device="xla")
        torch.ops.polycast.unscale_([param], torch.zeros((), device="xla"), torch.ones((), device="xla"))
        assert torch.ops.polycast.find_non_finite([param])[1].shape == (1,)


def wrong(name: str) -> dict[str, Any]:
    """Return the arguments of a step of which one is wrong."""
    params, grads, momentum = [[torch.ones(2, device=xla())] for _ in range(3)]
    arguments: dict[str, Any] = {"lr": torch.tensor(0.1), "found_inf": torch.zeros((), device=xla())}
    wrongs: dict[str, dict[str, Any]] = {
        "two elements": {"found_inf": torch.zeros(2, device=xla())},
        "whole number": {"found_inf": torch.zeros((), device=xla(), dtype=torch.int32)},
        "host": {"found_inf": torch.zeros(())},
        "scale": {"grad_scale": torch.ones(())},
    }
    lists = {"sizes": (params, [torch.ones(3, device=xla())], momentum), "state": (params, grads, [torch.ones(2)])}
    return {"lists": lists.get(name, (params, grads, momentum))} | arguments | wrongs.get(name, {})


def test_norm_takes_a_positive_number() -> None:
    with pytest.raises(ValueError, match=r"norm: norm_type is -1.0; it takes a positive number, or infinity"):
        torch.ops.polycast.norm([torch.ones(1, device=xla())], -1.0)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("two elements", ValueError, "found_inf has 2 elements"),
        ("whole number", TypeError, "found_inf is of torch.int32"),
        ("host", RuntimeError, "found_inf is on cpu"),
        ("scale", RuntimeError, "grad_scale is on cpu"),
        ("sizes", ValueError, "grads\\[0\\] has the sizes"),
        ("state", RuntimeError, "momentum_buffers\\[0\\] is on cpu"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(name: str, error: type[Exception], text: str) -> None:
    arguments = wrong(name)
    params, grads, momentum = arguments.pop("lists")
    options = {"weight_decay": 0.0, "momentum": 0.9, "nesterov": False, "maximize": False}
    with pytest.raises(error, match=text):
        torch.ops.polycast.sgd_step_(params, grads, momentum, **options, **arguments)
    assert (params[0].tolist(), params[0]._version) == ([1.0, 1.0], 0)
