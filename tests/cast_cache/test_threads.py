"""The cast cache from many threads: right values, no deadlock, and a core that ThreadSanitizer finds clean."""

import faulthandler
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn

from tests.process import python

THREADS, REGIONS = 8, 2000
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def alive(one_thread: None) -> Iterator[None]:  # noqa: ARG001
    """A deadlock ends the test run and shows where every thread stands."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    cast_cache.clear()


def models(seed: int) -> tuple[nn.Module, nn.Module]:
    """Return a model that trains and one that is frozen."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), nn.Linear(8, 8).requires_grad_(False)


def outputs(pair: tuple[nn.Module, nn.Module], x: Tensor) -> list[Tensor]:
    trained, frozen = pair
    return [trained(x), frozen(x), frozen(x), trained(x), frozen(x)]


@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
def test_values_are_right_in_every_thread(kept: bool) -> None:
    shared = models(0)
    if kept:
        cast_cache.keep(shared[1])
    x = torch.rand(2, 8)

    def work(number: int) -> int:
        private, right = models(1 + number), 0
        with polycast.autocast("cpu", cache_enabled=False):
            expected = outputs(shared, x), outputs(private, x)
        for _ in range(REGIONS // 2):
            for pair, wanted in zip((shared, private), expected, strict=True):
                with polycast.autocast("cpu"):
                    right += all(map(torch.equal, outputs(pair, x), wanted))
        return right

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [REGIONS] * THREADS
    cast_cache.release(shared[1])
    assert cast_cache.info()["cpu"].entries == 0


def test_a_thread_sees_what_changed_before_its_region() -> None:
    """A region of one thread that goes on must not lend its casts to a later region of another."""
    weight, x = torch.rand(4, 4), torch.rand(4, 4)
    with ThreadPoolExecutor(1) as other:
        region = torch.autocast("cpu", torch.bfloat16)
        other.submit(region.__enter__).result()
        for _ in range(5):
            other.submit(torch.matmul, x, weight).result()
        weight.data.add_(1)
        with polycast.autocast("cpu"):
            found = x @ weight
            with polycast.autocast("cpu", cache_enabled=False):
                assert torch.equal(found, x @ weight)
        other.submit(region.__exit__, None, None, None).result()


# An entry's cast holds its source through autograd, so the source dies with the entry, and its memory's owner casts.
DELETER = """
import threading
import numpy as np, torch, polycast
from torch import nn

torch.set_num_threads(1)
x, layer, calls = torch.rand(2, 8), nn.Linear(8, 8).requires_grad_(False), []

class Owner(np.ndarray):
    def __del__(self):
        with polycast.autocast("cpu"):
            for _ in range(4):
                layer(x)
        calls.append(1)

def work():
    for _ in range(200):
        weight = torch.from_numpy(np.ones((8, 8), dtype=np.float32).view(Owner)).requires_grad_()
        with polycast.autocast("cpu"):
            x @ weight
            del weight
            layer(x)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
work()
print(polycast.cast_cache.info()["cpu"].entries, len(calls))
"""


def test_the_deleter_of_a_cached_tensor_can_cast() -> None:
    assert python(DELETER, OMP_NUM_THREADS="1") == "0 1000\n"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_core_has_no_data_race(tmp_path: Path) -> None:
    program = tmp_path / "cast_cache_threads"
    options = ["-std=c++17", "-O1", "-g", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror"]
    source = HERE / "threads.cpp"
    subprocess.run(["g++", *options, f"-I{HERE.parents[1] / 'csrc'}", source, "-o", program], check=True)
    # ThreadSanitizer's shadow memory has a fixed place, where a randomized address space can put something else.
    fixed = ["setarch", "-R"] if sys.platform == "linux" and shutil.which("setarch") else []
    run = subprocess.run([*fixed, program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr, run.stdout) == (0, "", "right\n")


def test_a_write_while_a_weight_is_cast_leaves_no_old_cast() -> None:
    """The race is rare: with the state taken after the cast, about 12 of 300 writes were lost for good."""
    weight, x = torch.zeros(1500, 1500), torch.ones(1, 1500, dtype=torch.bfloat16)
    cast_cache.keep(weight)
    with torch.no_grad(), polycast.autocast("cpu"):
        for number in range(1, 301):
            cast_cache.clear()
            writer = Thread(target=weight.fill_, args=(number % 200,))
            writer.start()
            while writer.is_alive():
                x @ weight
            assert torch.equal(x @ weight, x @ weight.bfloat16()), number
