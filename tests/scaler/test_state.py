"""The scale and what is kept of it: torch's trajectory, torch's state_dict in both directions, bounds, copies."""

import copy
import pickle
import random
from collections.abc import Iterator
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch.amp.grad_scaler import GradScaler as Scaler

INF, NAN = float("inf"), float("nan")
OPTIONS: dict[str, Any] = {"init_scale": 1024.0, "growth_factor": 1.7, "backoff_factor": 0.4, "growth_interval": 3}


class Loop:
    """A scaler and an optimizer of one parameter; an iteration is told which gradient it finds."""

    def __init__(self, scaler: Scaler, library: Any) -> None:
        self.param = torch.ones((), requires_grad=True)
        self.optimizer: torch.optim.Optimizer = library.SGD([self.param], lr=0.0)
        self.start(scaler)

    def start(self, scaler: Scaler) -> None:
        self.scaler = scaler
        scaler.scale(torch.ones(()))

    def iterate(self, grad: float) -> float:
        self.param.grad = torch.tensor(grad)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale()


def gradients(number: int) -> Iterator[float]:
    """In turn a short span in which half of the gradients are not finite, and a long one in which few are."""
    chance = random.Random(0)
    while number > 0:
        for shortest, share in ((100, 0.5), (400, 0.02)):
            span = min(chance.randint(shortest, 2 * shortest), number)
            number -= span
            for _ in range(span):
                yield chance.choice([INF, -INF, NAN]) if chance.random() < share else 1.0


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_5000_scales_are_torchs_through_checkpoints_in_both_directions(library: Any) -> None:
    ours, theirs = Loop(polycast.GradScaler(**OPTIONS), library), Loop(Scaler("cpu", **OPTIONS), torch.optim)
    scales = []
    for number, grad in enumerate(gradients(5000)):
        scales.append(ours.iterate(grad))
        assert scales[-1] == theirs.iterate(grad), number
        if number % 97 == 96:
            mine, his = ours.scaler.state_dict(), theirs.scaler.state_dict()
            assert mine == his
            ours.start(polycast.GradScaler())
            theirs.start(Scaler("cpu"))
            ours.scaler.load_state_dict(his)
            theirs.scaler.load_state_dict(mine)
    assert len(scales) == 5000
    assert max(scales) > 1e38  # as far as float32 goes
    assert 0 < min(scales) < 1e-10


@pytest.mark.parametrize("scaled_before", [False, True])
def test_a_state_is_loaded_before_or_after_the_first_scale(scaled_before: bool) -> None:
    saved = Loop(Scaler("cpu", **OPTIONS), torch.optim)
    for grad in (1.0, INF, 1.0, 1.0):
        saved.iterate(grad)
    scaler = polycast.GradScaler()
    if scaled_before:
        scaler.scale(torch.ones(()))
    scaler.load_state_dict(saved.scaler.state_dict())
    loop = Loop(scaler, syncfree)
    for grad in (1.0, 1.0, INF, 1.0):
        assert loop.iterate(grad) == saved.iterate(grad)
    assert scaler.state_dict() == saved.scaler.state_dict()


def test_the_empty_state_of_a_disabled_scaler_is_refused_as_torch_refuses_it() -> None:
    with pytest.raises(RuntimeError) as theirs:
        Scaler("cpu").load_state_dict({})
    with pytest.raises(RuntimeError) as ours:
        polycast.GradScaler().load_state_dict(polycast.GradScaler(enabled=False).state_dict())
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(
    ("bounds", "grads", "scales"),
    [
        ({"min_scale": 2.0}, [INF] * 4, [4.0, 2.0, 2.0, 2.0]),
        ({"min_scale": 3.0}, [INF, INF, NAN, 1.0], [4.0, 3.0, 3.0, 6.0]),
        ({"max_scale": 20.0}, [1.0, 1.0, 1.0, INF], [16.0, 20.0, 20.0, 10.0]),
        ({"min_scale": 8.0, "max_scale": 8.0}, [1.0, INF], [8.0, 8.0]),
        ({}, [1.0, INF, INF], [16.0, 8.0, 4.0]),
    ],
    ids=str,
)
def test_the_scale_stays_within_its_bounds(bounds: dict[str, Any], grads: list[float], scales: list[float]) -> None:
    loop = Loop(polycast.GradScaler(init_scale=8.0, growth_interval=1, **bounds), syncfree)
    assert [loop.iterate(grad) for grad in grads] == scales


@pytest.mark.parametrize("bounds", [(9.0, 16.0), (0.0, 7.0), (9.0, 7.0), (NAN, 9.0)])
def test_bounds_enclose_the_first_scale(bounds: tuple[float, float]) -> None:
    low, high = bounds
    text = (
        f"init_scale is 8.0, outside of min_scale={low or 2.0**-126} and max_scale={high}; choose bounds that enclose"
    )
    with pytest.raises(ValueError) as error:
        polycast.GradScaler(init_scale=8.0, min_scale=low, max_scale=high)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"device": 65536.0}, TypeError, "the device is 65536.0; give a text such as 'cpu', or a torch.device"),
        ({"device": "cuad"}, ValueError, "polycast has no device 'cuad' in its policy; it has .*did you mean 'cuda'?"),
        ({"init_scale": 0.0}, ValueError, "init_scale is 0.0, outside of min_scale=1.17"),
        ({"enabled": "False"}, TypeError, "enabled is 'False'; it takes True or False"),
        ({"report_skips": "no"}, TypeError, "report_skips is 'no'; it takes True or False"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace("?", r"\?")):
        polycast.GradScaler(**arguments)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda scaler: pickle.loads(pickle.dumps(scaler))])
@pytest.mark.parametrize("started", [False, True])
def test_a_copy_goes_on_by_itself(duplicate: Any, started: bool) -> None:
    scaler = polycast.GradScaler(init_scale=8.0, growth_interval=2, max_scale=16.0, report_skips=True)
    if started:
        Loop(scaler, syncfree).iterate(1.0)
    twin: polycast.GradScaler = duplicate(scaler)
    assert twin.state_dict() == scaler.state_dict()
    loop = Loop(twin, syncfree)
    assert [loop.iterate(1.0) for _ in range(5)] == ([16.0] * 5 if started else [8.0, 16.0, 16.0, 16.0, 16.0])
    assert scaler.get_scale() == 8.0
    assert twin.skip_count(loop.optimizer).item() == 0


def test_in_the_middle_of_an_iteration_there_is_no_pickle() -> None:
    texts = []
    for scaler in (polycast.GradScaler(), Scaler("cpu")):
        loop = Loop(scaler, torch.optim)
        loop.param.grad = torch.ones(())
        scaler.unscale_(loop.optimizer)
        with pytest.raises(AssertionError) as error:
            pickle.dumps(scaler)
        texts.append(str(error.value))
    assert texts[0] == texts[1]
