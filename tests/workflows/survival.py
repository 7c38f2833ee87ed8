"""Trainings that are killed at random moments and resumed.

A training with a scaler, a schedule and two optimizers saves all of it after every step, into another file that then
takes the place of the last. Its process is killed (SIGKILL) at a random moment, in the midst of a step or of saving as
it comes, and started again, until it was killed that often. What it has in the end is, bit for bit, what a training has
that was never killed. Then the same of two workers under torchrun, which starts both again when one is killed.
"""

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import polycast
import torch
import torch.distributed
from polycast import backends
from torch import Tensor, nn
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.support.devices import seed
from tests.workflows.loops import lower

distributed: Any = torch.distributed
ROOT = Path(__file__).parents[2]
STEPS_PER_KILL = 40
BAD = 7  # every such step has an infinity


class Training:
    """Two models with one loss each, two optimizers, one scaler, a schedule for each optimizer."""

    def __init__(self, steps: int, device: str = "cpu") -> None:
        self.device, self.lower = device, lower(device)
        seed(device)
        self.models: list[nn.Module] = [
            nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.Linear(64, 2)).to(device) for _ in range(2)
        ]
        self.optimizers: list[Any] = [
            polycast.syncfree.AdamW(self.models[0].parameters(), lr=0.01),
            polycast.syncfree.SGD(self.models[1].parameters(), lr=0.01, momentum=0.9),
        ]
        self.scaler = polycast.GradScaler(device, init_scale=2.0**10, growth_interval=5)
        self.schedules = [
            polycast.SkipAwareLR(optimizer, lambda taken: (1 + torch.cos(taken * math.pi / steps)) / 2, self.scaler)
            for optimizer in self.optimizers
        ]
        self.number, self.share = 0, slice(None)

    def step(self) -> None:
        inputs = torch.randn(16, 8, device=self.device)[self.share]
        factor = float("inf") if self.number % BAD == BAD - 1 else 1.0
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with polycast.autocast(self.device, dtype=self.lower):
            losses = [nn.functional.mse_loss(model(inputs), inputs[:, :2]) for model in self.models]
        self.scaler.scale(losses[0] * factor + losses[1]).backward()  # type: ignore[no-untyped-call]
        self.scaler.clip_grad_norm(self.optimizers[0], max_norm=1.0)
        self.scaler.step_together(*self.optimizers)
        self.scaler.update()
        for schedule in self.schedules:
            schedule.step()
        self.number += 1

    def parts(self) -> list[Any]:
        return [*self.models, *self.optimizers, self.scaler, *self.schedules]

    def state(self) -> dict[str, Any]:
        parts = [part.state_dict() for part in self.parts()]
        return {"parts": parts, "number": self.number, "random": backends.random_state()}

    def load(self, state: dict[str, Any]) -> None:
        for part, saved in zip(self.parts(), state["parts"], strict=True):
            part.load_state_dict(saved)
        self.number = state["number"]
        backends.set_random_state(state["random"])


def save(state: dict[str, Any], path: Path) -> None:
    """Write a file that is, at any moment, the last state or this one."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def train(path: Path, steps: int, device: str) -> None:
    """Train from the saved state on, if there is one, and save after every step."""
    torch.set_num_threads(1)
    polycast.install(device)
    training = Training(steps, device)
    if path.exists():
        training.load(torch.load(path))
    while training.number < steps:
        training.step()
        save(training.state(), path)
        print(training.number, flush=True)


class Survived(NamedTuple):
    """What happened to a training, and what differs in the end."""

    kills: int
    while_saving: int
    differences: list[str]


def train_replica(path: Path, steps: int, dies_at: int) -> None:
    """Be one of torchrun's workers; the second is killed at that step, and not again after the restart."""
    torch.set_num_threads(1)
    attempt, rank, size = (int(os.environ[name]) for name in ("TORCHELASTIC_RESTART_COUNT", "RANK", "WORLD_SIZE"))
    # A store for each attempt: in torchrun's own gloo finds the address of the worker that was killed.
    store = f"file://{path.with_suffix(f'.store{attempt}')}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    training = Training(steps)
    training.models = [nn.parallel.DistributedDataParallel(model) for model in training.models]
    training.share = slice(rank, None, size)
    if path.exists():
        training.load(torch.load(path))
    while training.number < steps:
        if rank == 1 and training.number == dies_at and attempt == 0:
            signal.raise_signal(signal.SIGKILL)
        training.step()
        if rank == 0:
            save(training.state(), path)
        distributed.barrier()  # no rank is a step ahead of what is saved
    distributed.destroy_process_group()
    if rank == 0:
        path.with_suffix(".restarts").write_text(str(attempt))


def launch_replicas(folder: Path, steps: int) -> None:
    """Run two workers under torchrun's agent, left alone and then killed once."""
    for name, dies_at in (("alone", -1), ("killed", steps // 2)):
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=2,
            run_id=name,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=1,
            monitor_interval=0.1,
            start_method="spawn",  # a fork beside the agent's own threads may never wake
        )
        elastic_launch(config, train_replica)(folder / f"{name}.pt", steps, dies_at)


def survive_elastic(folder: Path, steps: int = 40) -> Survived:
    """Kill one of two workers once, and compare with two that are left alone."""
    command = [sys.executable, "-m", "tests.workflows.survival", "launch", str(folder), str(steps)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    different = differences(torch.load(folder / "killed.pt"), torch.load(folder / "alone.pt"))
    return Survived(int((folder / "killed.restarts").read_text()), 0, different)


def survive(kills: int, folder: Path, device: str = "cpu") -> Survived:
    """Kill a training that often, resume it each time, and compare it with one that is left alone."""
    steps = STEPS_PER_KILL * (kills + 1)
    alone, killed = folder / "alone.pt", folder / "killed.pt"
    start(alone, steps, device).communicate()
    moments, while_saving = random.Random(0), 0
    for _ in range(kills):
        with start(killed, steps, device) as process:
            assert process.stdout is not None
            for _ in range(moments.randint(1, STEPS_PER_KILL // 2)):
                process.stdout.readline()
            time.sleep(moments.uniform(0, 0.01))  # a step and its saving take about as long
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL, "the training ended before it was killed"
        while_saving += killed.with_suffix(".unfinished").exists()
    start(killed, steps, device).communicate()
    return Survived(kills, while_saving, differences(torch.load(alone), torch.load(killed)))


def start(path: Path, steps: int, device: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.workflows.survival", "train", str(path), str(steps), device]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def differences(found: Any, wanted: Any, place: str = "state") -> list[str]:
    """Return the places where two states are not the same bits."""
    if type(found) is not type(wanted):
        return [place]
    if isinstance(wanted, dict):
        if found.keys() != wanted.keys():
            return [place]
        return [text for key in wanted for text in differences(found[key], wanted[key], f"{place}[{key!r}]")]
    if isinstance(wanted, (list, tuple)):
        if len(found) != len(wanted):
            return [place]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [text for index, pair in pairs for text in differences(*pair, f"{place}[{index}]")]
    same = torch.equal(found, wanted) if isinstance(wanted, Tensor) else found == wanted
    return [] if same else [place]


if __name__ == "__main__":
    run: Any = train if sys.argv[1] == "train" else launch_replicas
    run(Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
