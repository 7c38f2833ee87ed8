"""``install`` and ``uninstall``: their effects on the dispatcher's kernels, other libraries and compiled code."""

from contextlib import nullcontext
from types import ModuleType

import polycast
import pytest
import torch
from torch.utils.checkpoint import CheckpointFunction

from tests.support.devices import NEEDS_XLA
from tests.support.probe import kernels_of, stock_kernels, transparent

X = torch.ones(4, 4)


def active(op: str) -> str:
    """Return the dispatcher's line for the active autocast kernel of an op on the CPU."""
    lines = torch._C._dispatch_dump(f"aten::{op}").splitlines()
    (line,) = [line for line in lines if line.startswith("AutocastCPU:")]
    return line


@stock_kernels()
def test_install_accepts_names_and_repetitions_and_covers_kernels_of_other_libraries() -> None:
    polycast.install("cpu")
    assert polycast.installed() == ("cpu",)
    assert active("mm").startswith("AutocastCPU: polycast: lower_precision_fp on cpu")
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("trace", lambda tensor: tensor, "AutocastCPU")  # type: ignore[no-untyped-call]
    assert "polycast: " not in active("trace")
    polycast.install("cpu")
    assert "polycast: fp32 on cpu" in active("trace")
    polycast.uninstall("cpu")
    polycast.uninstall("cpu")
    for op in ("mm", "trace"):
        assert "polycast: " not in torch._C._dispatch_dump(f"aten::{op}")
    library._destroy()  # type: ignore[no-untyped-call]


def test_the_end_of_a_block_undoes_its_installation() -> None:
    before = polycast.installed()
    with polycast.uninstall():
        assert polycast.installed() == ()
        with polycast.install("cpu"):
            assert polycast.installed() == ("cpu",)
        assert polycast.installed() == ()
    assert polycast.installed() == before


@stock_kernels()
def test_uninstalling_does_not_remove_a_later_replacement_by_another_library() -> None:
    stock, others = vars(CheckpointFunction)["forward"], staticmethod(lambda *_: None)
    polycast.install("cpu")
    CheckpointFunction.forward = others  # type: ignore[method-assign]
    polycast.uninstall()
    found = vars(CheckpointFunction)["forward"]
    CheckpointFunction.forward = stock  # type: ignore[method-assign]
    assert found is others


@pytest.mark.parametrize("inside", [True, False], ids=["region inside", "region outside"])
@stock_kernels()
def test_compiled_code_follows_the_installed_kernels(inside: bool) -> None:
    """Compiled code casts only while kernels are installed. A fallthrough prevents PyTorch's own cast of ``mm``."""

    @torch.compile(fullgraph=True, backend="aot_eager")
    def multiply(x: torch.Tensor) -> torch.Tensor:
        if inside:
            with torch.autocast("cpu"):
                return x.mm(x)
        return x.mm(x)

    def run() -> torch.dtype:
        with nullcontext() if inside else torch.autocast("cpu"):
            return multiply(X).dtype

    with transparent("cpu", "mm"):
        assert run() is torch.float32
        with polycast.install("cpu"):
            assert run() is torch.bfloat16
        assert run() is torch.float32


@stock_kernels()
def test_keys_on_disk_contain_the_policy_the_devices_and_the_tag_of_the_user() -> None:
    tags = []

    def backend(graph: torch.fx.GraphModule, _inputs: object) -> torch.fx.GraphModule:
        tags.append(torch.compiler.config.cache_key_tag)
        return graph

    policy = polycast.Policy({"mm": "fp32"})
    with polycast.install("cpu"), polycast.use(policy), torch.compiler.config.patch(cache_key_tag="mine"):  # type: ignore[attr-defined]
        torch.compile(torch.square, backend=backend)(X)
    [(mine, ours)] = [tag.split() for tag in tags]
    assert (mine, ours.split(":")[0], ours.split(":")[2:]) == ("mine", "polycast", ["cpu", policy.digest])


@NEEDS_XLA
def test_one_key_serves_one_device_at_a_time() -> None:
    """``xla`` and ``xla_gpu`` share a key. While one is installed, the ops that only the other lists fall through."""
    weight, image = torch.ones(2, 2, device="xla"), torch.ones(1, 1, 4, 4, device="xla")
    with kernels_of("xla_gpu"), torch.autocast("xla", dtype=torch.float16):
        assert (weight @ weight).dtype is torch.float16
        assert torch.relu(weight).dtype is torch.float32
        assert torch.nn.functional.max_pool2d(image, 2).dtype is torch.float32
    with kernels_of("xla"), torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.relu(weight).dtype is torch.bfloat16
    with kernels_of("xla_gpu"), polycast.uninstall("xla"):
        assert polycast.installed() == ()


@NEEDS_XLA
def test_a_rule_for_an_op_that_only_a_sibling_device_lists_applies_after_a_second_installation() -> None:
    """A second ``install`` does not replace the kernel of a user's rule with a fallthrough."""
    rule = polycast.Policy({"scaled_dot_product_attention": {"xla": "lower_precision_fp"}})
    ones = torch.ones(1, 1, 2, 2, device="xla")
    for _ in range(2):
        with polycast.autocast("xla", policy=rule):
            assert torch.nn.functional.scaled_dot_product_attention(ones, ones, ones).dtype is torch.bfloat16
        polycast.install("xla")


@pytest.mark.parametrize("module", [polycast, polycast.cast_cache, polycast.debug, polycast.policy, polycast.syncfree])
def test_completion_lists_public_names_only(module: ModuleType) -> None:
    offered = {name for name in dir(module) if not name.startswith("__")}
    assert offered == {*module.__all__}
    assert all(hasattr(module, name) for name in offered)
