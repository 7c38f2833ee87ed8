"""A gradient's way through `scaler.step(optimizer)`: how many functions of ours it takes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree

from tests.scaler.common import started
from tests.support.xla import EACH_DEVICE

PACKAGE = os.path.dirname(polycast.__file__)  # noqa: PTH120 -- co_filename is text
MOST = {"cpu": 32, "xla": 45}


@contextmanager
def frames() -> Iterator[list[str]]:
    """Yield a list of the calls of Python functions whose code lies in the package."""
    called: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        is_function = not frame.f_code.co_name.startswith("<")  # newer Pythons inline comprehensions
        if event == "call" and is_function and frame.f_code.co_filename.startswith(PACKAGE):
            called.append(f"{os.path.relpath(frame.f_code.co_filename, PACKAGE)}: {frame.f_code.co_name}")

    sys.setprofile(note)
    yield called
    sys.setprofile(None)


@EACH_DEVICE
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_a_step_takes_few_functions(kind: str, device: str) -> None:
    params = [torch.ones(2, 3, device=device).requires_grad_() for _ in range(3)]
    optimizer, scaler = getattr(syncfree, kind)(params, lr=0.1), started()
    for _ in range(3):  # the state and what XLA compiles are there by then
        scaler.scale(torch.ones(1, device=device))
        for param in params:
            param.grad = torch.ones_like(param)
        with frames() as called:
            scaler.step(optimizer)
        scaler.update()
    assert len(called) <= MOST[device], called
