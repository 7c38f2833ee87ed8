"""Steps and changes between them in any order, against torch.optim in float64; and what torch.optim cannot be asked."""

import pytest
import torch
from torch import nn

from tests.optimizers import KINDS, OURS, PATHS, make, set_grads
from tools.random_steps import CHANGES, compare_all


def test_random_programs_are_torchs() -> None:
    counts = compare_all(range(60), PATHS)
    assert counts.keys() == CHANGES.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_can_be_swapped_between_steps(kind: str) -> None:
    """Torch refuses to swap a tensor that anything else refers to."""
    param, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    optimizer = make(OURS, kind, [param])
    set_grads([param], 0)
    optimizer.step()
    torch.utils.swap_tensors(param, other)  # type: ignore[no-untyped-call]
    set_grads([param], 1)
    before = other.detach().clone()
    optimizer.step()
    assert torch.equal(other, before)
    assert (param != 1).all()
