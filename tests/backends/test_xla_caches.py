"""What is kept of the computations and numbers that steps on XLA use again."""

import pytest
import torch
from polycast.backends.xla_kernels import computation
from torch import Tensor

GROUPS = 600


def test_computations_of_many_groups_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    monkeypatch.setattr(computation, "_computations", {})
    monkeypatch.setattr(computation, "_built", lambda _, inputs: built.append(inputs[0].numel()))
    tensors: list[Tensor] = [torch.empty(size) for size in range(GROUPS)]
    for _ in range(3):
        for tensor in tensors:
            computation._computation("rule", lambda ops: ops, [tensor])
    assert built == list(range(GROUPS))


def test_numbers_of_many_groups_are_sent_once() -> None:
    device = torch.device("cpu")
    first, again = ([computation.upload((float(number),), device, number) for number in range(GROUPS)] for _ in "12")
    assert all(left is right for left, right in zip(first, again, strict=True))
