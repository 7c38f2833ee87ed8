"""Worlds of ``torch.distributed``, with this process only, or with another process."""

import datetime
import functools
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint.state_dict
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.distributed.tensor

distributed: Any = torch.distributed
TIMEOUT = datetime.timedelta(seconds=60)


def join(folder: Path, rank: int, size: int) -> None:
    mesh.cache_clear()
    store = f"file://{folder / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=TIMEOUT)


def rank() -> int:
    return int(distributed.get_rank())


def size() -> int:
    return int(distributed.get_world_size())


@functools.cache
def mesh(*shape: int) -> Any:
    """Return a mesh of all ranks. A dimension of 0 has the size of the world."""
    return distributed.device_mesh.init_device_mesh("cpu", tuple(length or size() for length in shape))


class Other:
    """The other process of a world of two. It runs calls in order."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.sharded.world"]
        self.process: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begin(self, function: Callable[..., object], **arguments: Any) -> None:
        pickle.dump((function, arguments), self.process.stdin)
        self.process.stdin.flush()

    def error(self) -> str:
        """Return the error of the last call, or ""."""
        return str(pickle.load(self.process.stdout))


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # gloo prints to descriptor 1.
    torch.set_num_threads(1)
    stdin: Any = sys.stdin.buffer
    while stdin.peek():
        function, arguments = pickle.load(stdin)
        try:
            error = str(function(**arguments) or "")
        except BaseException:  # `pytest.raises` may raise a `BaseException`.
            error = traceback.format_exc()
        pickle.dump(error, answers)
        answers.flush()


if __name__ == "__main__":
    main()
