"""Installing and uninstalling: what the dispatcher holds, and what a user sees of it."""

from collections.abc import Callable
from types import ModuleType

import polycast
import pytest
import torch

from tests.support.probe import HAS_XLA, NO_XLA, kernels_of, stock_kernels
from tests.support.process import python
from tests.support.recorded_errors import RecordedError

needs_xla = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)


def active(op: str, key: str) -> str:
    """Return the dispatcher's line for the kernel in force."""
    (line,) = [line for line in torch._C._dispatch_dump(f"aten::{op}").splitlines() if line.startswith(f"{key}:")]
    return line


def test_what_was_replaced_by_others_since_stays() -> None:
    code = """
import polycast, torch.utils.checkpoint as checkpoint
others = staticmethod(lambda *args: None)
checkpoint.CheckpointFunction.forward = others
polycast.uninstall()
print(vars(checkpoint.CheckpointFunction)["forward"] is others)
"""
    assert python(code) == "True\n"


@needs_xla
def test_both_import_orders_leave_the_same_dispatcher() -> None:
    code = "\nprint(polycast.installed(), dump())"
    first = python("import polycast, torch_xla" + code)
    second = python("import torch_xla, polycast" + code)
    assert first == second
    assert "'xla'" in first


@stock_kernels()
def test_install_takes_names_and_repeats() -> None:
    polycast.install("cpu")
    polycast.install("cpu")
    assert polycast.installed() == ("cpu",)
    assert active("mm", "AutocastCPU").startswith("AutocastCPU: polycast: lower_precision_fp on cpu")
    polycast.uninstall("cpu")
    polycast.uninstall("cpu")
    assert "polycast: " not in torch._C._dispatch_dump("aten::mm")


@stock_kernels()
def test_kernels_registered_by_others_later_are_covered_by_installing_again() -> None:
    polycast.install("cpu")
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("trace", lambda tensor: tensor, "AutocastCPU")  # type: ignore[no-untyped-call]
    assert "polycast: " not in active("trace", "AutocastCPU")
    polycast.install("cpu")
    assert "polycast: fp32 on cpu" in active("trace", "AutocastCPU")
    polycast.uninstall("cpu")
    assert "polycast: " not in torch._C._dispatch_dump("aten::trace")
    library._destroy()  # type: ignore[no-untyped-call]


WRONG: list[tuple[Callable[..., object], object]] = [
    *((polycast.install, device) for device in ("gpu", "neuron", "qqq", ["cpu"], "xla_gpu")),
    (polycast.uninstall, "cuad"),
]


@pytest.mark.parametrize(("function", "device"), WRONG, ids=lambda value: getattr(value, "__name__", str(value)))
def test_an_unknown_device_changes_nothing(
    function: Callable[..., object], device: object, recorded_error: RecordedError
) -> None:
    before = polycast.installed()
    with recorded_error():
        function("cpu", device)
    assert polycast.installed() == before


@needs_xla
def test_one_key_serves_one_device_at_a_time() -> None:
    """On a GPU, what only the rules of TPUs list falls through: torch_xla's kernel for it would cast."""
    weight, image = torch.ones(2, 2, device="xla"), torch.ones(1, 1, 4, 4, device="xla")
    with kernels_of("xla_gpu"), torch.autocast("xla", dtype=torch.float16):
        assert (weight @ weight).dtype is torch.float16
        assert torch.relu(weight).dtype is torch.float32
        assert torch.nn.functional.max_pool2d(image, 2).dtype is torch.float32
    with kernels_of("xla"), torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.relu(weight).dtype is torch.bfloat16


@needs_xla
def test_a_rule_holds_after_an_installation_anew_also_for_what_the_sibling_lists_alone() -> None:
    """The installation has such an op fall through, on top of the kernel that follows the rule."""
    rule = polycast.Policy({"scaled_dot_product_attention": {"xla": "lower_precision_fp"}})
    ones = torch.ones(1, 1, 2, 2, device="xla")
    for _ in range(2):
        with polycast.autocast("xla", policy=rule):
            assert torch.nn.functional.scaled_dot_product_attention(ones, ones, ones).dtype is torch.bfloat16
        polycast.install("xla")


@pytest.mark.parametrize("module", [polycast, polycast.cast_cache, polycast.debug, polycast.policy, polycast.syncfree])
def test_completion_offers_public_names_only(module: ModuleType) -> None:
    offered = {name for name in dir(module) if not name.startswith("__")}
    assert offered == {*module.__all__}
    assert all(hasattr(module, name) for name in offered)


def test_an_installation_is_taken_back_at_the_end_of_its_block() -> None:
    before = polycast.installed()
    with polycast.uninstall():
        assert polycast.installed() == ()
        with polycast.install("cpu"):
            assert polycast.installed() == ("cpu",)
        assert polycast.installed() == ()
    assert polycast.installed() == before
