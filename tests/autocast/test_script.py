"""Regions inside of what torch.jit.script compiles: they are torch.autocast's there, with its limits."""

from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit")


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


def test_a_scripted_region_is_torchs() -> None:
    x = torch.ones(4, 4)
    ours, theirs = torch.jit.script(Ours())(x), torch.jit.script(Torchs())(x)
    assert [y.dtype for y in ours] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert [y.dtype for y in theirs] == [y.dtype for y in ours]
    assert all(map(torch.equal, ours, theirs))


class NoDevice(Layer):
    def forward(self, x: Tensor) -> Tensor:
        with polycast.autocast():
            return self.linear(x)  # type: ignore[no-any-return]


class NoConstant(Layer):
    def forward(self, x: Tensor, enabled: bool = True) -> Tensor:
        with polycast.autocast("cpu", enabled=enabled):
            return self.linear(x)  # type: ignore[no-any-return]


@polycast.autocast("cpu")
def decorated(x: Tensor) -> Tensor:
    return x @ x


class Decorated(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return decorated(x)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (NoDevice, "Argument device_type not provided"),
        (NoConstant, "Autocast _enabled argument must be a constant"),
        (Decorated, r"@autocast\(\) decorator is not supported in script mode"),
    ],
)
def test_what_a_scripted_region_cannot_be_is_told(module: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch.jit.script(module())(torch.ones(4, 4))
