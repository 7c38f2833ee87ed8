"""The number of Python functions and files in each walkthrough of CONTRIBUTING.md.

python -m tests.support.walkthroughs
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import polycast
import torch

from codegen import __main__ as codegen
from tests.support.probe import HAS_XLA


def calls_in(task: Callable[[], object], prepare: Callable[[], object] = list) -> list[CodeType]:
    """Return polycast's functions in the order of a task's calls, in its second run, each after ``prepare``."""
    folders = tuple(str(Path(str(module.__file__)).parent) for module in (polycast, codegen))
    calls: list[CodeType] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            calls.append(frame.f_code)

    prepare()
    task()
    prepare()
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return calls


def rule_to_cast() -> None:
    with polycast.autocast("cpu", policy=polycast.Policy({"linear": "fp32"})):
        torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2))


def traced_call() -> object:
    with polycast.debug.trace() as trace, polycast.autocast("cpu"):
        torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2))
    return trace.calls[0]


def steps(device: str) -> dict[str, list[CodeType]]:
    """Return the calls of a step with a sync-free optimizer on a device, alone and with clipping and ``update``."""
    parameter = torch.nn.Parameter(torch.ones(4, device=device))
    optimizer, scaler = polycast.syncfree.AdamW([parameter]), polycast.GradScaler(device)

    def backward() -> None:
        torch.autograd.backward(scaler.scale(parameter.sum()))
        scaler.update(1.0)  # After it, another step is allowed.

    def whole() -> None:
        scaler.clip_grad_norm(optimizer, 1.0)
        scaler.step(optimizer)
        scaler.update()

    step = partial(scaler.step, optimizer)
    return {
        f"clip_grad_norm, step, update: {device}": calls_in(whole, backward),
        f"step: {device}": calls_in(step, backward),
    }


if __name__ == "__main__":
    TASKS = {
        "policy.yaml to files": calls_in(partial(codegen.main, ["--check"])),
        "a rule to a cast": calls_in(rule_to_cast),
    }
    TASKS |= steps("cpu") | (steps("xla") if HAS_XLA else {}) | {"a traced call": calls_in(traced_call)}
    print(f"{'task':<40}{'calls':>8}{'functions':>11}{'files':>7}{'changes':>9}")
    for name, calls in TASKS.items():
        files = [code.co_filename for code in calls]
        changes = sum(before != after for before, after in pairwise(files))
        print(f"{name:<40}{len(calls):>8}{len(set(calls)):>11}{len(set(files)):>7}{changes:>9}")
