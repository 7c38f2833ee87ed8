"""The errors of ``trace``, ``watch``, ``compare`` and ``bisect``; ``errors.txt`` has their texts."""

from collections.abc import Callable

import polycast
import pytest
import torch
from polycast.debug import bisect, compare, trace, watch
from torch import nn

from tests.support.recorded_errors import RecordedError


def wrong() -> bool:
    raise RuntimeError("no such file")


def nothing() -> None:
    pass


def stepping() -> object:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return compare(lambda: (model(torch.ones(1, 2)).sum().backward(), optimizer.step()), model)


def in_a_region() -> bool:
    with polycast.autocast("cpu", policy={"mm": "bfloat16"}):
        return torch.ones(2, 2).mm(torch.ones(2, 2)).dtype is torch.float32


def within(outer: type, inner: type) -> None:
    with outer(nn.ReLU()), inner(nn.ReLU()):
        pass


ERRORS: dict[str, Callable[[], object]] = {
    "trace: no model": lambda: trace("resnet"),  # type: ignore[arg-type]
    "trace: not ended": lambda: trace().by_op(),
    "trace: within a watch": lambda: within(watch, trace),
    "watch: within a trace": lambda: within(trace, watch),
    "trace: within a comparison": lambda: compare(lambda: trace().__enter__()),
    "watch: no model": lambda: watch("resnet"),  # type: ignore[arg-type]
    "watch: an optimizer for a model": lambda: watch(torch.optim.SGD([torch.ones(1)])),  # type: ignore[arg-type]
    "watch: no optimizer": lambda: watch(nn.ReLU(), "adam"),  # type: ignore[arg-type]
    "compare: no function": lambda: compare(3),  # type: ignore[arg-type]
    "compare: a module": lambda: compare(nn.Tanh()),
    "compare: no model": lambda: compare(nothing, "resnet"),  # type: ignore[arg-type]
    "compare: a program that steps": stepping,
    "compare: no policy": lambda: compare(nothing, reference=32),  # type: ignore[arg-type]
    "bisect: bad under good": lambda: bisect(list),
    "bisect: raises under good": lambda: bisect(wrong),
    "bisect: good under bad": lambda: bisect(lambda: 1),
    "bisect: rules of a region": lambda: bisect(in_a_region),
    "bisect: good in all runs of bad": lambda: bisect(lambda: 1, repeat=3),
    "bisect: no result": lambda: bisect(nothing),
    "bisect: equal policies": lambda: bisect(list, good=None),
    "bisect: True for repeat": lambda: bisect(list, repeat=True),
    "bisect: rules for modules": lambda: bisect(list, bad={"models": {"Net": {"": "fp32"}}}),
    "bisect: no model": lambda: bisect(list, model="net"),  # type: ignore[arg-type]
    "bisect: in a trace": lambda: within(trace, lambda _: bisect(list)),  # type: ignore[arg-type]
    "bisect: no policy": lambda: bisect(list, bad="softmax"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_mistake_raises(name: str, recorded_error: RecordedError) -> None:
    with recorded_error():
        ERRORS[name]()
