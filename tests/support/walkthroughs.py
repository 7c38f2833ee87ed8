"""The number of Python functions that a task calls, for the walkthroughs in CONTRIBUTING.md.

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

Walkthrough = list[CodeType]  # The calls of polycast's functions in one task.


def walkthrough(task: Callable[[], object], prepare: Callable[[], object] = list) -> Walkthrough:
    """Return the calls of a task in its second run. ``prepare`` runs before each run."""
    folders = tuple(str(Path(str(module.__file__)).parent) for module in (polycast, codegen))
    calls: Walkthrough = []

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


def _rule_to_cast() -> torch.Tensor:
    with polycast.autocast("cpu", policy=polycast.Policy({"linear": "fp32"})):
        return torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2))


def _traced_call() -> object:
    with polycast.debug.trace() as trace, polycast.autocast("cpu"):
        torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2))
    return trace.calls[0]


def walkthroughs() -> dict[str, Walkthrough]:
    """Return the walkthroughs by the names of their tasks."""
    model = torch.nn.Linear(4, 4)
    optimizer, scaler = polycast.syncfree.AdamW(model.parameters()), polycast.GradScaler("cpu")

    def backward() -> None:
        scaler.scale(model(torch.ones(1, 4)).sum()).backward()
        scaler.update(1.0)

    def clip_step_update() -> None:
        scaler.clip_grad_norm(optimizer, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return {
        "policy.yaml to the generated files": walkthrough(partial(codegen.main, ["--check"], torch)),
        "a rule to a cast": walkthrough(_rule_to_cast),
        "a gradient through clip_grad_norm, step and update": walkthrough(clip_step_update, backward),
        "scaler.step": walkthrough(partial(scaler.step, optimizer), backward),
        "a traced call": walkthrough(_traced_call),
    }


def main() -> None:
    """Print a table of the calls, functions and files in each task."""
    print(f"{'task':<52}{'calls':>7}{'functions':>11}{'files':>7}{'changes':>9}")
    for name, calls in walkthroughs().items():
        files = [code.co_filename for code in calls]
        changes = sum(before != after for before, after in pairwise(files))
        print(f"{name:<52}{len(calls):>7}{len(set(calls)):>11}{len(set(files)):>7}{changes:>9}")


if __name__ == "__main__":
    main()
