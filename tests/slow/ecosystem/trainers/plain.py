"""Torch alone: the loop of its documents."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import Batches, Kit, Task, Trained, halved, halved_skip_aware


class Loop:
    """A model, its optimizer, its scaler and its schedule, made anew as a process makes them that starts again."""

    def __init__(self, kit: Kit, task: Task, wrap: Callable[[Task], nn.Module] = lambda task: task) -> None:
        self.kit, self.task, self.model = kit, task, wrap(task)
        self.optimizer = kit.optimizer([param for param in task.parameters() if param.requires_grad])
        self.scaler = kit.scaler()
        self.schedule: Any = halved(self.optimizer) if kit.recipe.schedule else None
        if kit.ours and self.schedule is not None:
            self.schedule = halved_skip_aware(self.optimizer, self.scaler)

    def parts(self) -> list[Any]:
        return [part for part in (self.task, self.optimizer, self.scaler, self.schedule) if part is not None]

    def run(self, batches: Any) -> None:
        for number, batch in enumerate(batches):
            with self.kit.autocast():
                loss = self.model(**batch)["loss"] / self.kit.recipe.accumulate
            self.scaler.scale(loss).backward()
            if (number + 1) % self.kit.recipe.accumulate == 0:
                self.step()

    def step(self) -> None:
        if self.kit.recipe.clip and self.kit.ours:
            self.scaler.clip_grad_norm(self.optimizer, self.kit.recipe.clip)
        elif self.kit.recipe.clip:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.task.parameters(), self.kit.recipe.clip)
        self.scaler.step(self.optimizer)
        scale = self.scaler.get_scale()
        self.scaler.update()
        # What stock users write to keep a schedule where it is; ours needs no such read.
        if self.schedule is not None and (self.kit.ours or self.scaler.get_scale() >= scale):
            self.schedule.step()
        self.optimizer.zero_grad()


def loop(
    kit: Kit,
    make_net: Callable[[], nn.Module] | None = None,
    shape: tuple[int, ...] = (8,),
    make_loop: Callable[[Kit, Task], Loop] = Loop,
) -> Trained:
    """Train; a resumed training goes on in new objects that load what the old ones saved."""
    recipe, path = kit.recipe, kit.folder / "checkpoint.pt"
    run = make_loop(kit, kit.task(make_net))
    if recipe.resume:
        run.run(Batches(recipe, shape).items[: recipe.resume * recipe.accumulate])
        torch.save([part.state_dict() for part in run.parts()], path)
        run = make_loop(kit, kit.task(make_net))
        for part, state in zip(run.parts(), torch.load(path), strict=True):
            part.load_state_dict(state)
    run.run(Batches(recipe, shape, first=recipe.resume))
    return kit.trained(run.task, run.optimizer)


@trainer("torch")
def plain(kit: Kit) -> Trained:
    return loop(kit)
