"""Ray Train: a ``TorchTrainer`` with two workers on a cluster of this machine's own."""

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import polycast
import ray
import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

from tests.slow.ecosystem.cells import named, trainer
from tests.slow.ecosystem.ranks import Share, distributed
from tests.slow.ecosystem.recipes import Kit, Task, Trained
from tests.slow.ecosystem.trainers.plain import Loop, plain

ROOT = Path(__file__).parents[3]


def worker(config: dict[str, Any]) -> None:
    """Train on this worker's share; what came of it is left in the kit's folder."""
    torch.set_num_threads(1)
    kit: Kit = pickle.loads(config["kit"])
    if not kit.ours:
        polycast.uninstall()
    recipe, path = kit.recipe, kit.folder / "checkpoint.pt"

    def wrap(task: Task) -> Any:
        return prepare_model(task)

    run = Loop(kit, kit.task(), wrap)
    if recipe.resume:
        run.run(Share(recipe).items[: recipe.resume * recipe.accumulate])
        if distributed.get_rank() == 0:
            torch.save([part.state_dict() for part in run.parts()], path)
        distributed.barrier()
        run = Loop(kit, kit.task(), wrap)
        for part, state in zip(run.parts(), torch.load(path), strict=True):
            part.load_state_dict(state)
    run.run(Share(recipe, first=recipe.resume))
    torch.save(kit.trained(run.task, run.optimizer), kit.folder / f"{distributed.get_rank()}.pt")


# A cluster takes a minute to start.
SOME = [named("bfloat16"), named("float16, all of it")]


@trainer("ray.train, 2 workers", beside=plain, recipes=SOME)
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
    trained = [Trained(*torch.load(kit.folder / f"{rank}.pt", weights_only=False)) for rank in range(2)]
    assert all(map(torch.equal, trained[0].weights, trained[1].weights)), "the workers' weights differ"
    losses = torch.tensor([each.losses for each in trained]).mean(0)
    return trained[0]._replace(losses=losses.tolist())
