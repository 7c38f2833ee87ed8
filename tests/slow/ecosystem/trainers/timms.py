"""timm: its scaler, and its registry of optimizers."""

from functools import partial
from typing import Any

import polycast
import timm.optim
import torch
from polycast.integrations import timm as integration
from timm.utils import NativeScaler

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import LR, SCALE, Kit, named
from tests.slow.ecosystem.trainers.plain import Loop, loop

NATIVE = named("float16", *(f"float16, {rest}" for rest in ("clipped", "accumulated", "a skip", "resumed")))


class Native(Loop):
    """A run with timm's scaler, which creates PyTorch's scaler."""

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


class Named(Loop):
    """A run with an optimizer that timm creates by its name, in groups with and without weight decay."""

    def __init__(self, kit: Kit, name: str) -> None:
        super().__init__(kit)
        if kit.ours:
            integration.use()
        options = {"eps": 1e-3} if name.startswith("adam") else {}
        self.optimizer = timm.optim.create_optimizer_v2(self.task, name, lr=LR, weight_decay=0.05, **options)
        library: Any = polycast.syncfree if kit.ours else torch.optim
        assert isinstance(self.optimizer, (library.SGD, library.Adam)), f"timm made a {type(self.optimizer)}"


native = partial(loop, make=Native)
trainer("timm.NativeScaler, unchanged", native, recipes=NATIVE)
LINE = "`from polycast.integrations.timm import NativeScaler`"
trainer("timm.NativeScaler, ours", native, line=LINE, needs_line=True, recipes=NATIVE)
for name, recipes in {"adamw": NATIVE, "adam": NATIVE[1:3], "sgd": NATIVE[1:3], "momentum": NATIVE[1:3]}.items():
    by_name, line = partial(loop, make=partial(Named, name=name)), "`polycast.integrations.timm.use()`"
    trainer(f'timm.optim "{name}"', by_name, line=line, needs_line=True, recipes=recipes)
