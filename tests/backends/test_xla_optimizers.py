"""The sync-free optimizers on XLA: torch.optim's steps and state, no sync, nothing compiled twice."""

from typing import Any

import pytest
import torch
from polycast import syncfree

from tests.support.optimizers import OURS, parameters, set_grads
from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.xla import Traffic, on_xla, set_lr, sync

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

SHAPES = ((7,), (3, 5), (), (0, 2))
STEPS = 40
BETA1, DECAY, EPS = 0.9, 0.01, 1e-8
# Numbers that torch_xla would make constants of the graph, or that another factor of the arithmetic equals.
LRS = [1e-3, 0.0, 1.0, EPS, BETA1, 1 - BETA1, DECAY, 2e-3]
SHARED: dict[str, Any] = {"lr": 1e-3, "weight_decay": DECAY}
COUNTED = {
    "SGD": {**SHARED, "momentum": BETA1},
    "Adam": {**SHARED, "betas": (BETA1, 0.99), "eps": EPS, "amsgrad": True},
    "AdamW": {**SHARED, "betas": (BETA1, 0.99), "eps": EPS},
}


@pytest.mark.parametrize(("kind", "place"), [("SGD", "float"), ("Adam", "xla"), ("AdamW", "float"), ("AdamW", "host")])
def test_steps_read_nothing_and_compile_twice_at_most(kind: str, place: str) -> None:
    params = on_xla(parameters(*SHAPES))
    optimizer = OURS[kind](params, **COUNTED[kind])
    set_grads(params, 0)
    flags = [torch.tensor(float(skip)).to("xla") for skip in (False, True)]
    traffic, compiles = Traffic(), []
    for number in range(STEPS):
        lr = LRS[number % len(LRS)]
        set_lr(optimizer, lr if place == "float" else torch.tensor([lr]).to("cpu" if place == "host" else "xla"))
        optimizer.step(found_inf=flags[number % 5 == 3])
        sync()
        compiles.append(traffic.compiles())
    assert compiles[1:] == [compiles[1]] * (STEPS - 1)
    assert traffic.reads() == 0
    if kind != "SGD":
        assert {values["step"].item() for values in optimizer.state.values()} == {STEPS - STEPS // 5}


def test_learning_rates_that_stop_being_equal_compile_nothing() -> None:
    params = on_xla(parameters(*SHAPES))
    optimizer = OURS["AdamW"]([{"params": params[:2]}, {"params": params[2:]}], **COUNTED["AdamW"])
    set_grads(params, 0)
    traffic, compiles = Traffic(), []
    for number in range(6):
        for group, lr in zip(optimizer.param_groups, (1e-3, 1e-3 if number < 3 else 2e-3 * number), strict=True):
            group["lr"] = lr
        optimizer.step()
        sync()
        compiles.append(traffic.compiles())
    assert compiles[1:] == [compiles[1]] * 5


def test_optimizer_step_of_torch_xla() -> None:
    """Seed 000 and 003: xm.optimizer_step, with its arguments for the step."""
    import torch_xla.core.xla_model as xm

    params = on_xla(parameters((3,)))
    optimizer = syncfree.SGD(params, lr=1.0)
    before = params[0].tolist()
    for found_inf in (1.0, 0.0):
        set_grads(params, 0)
        xm.optimizer_step(optimizer, barrier=True, optimizer_args={"found_inf": torch.tensor(found_inf).to("xla")})
        assert (params[0].tolist() == before) == bool(found_inf)
