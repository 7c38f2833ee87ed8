"""Counts the Python functions that a task calls, for the walkthroughs in CONTRIBUTING.md.

python -m tests.support.walkthroughs
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import polycast
import torch

from codegen import __main__ as codegen


class Walkthrough(NamedTuple):
    """The calls of polycast's own functions in one task."""

    calls: list[CodeType]

    @property
    def functions(self) -> int:
        """Return the number of different functions, including comprehensions."""
        return len(set(self.calls))

    @property
    def files(self) -> int:
        """Return the number of different files."""
        return len({code.co_filename for code in self.calls})

    @property
    def changes(self) -> int:
        """Return how often a call is in another file than the previous call."""
        pairs = zip(self.calls, self.calls[1:], strict=False)
        return sum(before.co_filename != after.co_filename for before, after in pairs)


def walkthrough(task: Callable[[], object], prepare: Callable[[], object] = list) -> Walkthrough:
    """Return the calls of a task, after a run that is not counted. Each run is prepared first."""
    folders = tuple(str(Path(str(module.__file__)).parent) for module in (polycast, codegen))
    calls: list[CodeType] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            calls.append(frame.f_code)

    prepare()
    task()
    prepare()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(before)
    return Walkthrough(calls)


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
    """Print the counts of each task."""
    print(f"{'task':<52}{'calls':>7}{'functions':>11}{'files':>7}{'changes':>9}")
    for name, found in walkthroughs().items():
        print(f"{name:<52}{len(found.calls):>7}{found.functions:>11}{found.files:>7}{found.changes:>9}")


if __name__ == "__main__":
    main()
