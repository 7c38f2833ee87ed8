"""Regions inside of what torch.jit.script compiles: they are torch.autocast's there."""

import polycast
import pytest
import torch
from torch import Tensor, nn


class Layer(nn.Module):
    """A linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)


class Ours(Layer):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with polycast.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with polycast.autocast("cpu", enabled=False):
                z = self.linear(x)
        with polycast.autocast("cpu"):
            return y, z, y.softmax(0) @ x


class Torchs(Layer):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with torch.autocast("cpu", enabled=False):
                z = self.linear(x)
        with torch.autocast("cpu"):
            return y, z, y.softmax(0) @ x


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_scripted_region_is_torchs() -> None:
    x = torch.ones(4, 4)
    ours, theirs = torch.jit.script(Ours())(x), torch.jit.script(Torchs())(x)
    assert [y.dtype for y in ours] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert [y.dtype for y in theirs] == [y.dtype for y in ours]
    assert all(map(torch.equal, ours, theirs))
