"""Trainers of other packages, unmodified, with our scaler and optimizers in the place of torch's."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor
from torch.optim import lr_scheduler

from tests.support.sharded import world
from tests.support.sharded.models import whole
from tests.workflows.loops import data, floats, loss_fn, network

ABSENT = "{} is not installed; the tests of its trainer need it"
STEPS, SKIPPED = 12, 4
SCALE = 256.0


def package(name: str) -> Any:
    return pytest.importorskip(name, reason=ABSENT.format(name))


def accelerate() -> Any:
    os.environ["USE_TORCH_XLA"] = "0"  # where torch_xla is installed it asks for it at its import
    return package("accelerate")


class Accelerated:
    """A training by Accelerate in float16 on the host, which it would allow on a GPU only."""

    def __init__(self, library: Any, scaler: Any) -> None:
        for state in (accelerate().state.AcceleratorState, accelerate().state.GradientState):
            state._reset_state()
        self.accelerator = accelerate().Accelerator(cpu=True, gradient_accumulation_steps=2)
        self.accelerator.state._mixed_precision = "fp16"
        self.accelerator.native_amp = True
        self.accelerator.scaler = scaler
        model = network("cpu")
        optimizer = library.AdamW(model.parameters(), lr=0.01)
        schedule: Any = lr_scheduler.ExponentialLR(optimizer, 0.9)
        if isinstance(scaler, polycast.GradScaler) and library is polycast.syncfree and not scaler._skip_on_host:
            schedule = polycast.SkipAwareLR(optimizer, lambda steps: 0.9**steps, scaler)
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)

    def train(self, first: int, last: int, inside: bool) -> list[Tensor]:
        """Return the losses of these batches; one has a gradient that is not finite."""
        losses = []
        for number, (inputs, targets) in enumerate(data("cpu", STEPS)):
            if not first <= number < last:
                continue
            with self.accelerator.accumulate(self.model):
                loss = loss_fn(self.model(inputs), targets)
                self.accelerator.backward(loss * (float("inf") if number == SKIPPED else 1.0))
                if self.accelerator.sync_gradients and inside:
                    self.accelerator.scaler.clip_grad_norm(self.optimizer, 0.5)
                elif self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 0.5)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
            losses.append(loss.detach())
        return losses


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inside", [False, True], ids=["Accelerate clips", "the scaler clips"])
@pytest.mark.parametrize("on_host", [False, True], ids=["skips on the device", "skips on the host"])
@pytest.mark.parametrize("library", [polycast.syncfree, torch.optim], ids=["sync-free", "torch"])
def test_accelerate(library: Any, on_host: bool, inside: bool, tmp_path: Path) -> None:
    """Clipping, accumulation, a skipped step, and a resume from a checkpoint go stock's way."""
    stock = Accelerated(torch.optim, torch.amp.grad_scaler.GradScaler("cpu", init_scale=SCALE))
    wanted = floats(stock.train(0, STEPS, inside=False))
    rates = stock.schedule.get_last_lr()
    ours = Accelerated(library, polycast.GradScaler("cpu", init_scale=SCALE, skip_on_host=on_host))
    found = floats(ours.train(0, 8, inside))
    assert ours.accelerator.scaler.skip_count(ours.optimizer).item() == 1
    ours.accelerator.save_state(str(tmp_path))
    resumed = Accelerated(library, polycast.GradScaler("cpu", init_scale=SCALE, skip_on_host=on_host))
    resumed.train(0, 2, inside)
    resumed.accelerator.load_state(str(tmp_path))
    found += floats(resumed.train(8, STEPS, inside))
    assert found == pytest.approx(wanted, rel=1e-3)
    assert resumed.schedule.get_last_lr() == pytest.approx(rates)
    assert resumed.accelerator.scaler.get_scale() == stock.accelerator.scaler.get_scale() == SCALE / 2


@pytest.mark.filterwarnings("ignore")
def test_accelerates_schedulers_step_once_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Accelerated(polycast.syncfree, polycast.GradScaler("cpu", init_scale=SCALE))
    monkeypatch.setitem(accelerate().PartialState._shared_state, "num_processes", 2)
    training.train(0, STEPS, inside=True)
    assert training.schedule.get_last_lr() == pytest.approx([0.01 * 0.9 ** (2 * (STEPS // 2 - 1))])


@pytest.mark.usefixtures("world_of_one")
@pytest.mark.filterwarnings("ignore")
def test_a_sharded_checkpoint_is_loaded_before_the_first_batch() -> None:
    """As Accelerate's load_state does for FSDP2, whose optimizer is stepped once to have a state."""
    dcp, wrapper = torch.distributed.checkpoint.state_dict, accelerate().optimizer.AcceleratedOptimizer
    accelerate().Accelerator(cpu=True)  # which its wrapper asks for

    def make() -> tuple[Any, Any, Any]:
        model: Any = torch.distributed.fsdp.fully_shard(network("cpu"), mesh=world.mesh(1))
        scaler = polycast.GradScaler("cpu", init_scale=SCALE)
        optimizer = polycast.syncfree.AdamW(model.parameters(), lr=0.1)
        return model, wrapper(optimizer, device_placement=False, scaler=scaler), scaler

    def iterate(model: Any, optimizer: Any, scaler: Any) -> None:
        inputs, targets = next(data("cpu"))
        scaler.scale(loss_fn(model(inputs), targets)).backward()
        optimizer.step()
        optimizer.zero_grad()

    (model, optimizer, scaler), (resumed, resumed_optimizer, resumed_scaler) = first, second = make(), make()
    iterate(*first)
    resumed_scaler.load_state_dict(scaler.state_dict())
    resumed_scaler._lazy_init_scale_growth_tracker(resumed_scaler._device)
    dcp.set_optimizer_state_dict(resumed, resumed_optimizer, deepcopy(dcp.get_optimizer_state_dict(model, optimizer)))
    resumed.load_state_dict(model.state_dict())
    for each in (first, second):
        iterate(*each)
    assert all(map(torch.equal, map(whole, resumed.parameters()), map(whole, model.parameters())))
    assert resumed_scaler.get_scale() == scaler.get_scale()


@pytest.mark.filterwarnings("ignore")
def test_lightning(tmp_path: Path) -> None:
    """It takes the scaler as a part of its plugin, and the schedule as any scheduler of torch's."""
    lightning = package("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self, library: Any, scaler: Any) -> None:
            super().__init__()
            self.network, self.library, self.amp = network("cpu"), library, scaler
            self.losses: list[Tensor] = []

        def training_step(self, batch: Any, _: int) -> Tensor:
            loss: Tensor = loss_fn(self.network(batch[0]), batch[1])
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = self.library.AdamW(self.parameters(), lr=0.01)
            schedule: Any = lr_scheduler.ExponentialLR(optimizer, 0.9)
            if self.library is polycast.syncfree:
                schedule = polycast.SkipAwareLR(optimizer, lambda steps: 0.9**steps, self.amp)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def losses(library: Any, scaler: Any) -> list[float]:
        module = Module(library, scaler)
        plugin = lightning.plugins.MixedPrecision("16-mixed", "cpu", scaler)
        trainer = lightning.Trainer(
            accelerator="cpu", plugins=[plugin], max_epochs=1, gradient_clip_val=0.5, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tmp_path,
        )  # fmt: skip
        batches: Any = list(data("cpu", STEPS))
        trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
        return floats(module.losses)

    wanted = losses(torch.optim, torch.amp.grad_scaler.GradScaler("cpu", init_scale=SCALE))
    for library in (polycast.syncfree, torch.optim):
        found = losses(library, polycast.GradScaler("cpu", init_scale=SCALE))
        assert len(found) == STEPS
        assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_adapters_merged_into_kept_weights_are_seen() -> None:
    peft = package("peft")
    model = peft.get_peft_model(network("cpu"), peft.LoraConfig(target_modules=["0", "2"], init_lora_weights=False))
    polycast.cast_cache.keep(model)
    inputs = next(data("cpu"))[0]

    def outputs() -> Tensor:
        with torch.no_grad(), polycast.autocast("cpu"):
            result: Tensor = model(inputs)
        return result.float()

    before = outputs()
    with model.disable_adapter():
        base = outputs()
    assert not torch.allclose(before, base, atol=0.1)
    model.merge_adapter()
    assert torch.allclose(outputs(), before, atol=0.1)
    model.unmerge_adapter()
    with model.disable_adapter():
        assert torch.allclose(outputs(), base, atol=0.1)
