"""PyTorch without a trainer: the loop of PyTorch's documentation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import STEPS, Kit, Trained, batches
from tests.support.optimizers import clip


class Loop:
    """A model, its optimizer, its scaler and its schedule, which a resumed run creates again."""

    def __init__(self, kit: Kit) -> None:
        self.kit, self.task = kit, kit.task()
        self.optimizer = kit.optimizer([param for param in self.task.parameters() if param.requires_grad])
        self.scaler = kit.scaler()
        self.schedule = kit.schedule(self.optimizer, self.scaler)

    def parts(self) -> list[Any]:
        return [part for part in (self.task, self.optimizer, self.scaler, self.schedule) if part is not None]

    def save(self, path: Path) -> None:
        torch.save([part.state_dict() for part in self.parts()], path)

    def load(self, path: Path) -> None:
        for part, state in zip(self.parts(), torch.load(path), strict=True):
            part.load_state_dict(state)

    def run(self, batches: Any) -> None:
        for number, batch in enumerate(batches):
            with self.kit.autocast():
                loss = self.task(**batch)["loss"] / self.kit.recipe.accumulate
            self.scaler.scale(loss).backward()
            if (number + 1) % self.kit.recipe.accumulate == 0:
                self.step()

    def step(self) -> None:
        if self.kit.recipe.clip:
            clip(self.scaler, self.optimizer, self.kit.recipe.clip)
        self.scaler.step(self.optimizer)
        scale = self.scaler.get_scale()
        self.scaler.update()
        # Users of stock PyTorch check the scale before they advance a schedule. Our schedule needs no such device sync.
        if self.schedule is not None and (self.kit.ours or self.scaler.get_scale() >= scale):
            self.schedule.step()
        self.optimizer.zero_grad()

    def trained(self) -> Trained:
        return self.kit.trained(self.task, self.optimizer)


def loop(kit: Kit, make: Callable[[Kit], Any] = Loop) -> Trained:
    """Train with an object that runs, saves and loads. A resumed run continues in a new object with the saved state."""
    recipe, path = kit.recipe, kit.folder / "checkpoint"
    run = make(kit)
    if recipe.resume:
        run.run(batches(recipe, last=recipe.resume))
        run.save(path)
        run = make(kit)
        run.load(path)
    run.run(batches(recipe, recipe.resume, STEPS))
    return run.trained()  # type: ignore[no-any-return]


plain = loop
trainer("torch", plain)
