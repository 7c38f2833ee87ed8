"""Sharded training in torchtitan's way, with torch alone: train, clip, skip, save, be killed, resume on fewer ranks."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import polycast
import torch
from polycast.integrations.torchtitan import ScaledOptimizer
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import fully_shard


def train(rank: int, ranks: int, folder: Path) -> None:
    store = f"file://{folder}/store{ranks}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    fully_shard(model)
    optimizer = polycast.syncfree.AdamW(model.parameters(), lr=0.02)
    scaled = ScaledOptimizer(model, optimizer, polycast.GradScaler("cpu"))
    resumes = (folder / "state").exists()
    if resumes:
        state: dict[str, Any] = {"model": get_model_state_dict(model), "optimizer": scaled}
        load(state, checkpoint_id=folder / "state")
        set_model_state_dict(model, state["model"])
    for number in range(20 if resumes else 0, 40):
        inputs = torch.randn(64, 8)
        with polycast.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), inputs[:, :2])
        # One rank has an infinity, and all ranks skip the step.
        factor = float("inf") if number == 10 and rank == 0 else 1.0
        scaled.scale(loss * factor).backward()  # type: ignore[no-untyped-call]
        norm = scaled.clip_grad_norm(1.0)
        scaled.step()
        scaled.zero_grad()
        if rank == 0 and (number == 10 or number % 10 == 9):
            print(f"step {number}: loss {loss.item():.3f}, norm {norm.item():.3f}, on {ranks} ranks")
        if number == 19:
            save({"model": get_model_state_dict(model), "optimizer": scaled}, checkpoint_id=folder / "state")
            signal.raise_signal(signal.SIGKILL)
    distributed.destroy_process_group()


def start(ranks: int, folder: Path) -> list[int | None]:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=train, args=(rank, ranks, folder)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        assert start(4, Path(place)) == [-signal.SIGKILL] * 4
        print("killed, and started again")
        sys.exit(start(2, Path(place)) != [0, 0])
