"""The models that benchmarks/cast_cache.py measures."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def mlp() -> nn.Module:
    """Four linear layers of 2048."""
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())))


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.around = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.relu(self.body(x) + self.around(x))
        return out


def resnet() -> nn.Module:
    """A network like ResNet-18, for images of 32 x 32."""
    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [block for a, b, stride in stages for block in (Block(a, b, stride), Block(b, b, 1))]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), *blocks, *head)


def transformer() -> nn.Module:
    """Six layers of 512, without dropout."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


MODELS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "resnet": resnet, "transformer": transformer}


def inputs(name: str, batch: int) -> Tensor:
    """Return a batch for a model."""
    return torch.rand(batch, *{"mlp": (2048,), "resnet": (3, 32, 32), "transformer": (32, 512)}[name])


class AdaptedLinear(nn.Module):
    """A frozen linear layer with a low-rank one beside it."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.up(self.down(x))
        return out


class Adapted(nn.Module):
    """A model whose weights are frozen, with adapters at its linear layers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.requires_grad_(False)
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear:
                    setattr(module, name, AdaptedLinear(child))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.model(x)
        return out
