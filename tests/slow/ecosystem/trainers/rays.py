"""Ray Train: a ``TorchTrainer`` with two workers on a cluster of this machine's own."""

import os
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polycast
import ray
import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

from tests.slow.ecosystem.cells import of_all, trainer
from tests.slow.ecosystem.recipes import Batches, Kit, Trained, named
from tests.slow.ecosystem.trainers.plain import Loop, loop, plain

ROOT = Path(__file__).parents[4]


class Shared(Loop):
    """A loop whose checkpoint one of the workers writes."""

    def save(self, path: Path) -> None:
        world: Any = torch.distributed
        if world.get_rank() == 0:
            super().save(path)
        world.barrier()


def worker(config: dict[str, Any]) -> None:
    """Train on this worker's share; what came of it is left in the kit's folder."""
    torch.set_num_threads(1)
    world: Any = torch.distributed
    kit: Kit = pickle.loads(config["kit"])
    if not kit.ours:
        polycast.uninstall()
    trained = loop(kit, partial(Shared, wrap=prepare_model), partial(Batches, ranks_for_a_part=1))
    torch.save(trained, kit.folder / f"{world.get_rank()}.pt")


def ray_train(kit: Kit) -> Trained:
    os.environ.update(RAY_TRAIN_V2_ENABLED="1", RAY_USAGE_STATS_ENABLED="0")
    path = {"PYTHONPATH": str(ROOT)}
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": path})
    try:
        TorchTrainer(
            worker,
            train_loop_config={"kit": pickle.dumps(replace(kit, losses=[], dtypes=[]))},
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=str(kit.folder / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    return of_all([Trained(*torch.load(kit.folder / f"{rank}.pt", weights_only=False)) for rank in range(2)])


# A cluster takes a minute to start.
trainer("ray.train, 2 workers", ray_train, plain, recipes=named("bfloat16", "float16, all of it"))
