"""Worlds of torch.distributed, and the checks that run in them.

A check is the same in every process of a world. A world of one is the tests' own process; the two processes of the
other are started once for all checks.
"""

import datetime
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint.state_dict
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.distributed.tensor

from tests.support.properties import TIMES

distributed: Any = torch.distributed
TIMEOUT = 60
Check = Callable[[], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Register a check."""
    assert function.__name__ not in CHECKS
    CHECKS[function.__name__] = function
    return function


def join(folder: Path, rank: int, size: int) -> None:
    timeout = datetime.timedelta(seconds=TIMEOUT)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=size, timeout=timeout
    )


@functools.cache
def results_of_two() -> list[dict[str, str]]:
    """Run all checks in a world of two; return what went wrong on each rank, by the name of the check, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        commands = [[sys.executable, "-m", "tests.sharded.all", folder, str(rank)] for rank in range(2)]
        processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
        errors = [process.communicate(timeout=3 * TIMEOUT * TIMES)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], errors
        return [json.loads((Path(folder) / f"rank{rank}.json").read_text()) for rank in range(2)]


def rank() -> int:
    return int(distributed.get_rank())


def size() -> int:
    return int(distributed.get_world_size())


@functools.cache
def mesh(*shape: int) -> Any:
    """Return a mesh of all ranks; a dimension of 0 is as long as the world."""
    return distributed.device_mesh.init_device_mesh("cpu", tuple(length or size() for length in shape))
