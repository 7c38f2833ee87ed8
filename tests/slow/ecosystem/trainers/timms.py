"""The scaler of timm."""

from functools import partial
from typing import Any

import torch
from polycast.integrations import timm as integration
from timm.utils import NativeScaler

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import RECIPES, SCALE, Kit
from tests.slow.ecosystem.trainers.plain import Loop, loop

NAMES = {"float16", *(f"float16, {rest}" for rest in ("clipped", "accumulated", "a skip", "resumed"))}
NATIVE = [recipe for recipe in RECIPES if recipe.name in NAMES]


class Native(Loop):
    """A run with timm's scaler around PyTorch's scaler, or with polycast's class of the same name."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self.native: Any = integration.NativeScaler(init_scale=SCALE) if kit.line else NativeScaler("cpu")
        if not kit.line:
            self.native._scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=SCALE)

    def parts(self) -> list[Any]:
        return [self.task, self.optimizer, self.native]

    def run(self, batches: Any) -> None:
        accumulate = self.kit.recipe.accumulate
        for number, batch in enumerate(batches):
            update = (number + 1) % accumulate == 0
            with self.kit.autocast():
                loss = self.task(**batch)["loss"] / accumulate
            clip = self.kit.recipe.clip or None
            self.native(loss, self.optimizer, clip, parameters=self.task.parameters(), need_update=update)
            if update:
                self.optimizer.zero_grad()


native = partial(loop, make=Native)
trainer("timm.NativeScaler, unchanged", native, recipes=NATIVE)
LINE = "`from polycast.integrations.timm import NativeScaler`"
trainer("timm.NativeScaler, ours", native, line=LINE, needs_line=True, recipes=NATIVE)
