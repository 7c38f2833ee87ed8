"""The scale and what is kept of it: bounds, copies, states, and questions; its rule is in the random programs."""

import copy
import json
import pickle
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import INF, NAN, Loop, started

SMALLEST = torch.finfo(torch.float32).tiny


@pytest.mark.parametrize(
    ("bounds", "grads", "scales"),
    [
        ({"min_scale": 2.0}, [INF] * 4, [4.0, 2.0, 2.0, 2.0]),
        ({"min_scale": 3.0}, [INF, INF, NAN, 1.0], [4.0, 3.0, 3.0, 6.0]),
        ({"max_scale": 20.0}, [1.0, 1.0, 1.0, INF], [16.0, 20.0, 20.0, 10.0]),
        ({"min_scale": 8.0, "max_scale": 8.0}, [1.0, INF], [8.0, 8.0]),
        ({}, [1.0, INF, INF], [16.0, 8.0, 4.0]),
        ({"backoff_factor": 0.0}, [INF, 1.0], [SMALLEST, 2 * SMALLEST]),
    ],
    ids=str,
)
def test_the_scale_stays_within_its_bounds(bounds: dict[str, Any], grads: list[float], scales: list[float]) -> None:
    loop = Loop(polycast.GradScaler(**{"init_scale": 8.0, "growth_interval": 1} | bounds))
    assert [loop.iterate(grad) for grad in grads] == scales


@pytest.mark.parametrize(
    ("way", "library"),
    [("skips", syncfree), ("skips", torch.optim), ("update", syncfree), ("load_state_dict", syncfree)],
)
def test_the_scale_is_never_0_and_a_good_batch_after_it_is_stepped(way: str, library: Any) -> None:
    """With a scale of 0 torch's scaler writes NaN to the weights."""
    weight = torch.ones(2, requires_grad=True)
    optimizer, scaler = library.SGD([weight], lr=1.0), started(growth_interval=1, init_scale=1.0)
    if way == "update":
        scaler.update(0.0)
    elif way == "load_state_dict":
        scaler.load_state_dict(scaler.state_dict() | {"scale": 0.0})
    for factor in [INF] * (200 if way == "skips" else 0) + [1.0] * 3:
        scaler.scale(factor * weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert weight.tolist() == [-2.0, -2.0]
    assert scaler.get_scale() == 8 * SMALLEST


@pytest.mark.parametrize(
    ("duplicate", "is_started"),
    [(copy.deepcopy, False), (copy.deepcopy, True), (lambda scaler: pickle.loads(pickle.dumps(scaler)), True)],
)
def test_a_copy_goes_on_by_itself(duplicate: Any, is_started: bool) -> None:
    scaler = polycast.GradScaler(init_scale=8.0, growth_interval=2, max_scale=16.0, skip_on_host=True)
    if is_started:
        Loop(scaler).iterate(1.0)
    twin: polycast.GradScaler = duplicate(scaler)
    assert (twin.state_dict(), repr(twin)) == (scaler.state_dict(), repr(scaler))
    loop = Loop(twin)
    assert [loop.iterate(1.0) for _ in range(5)] == [16.0 if is_started else 8.0, 16.0, 16.0, 16.0, 16.0]
    assert scaler.get_scale() == 8.0
    assert twin.skip_count(loop.optimizer).item() == 0


def test_the_settings_are_shown() -> None:
    settings = "growth_factor=2, backoff_factor=0.5, growth_interval=2000, min_scale=1, max_scale=inf"
    scaler = polycast.GradScaler("cpu", min_scale=1.0)
    assert repr(scaler) == f"GradScaler(device='cpu', init_scale=65536, {settings}, skip_on_host=False)"
    assert repr(polycast.GradScaler(enabled=False)) == "GradScaler(enabled=False)"


def test_what_is_asked_without_an_optimizer_is_asked_of_the_one_there_is() -> None:
    loop = Loop(polycast.GradScaler())
    for grad in (1.0, INF):
        loop.iterate(grad)
    skipped, count = loop.scaler.skipped(), loop.scaler.skip_count()
    assert (skipped.item(), skipped.dtype, count.item(), count.dtype) == (True, torch.bool, 1, torch.int64)
    assert loop.scaler.non_finite() == ["param_groups[0]['params'][0]"]
    disabled = Loop(polycast.GradScaler(enabled=False))
    disabled.iterate(1.0)
    assert (disabled.scaler.skipped(), disabled.scaler.skip_count(), disabled.scaler.non_finite()) == (False, 0, [])


def test_an_optimizer_that_is_gone_is_not_counted() -> None:
    scaler = started()
    for _ in range(2):
        param = torch.ones(1, requires_grad=True)
        param.grad = torch.full((1,), INF)
        optimizer = syncfree.SGD([param], lr=1.0)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.skip_count() == 1
        del optimizer


def test_a_state_is_text_and_numbers_as_torchs() -> None:
    states = []
    for scaler in (polycast.GradScaler("cpu"), Scaler("cpu")):
        scaler.scale(torch.ones(1))
        scaler.update(128.0)
        states.append(json.dumps(scaler.state_dict()))
    assert states[0] == states[1]
    ours = started()
    ours.update(128)  # a whole number
    assert json.dumps(ours.state_dict()["scale"]) == "128.0"
