"""Timm's models, scaler, optimizers and schedules; PEFT's adapters; Ignite's engine."""

import warnings
from functools import partial
from typing import Any

import peft
import polycast
import timm.optim
import timm.scheduler
import torch
from ignite.engine import Engine, Events, supervised_training_step_amp
from ignite.handlers import Checkpoint, DiskSaver
from polycast.integrations import timm as integration
from timm.models.vision_transformer import VisionTransformer
from timm.utils import NativeScaler
from torch import Tensor, nn

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import LR, SCALE, STEPS, Batches, Kit, Task, Trained, named, network
from tests.slow.ecosystem.trainers.plain import Loop, loop, plain

NATIVE = named("float16", *(f"float16, {rest}" for rest in ("clipped", "accumulated", "a skip", "resumed")))


def vision() -> nn.Module:
    model: nn.Module = VisionTransformer(img_size=8, patch_size=4, embed_dim=16, depth=1, num_heads=2, num_classes=2)
    return model


class Native(Loop):
    """With timm's scaler, which makes torch's within itself."""

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
    """With an optimizer that timm makes by its name, in groups with and without weight decay."""

    def __init__(self, kit: Kit, name: str) -> None:
        super().__init__(kit)
        if kit.ours:
            integration.use()
        options = {"eps": 1e-3} if name.startswith("adam") else {}
        self.optimizer = timm.optim.create_optimizer_v2(self.task, name, lr=LR, weight_decay=0.05, **options)
        library: Any = polycast.syncfree if kit.ours else torch.optim
        assert isinstance(self.optimizer, (library.SGD, library.Adam)), f"timm made a {type(self.optimizer)}"


class Lamb(Loop):
    """An optimizer of timm's own, and a schedule of timm's own that the host tells the number of the step."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self.optimizer = timm.optim.create_optimizer_v2(self.task, "lamb", lr=LR)


class Cosine(Loop):
    """Our optimizer under a schedule of timm's, which writes the learning rate."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self.cosine = timm.scheduler.CosineLRScheduler(self.optimizer, t_initial=STEPS, t_in_epochs=False)
        self.updates = 0

    def step(self) -> None:
        super().step()
        self.updates += 1
        self.cosine.step_update(self.updates)


def adapted() -> nn.Module:
    model: nn.Module = peft.get_peft_model(network(), peft.LoraConfig(r=4, target_modules=["0", "2"]))
    return model


def adapters(kit: Kit) -> Trained:
    warnings.simplefilter("ignore")
    return loop(kit, partial(Loop, make_net=adapted))


def ignite_parts(kit: Kit) -> dict[str, Any]:
    task = kit.task()
    optimizer, scaler = kit.optimizer(task.parameters()), kit.scaler()
    forward = kit.autocast()(run_task) if kit.line else run_task
    update = supervised_training_step_amp(
        task,
        optimizer,
        lambda loss, _: loss,
        "cpu",
        prepare_batch=lambda batch, **_: (batch, batch["labels"]),
        model_fn=forward,
        scaler=scaler,
        gradient_accumulation_steps=kit.recipe.accumulate,
    )
    return {"task": task, "optimizer": optimizer, "scaler": scaler, "engine": Engine(update)}


def run_task(task: Task, batch: dict[str, Tensor]) -> Tensor:
    return task(**batch)["loss"]  # type: ignore[no-any-return]


def ignite_engine(kit: Kit) -> Trained:
    warnings.simplefilter("ignore")
    recipe, parts = kit.recipe, ignite_parts(kit)
    engine = parts["engine"]
    if recipe.resume:
        saver, event = Checkpoint(parts, DiskSaver(kit.folder, require_empty=False)), Events.ITERATION_COMPLETED
        engine.add_event_handler(event(once=recipe.resume), saver)
        engine.add_event_handler(event(once=recipe.resume), lambda engine: engine.terminate())
    engine.run(Batches(recipe).items, max_epochs=1)
    if recipe.resume:
        parts = ignite_parts(kit)
        Checkpoint.load_objects(parts, torch.load(kit.folder / saver.last_checkpoint))
        parts["engine"].run(Batches(recipe, recipe.resume).items, max_epochs=1, epoch_length=STEPS)
    return kit.trained(parts["task"], parts["optimizer"])


vision_loop = partial(loop, make=partial(Loop, make_net=vision), batches=partial(Batches, shape=(3, 8, 8)))
trainer("timm, a vision transformer", vision_loop)
native = partial(loop, make=Native)
trainer("timm.NativeScaler, unchanged", native, recipes=NATIVE)
LINE = "`from polycast.integrations.timm import NativeScaler`"
trainer("timm.NativeScaler, ours", native, line=LINE, needs_line=True, recipes=NATIVE)
for name, recipes in {"adamw": NATIVE, "adam": NATIVE[1:3], "sgd": NATIVE[1:3], "momentum": NATIVE[1:3]}.items():
    by_name, line = partial(loop, make=partial(Named, name=name)), "`polycast.integrations.timm.use()`"
    trainer(f'timm.optim "{name}"', by_name, line=line, needs_line=True, recipes=recipes)
trainer("timm.optim Lamb", partial(loop, make=Lamb), recipes=NATIVE)
cosine = partial(loop, make=Cosine)
trainer("timm.scheduler cosine", cosine, recipes=named("float16", "bfloat16", "float16, clipped"))
trainer("peft, low-rank adapters", adapters)
# Ignite's step autocasts on cuda alone.
IGNITE = named("bfloat16", *(recipe.name for recipe in NATIVE if not recipe.clip))
LINE = "`model_fn=autocast('cpu', ...)(forward)`"
trainer("ignite.Engine", ignite_engine, plain, line=LINE, recipes=IGNITE)
