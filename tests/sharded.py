"""What the tests of sharded parameters share: checks that run in a world of one and in one of two, and models.

The checks are the same in every process of a world. Those of the world of two run in two processes that are started
once for all of them: `python -m tests.sharded FOLDER RANK`.
"""

import datetime
import functools
import importlib
import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint.state_dict
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.distributed.tensor
from torch import Tensor, nn

distributed: Any = torch.distributed
MODULES = ("tests.test_sharded_optimizers", "tests.test_sharded_scaler")
TIMEOUT = 60
Check = Callable[[], None]
CHECKS: dict[str, dict[str, Check]] = {name: {} for name in MODULES}


def check(function: Check) -> Check:
    """Register a check; it runs in a world of one, in the tests' process, and in a world of two."""
    CHECKS[function.__module__][function.__name__] = function
    return function


def join_world(folder: Path, rank: int, size: int) -> None:
    timeout = datetime.timedelta(seconds=TIMEOUT)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=size, timeout=timeout
    )


@functools.cache
def results_of_two() -> list[dict[str, str]]:
    """Run all checks in a world of two; return what went wrong on each rank, by the name of the check, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        commands = [[sys.executable, "-m", "tests.sharded", folder, str(rank)] for rank in range(2)]
        processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
        errors = [process.communicate(timeout=3 * TIMEOUT)[1] for process in processes]
        files = [Path(folder) / f"rank{rank}.json" for rank in range(2)]
        assert all(file.exists() for file in files), errors
        return [json.loads(file.read_text()) for file in files]


def main(folder: str, rank: str) -> None:
    torch.set_num_threads(1)
    join_world(Path(folder), int(rank), 2)
    results = {}
    for module in MODULES:
        importlib.import_module(module)
        for name, function in CHECKS[module].items():
            results[f"{module}.{name}"] = ""
            try:
                function()
            except Exception:
                results[f"{module}.{name}"] = traceback.format_exc()
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(results))
    distributed.barrier()
    distributed.destroy_process_group()


def rank() -> int:
    return int(distributed.get_rank())


def size() -> int:
    return int(distributed.get_world_size())


@functools.cache
def mesh(*shape: int) -> Any:
    """Return a mesh of all ranks; a dimension of 0 is as long as the world."""
    return distributed.device_mesh.init_device_mesh("cpu", tuple(length or size() for length in shape))


def placed(tensor: Tensor, text: str, *shape: int) -> Tensor:
    """Return a DTensor of a tensor that all ranks have; "0R" is split by rows along the first dimension of the mesh."""
    package = distributed.tensor
    placements = [package.Replicate() if letter == "R" else package.Shard(int(letter)) for letter in text]
    result: Tensor = package.distribute_tensor(tensor, mesh(*shape or (0,)), placements)
    return result


def partial(tensor: Tensor) -> Tensor:
    """Return a DTensor whose sum over the ranks is the tensor."""
    share = tensor * (2.0 if rank() == 0 else -1.0) if size() > 1 else tensor
    result: Tensor = distributed.tensor.DTensor.from_local(share, mesh(0), [distributed.tensor.Partial()])
    return result


def whole(tensor: Tensor) -> Tensor:
    """Return the whole of a DTensor, or a tensor as it is."""
    full = getattr(tensor, "full_tensor", None)
    result: Tensor = tensor.detach() if full is None else full().detach()
    return result


def model(seed: int = 0) -> nn.Module:
    """Return a fully sharded model. Its last bias has one element, so that in a larger world a rank has none of it."""
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(8, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 1))
    for layer in (layers[0], layers[3], layers):
        distributed.fsdp.fully_shard(layer, mesh=mesh(0))
    return layers


def loss(layers: nn.Module, number: int, factor: float = 1.0) -> Tensor:
    """Return the loss of a batch that is another one on each rank."""
    generator = torch.Generator().manual_seed(100 * number + rank())
    result: Tensor = layers(torch.randn(4, 8, generator=generator)).square().mean() * factor
    return result


def assert_same(found: Iterable[Tensor], wanted: Iterable[Tensor], tolerance: float = 1e-6) -> None:
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(whole(left), whole(right), rtol=tolerance, atol=tolerance)


if __name__ == "__main__":
    sys.modules["tests.sharded"] = sys.modules["__main__"]
    main(*sys.argv[1:])
