"""Compiled code never outlives the policy that it was compiled under, in its process or in the on-disk caches.

On the host the policy gives no op another dtype than torch does. So torch is given another policy here: below ours, mm
runs in the dtype of its inputs. Compiled code that outlived its policy would show by its dtype.
"""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import polycast
import pytest
import torch

BF16, F32 = torch.bfloat16, torch.float32
X = torch.ones(4, 4)


@pytest.fixture
def nothing_installed() -> Iterator[None]:
    """Nothing installed at the start, and at the end what was installed before."""
    before = polycast.installed()
    polycast.uninstall()
    yield
    polycast.uninstall()
    if before:
        polycast.install(*before)


@pytest.fixture
def another_policy(nothing_installed: None) -> Iterator[None]:  # noqa: ARG001
    """Torch, without ours, does not cast mm."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel", category=UserWarning)
        library.impl("mm", torch.library.fallthrough_kernel, "AutocastCPU")  # type: ignore[no-untyped-call]
    yield
    library._destroy()  # type: ignore[no-untyped-call]


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
def test_a_key_tag_of_the_users_stays() -> None:
    with torch.compiler.config.patch(cache_key_tag="mine"):  # type: ignore[attr-defined]
        polycast.install("cpu")
        mine, ours = torch.compiler.config.cache_key_tag.split()
        assert (mine, ours.partition(":")[0]) == ("mine", "polycast")
        polycast.uninstall()
        assert torch.compiler.config.cache_key_tag == "mine"


PROGRAM = """
import torch
library = torch.library.Library("aten", "IMPL")
library.impl("mm", torch.library.fallthrough_kernel, "AutocastCPU")
import polycast
from torch._dynamo.utils import counters

def inside(x):
    with torch.autocast("cpu"):
        return x.mm(x)

@torch.compile
def outside(x):
    return x.mm(x)

x = torch.ones(4, 4)
types = {torch.compile(inside)(x).dtype}
counters.clear()
with torch.autocast("cpu"):
    types.add(outside(x).dtype)
print(*types, "hit" if counters["aot_autograd"]["autograd_cache_hit"] else "miss")
"""


def test_code_on_disk_belongs_to_its_policy(tmp_path: Path) -> None:
    def run(installed: bool) -> str:
        environment = {
            "POLYCAST_INSTALL": str(int(installed)),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        return subprocess.run(
            command, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    assert run(installed=False) == "torch.float32 miss\n"
    assert run(installed=True) == "torch.bfloat16 miss\n"
    assert run(installed=True) == "torch.bfloat16 hit\n"
