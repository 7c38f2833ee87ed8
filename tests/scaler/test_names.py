"""Names that people type on a gradient scaler, from other scalers: each error says what to write here."""

import json
import re

import polycast
import pytest
import torch
from polycast import syncfree
from polycast.scaler import names
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import INF, Loop, started

# What is typed, and what the error says to write.
TYPED = """\
clip_grad_norm_: scaler.clip_grad_norm(optimizer, max_norm)
clip_gradients: scaler.clip_grad_norm(optimizer, max_norm)
clip_grad_value_: scaler.unscale_(optimizer), then torch.nn.utils.clip_grad_value_
step_was_skipped: scaler.skipped()
found_inf: scaler.skipped()
has_overflow: scaler.skipped()
num_skipped: scaler.skip_count()
loss_scale: scaler.get_scale()
set_scale: scaler.update(new_scale)
backward: scaler.scale(loss).backward()
scale_loss: scaler.scale(loss).backward()
unscale_grads: scaler.unscale_(optimizer)
minimize: scaler.step(optimizer), then update()
enabled: scaler.is_enabled()
growth_interval: scaler.get_growth_interval()
""".splitlines()


@pytest.mark.parametrize(("name", "remedy"), [line.split(": ") for line in TYPED])
def test_a_name_of_another_scaler_says_what_to_write(name: str, remedy: str) -> None:
    scaler = polycast.GradScaler("cpu")
    with pytest.raises(
        AttributeError, match=re.escape(f"'GradScaler' object has no attribute {name!r}; write {remedy}")
    ):
        getattr(scaler, name)
    assert not hasattr(scaler, name)
    assert getattr(scaler, name, "default") == "default"


def test_the_names_are_free_and_what_is_to_be_written_exists() -> None:
    for name, remedy in names._REMEDIES.items():
        assert not hasattr(Scaler, name) and not hasattr(polycast.GradScaler, name)
        assert hasattr(polycast.GradScaler, remedy.partition("(")[0])


@pytest.mark.parametrize("name", ["updat", "_growth", "__len__"])
def test_any_other_name_is_missed_as_in_torch(name: str) -> None:
    scaler = polycast.GradScaler("cpu")
    with pytest.raises(AttributeError, match=f"^'GradScaler' object has no attribute '{name}'$") as caught:
        getattr(scaler, name)
    assert (caught.value.name, caught.value.obj) == (name, scaler)  # by which Python suggests a similar one


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


def test_a_new_scale_may_be_a_whole_number() -> None:
    scaler = started()
    scaler.update(128)
    assert scaler.get_scale() == 128.0
