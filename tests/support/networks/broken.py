"""Trainings that learn in float32 and not under autocast."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.support.networks.training import Training, training
from tests.support.networks.working import classify, images


class RootMeanSquare(nn.Module):
    """A norm whose squares are computed in the dtype of its input, where 65504 is the largest float16."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Overflowing(nn.Module):
    """A residual network whose stream grows to some hundreds, so that its last norm overflows in float16."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.blocks = nn.ModuleList(nn.Sequential(RootMeanSquare(), nn.Linear(64, 64), nn.ReLU()) for _ in range(2))
        self.norm, self.head = RootMeanSquare(), nn.Linear(64, 10)
        self.blocks[-1].get_parameter("1.weight").data.mul_(2000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.first(images.flatten(1))
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class LargeMean(nn.Sequential):
    """A network for numbers far from zero, whose BatchNorm subtracts the mean that bfloat16 cannot hold with them."""

    def __init__(self) -> None:
        body = (nn.Conv2d(1, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64), nn.ReLU())
        super().__init__(*body, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images + 200)  # type: ignore[no-any-return, no-untyped-call]


def overflow(device: str, dtype: torch.dtype | None = torch.float16, steps: int = 30) -> Training:
    """A float16 network with a norm that overflows, on the digits."""
    return training("overflow", Overflowing, classify, images(64, steps), device, dtype)


def large_mean(device: str, dtype: torch.dtype | None = torch.bfloat16, steps: int = 30) -> Training:
    """A BatchNorm of large mean in bfloat16, on the digits."""
    return training("large mean", LargeMean, classify, images(64, steps), device, dtype)


BROKEN: dict[str, Callable[..., Training]] = {"overflow": overflow, "large mean": large_mean}
