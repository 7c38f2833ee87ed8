"""The tasks of the table: one small problem for all trainers, with polycast's or PyTorch's classes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polycast
import torch
from torch import Tensor, nn

STEPS = 8
BATCH = 8
LR = 0.02
SCALE = 2.0**12


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run."""

    name: str
    precision: str = "float16"
    clip: float = 0.0  # Gradients are clipped to this norm. 0 disables clipping.
    accumulate: int = 1  # A step uses this number of batches.
    schedule: bool = False  # If true, each taken step multiplies the learning rate by 0.8.
    bad: int | None = None  # The first batch of this step contains an infinity.
    resume: int = 0  # After this step, new objects load the saved state. 0 means never.

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.precision)  # type: ignore[no-any-return]

    @property
    def scales(self) -> bool:
        return self.precision == "float16"


RECIPES = (
    Recipe("float32", "float32"),
    Recipe("bfloat16", "bfloat16"),
    Recipe("bfloat16, clipped", "bfloat16", clip=0.5),
    Recipe("float16"),
    Recipe("float16, clipped", clip=0.5),
    Recipe("float16, accumulated", accumulate=2),
    Recipe("float16, a skip", bad=3),
    Recipe("float16, schedule, a skip", schedule=True, bad=3),
    Recipe("float16, resumed", resume=4),
    Recipe("float16, all of it", clip=0.5, accumulate=2, schedule=True, bad=3, resume=5),
)


class Trained(NamedTuple):
    """The results of a training run."""

    weights: list[Tensor]
    losses: list[float]
    dtype: str  # The model's outputs have this dtype.
    rate: float  # This is the last learning rate.


@dataclass(frozen=True)
class Kit:
    """A recipe, and whether its classes are polycast's or PyTorch's."""

    recipe: Recipe
    ours: bool
    line: bool  # If true, the run has the line that the trainer needs.
    folder: Path
    losses: list[Tensor] = field(default_factory=list, compare=False)
    dtypes: list[torch.dtype] = field(default_factory=list, compare=False)

    def optimizer(self, params: Any) -> Any:
        library: Any = polycast.syncfree if self.ours else torch.optim
        # With the default `eps` of 1e-8, Adam takes a full step even if the gradient has only rounding errors.
        return library.AdamW(params, lr=LR, eps=1e-3)

    def scaler(self) -> Any:
        make: Any = polycast.GradScaler if self.ours else torch.amp.grad_scaler.GradScaler
        return make("cpu", init_scale=SCALE, enabled=self.recipe.scales)

    def schedule(self, optimizer: Any, scaler: Any = None) -> Any:
        """Return a decreasing schedule, or None if the recipe has none. With our scaler, it is a ``SkipAwareLR``."""
        if not self.recipe.schedule:
            return None
        if self.ours and scaler is not None:
            return polycast.SkipAwareLR(optimizer, lambda steps: 0.8**steps, scaler)
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)

    def autocast(self) -> Any:
        enabled = self.recipe.precision != "float32"
        region: Any = polycast.autocast if self.ours else torch.autocast
        return region("cpu", dtype=self.recipe.dtype if enabled else None, enabled=enabled)

    def task(self) -> "Task":
        torch.manual_seed(0)
        return Task(self)

    def trained(self, task: nn.Module, optimizer: Any) -> Trained:
        weights = [param.detach().clone() for param in task.parameters() if param.requires_grad]
        rate = float(optimizer.param_groups[0]["lr"])
        return Trained(weights, torch.stack(self.losses).tolist(), str(self.dtypes[-1]), rate)


class Task(nn.Module):
    """A model with its loss. It records the losses and dtypes of training, so that no trainer needs to expose them."""

    def __init__(self, kit: Kit) -> None:
        super().__init__()
        # The activation is smooth, because a ReLU may be zero in only one of two runs with different roundings.
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
        self._losses, self._dtypes = kit.losses, kit.dtypes

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        outputs = self.net(inputs)
        loss = nn.functional.mse_loss(outputs.float(), labels)
        if self.training:
            self._losses.append(loss.detach())
            self._dtypes.append(outputs.dtype)
        return {"loss": loss, "logits": outputs}


def batches(recipe: Recipe, first: int = 0, last: int = STEPS) -> list[dict[str, Tensor]]:
    """Return the batches of all steps in order, or of some steps."""
    generator = torch.Generator().manual_seed(1)
    weight, found = torch.randn(8, 2, generator=generator), []
    for number in range(STEPS * recipe.accumulate):
        inputs = torch.randn(BATCH, 8, generator=generator)
        labels = inputs @ weight
        if recipe.bad is not None and number == recipe.bad * recipe.accumulate:
            inputs[0] = float("inf")
        found.append({"inputs": inputs, "labels": labels})
    return found[first * recipe.accumulate : last * recipe.accumulate]
