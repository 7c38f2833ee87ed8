"""Compiled code never outlives the policy that it was compiled under. For on-disk caches see tests/policies, too.

On the host the policy gives no op another dtype than torch does. So torch is given another policy here: below ours, mm
runs in the dtype of its inputs. Compiled code that outlived its policy would show by its dtype.
"""

from collections.abc import Callable, Iterator

import polycast
import pytest
import torch

from tests.support.probe import stock_kernels, transparent

BF16, F32 = torch.bfloat16, torch.float32
X = torch.ones(4, 4)


@pytest.fixture
def nothing_installed() -> Iterator[None]:
    """Nothing installed at the start, and at the end what was installed before."""
    with stock_kernels():
        yield


@pytest.fixture
def another_policy(nothing_installed: None) -> Iterator[None]:  # noqa: ARG001
    """Torch, without ours, does not cast mm."""
    with transparent("cpu", "mm"):
        yield


def _region_inside() -> Callable[[], torch.dtype]:
    def multiply(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu"):
            return x.mm(x)

    compiled = torch.compile(multiply, fullgraph=True, backend="aot_eager")
    return lambda: compiled(X).dtype


def _region_outside() -> Callable[[], torch.dtype]:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def multiply(x: torch.Tensor) -> torch.Tensor:
        return x.mm(x)

    def run() -> torch.dtype:
        with torch.autocast("cpu"):
            return multiply(X).dtype

    return run


@pytest.mark.usefixtures("another_policy")
@pytest.mark.parametrize("compiled", [_region_inside, _region_outside])
def test_code_follows_the_policy_of_its_process(compiled: Callable[[], Callable[[], torch.dtype]]) -> None:
    run = compiled()
    assert run() is F32
    polycast.install("cpu")
    assert run() is BF16
    polycast.uninstall("cpu")
    assert run() is F32


@pytest.mark.usefixtures("nothing_installed")
def test_keys_on_disk_name_the_devices_and_keep_a_tag_of_the_users() -> None:
    with torch.compiler.config.patch(cache_key_tag="mine"):  # type: ignore[attr-defined]
        polycast.install("cpu")
        mine, ours = torch.compiler.config.cache_key_tag.split()
        assert (mine, ours.partition(":")[0], ours.rpartition(":")[2]) == ("mine", "polycast", "cpu")
        polycast.uninstall()
        assert torch.compiler.config.cache_key_tag == "mine"
