"""Whole runs of a command, whose losses are read from what it prints, and its evidence.

The evidence is gathered in the command's own process, which has POLYCAST_EVIDENCE=DTYPE:FILE in its environment: it
takes a few steps in float32, writes the evidence to the file, and ends as by sys.exit(0). A step ends with that of an
optimizer; a program that takes none ends by itself.
"""

import atexit
import json
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from polycast._dtypes import dtype_of
from polycast.debug import command
from polycast.debug.calls import text
from polycast.debug.tuning.evidence import BATCHES, FP32, Evidence, Gathering
from polycast.debug.tuning.runs import Run, seconds_of
from polycast.installation import ENVIRONMENT_EVIDENCE
from polycast.policy.plan import Plan
from polycast.policy.policy import Policy
from polycast.scope import scopes

SEED = "{seed}"
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|inf(?:inity)?|nan)"
LOSS = rf"(?<![a-z_])loss['\"]?\s*[:=]?\s*({_NUMBER})"
"""Finds "loss 0.123", "loss: 0.123", "loss=0.123" and "'loss': 0.123"."""
_AT_ONCE = 0.01  # losses that come within this share of the whole time say nothing of the steps


class Command:
    """A command that prints its losses.

    Args:
        words: The program and its arguments, in which "{seed}" stands for the seed.
        pattern: A regular expression whose first group is the loss, in any case. A line has one loss at most.
        steps: How many losses of a run count; None for all.
    """

    memory = "the largest process of the command"

    def __init__(self, words: Sequence[str], pattern: str = LOSS, steps: int | None = None) -> None:
        try:
            self._pattern = re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"--loss {pattern!r:.60} is no regular expression: {error}") from None
        if not self._pattern.groups:
            raise ValueError(f"--loss {pattern!r:.60} has no group; put the number into ( )")
        if steps is not None and steps < 1:
            raise ValueError(f"--steps {steps} counts no loss; give 1 or more")
        self._words = words
        self._steps = steps
        self.timed = "from one loss to the next"

    def run(self, plan: Plan, seed: int, steps: int | None = None) -> Run:  # noqa: ARG002 - it ends by itself
        """Run the command to its end.

        Raises:
            ValueError: It prints no loss, or does not end with exit status 0.
        """
        losses, times = list[str](), list[float]()

        def on_line(seconds: float, line: str) -> None:
            found = self._pattern.search(line)
            if found and (self._steps is None or len(losses) < self._steps):
                losses.append(found[1])
                times.append(seconds)

        outcome, last = self._run(plan, seed, on_line)
        if not losses:
            remedy = "let it print lines such as 'loss 0.123', or say by --loss how they look"
            raise ValueError(
                f"the standard output of the command has no loss that {self._pattern.pattern!r} finds; {remedy}{last}"
            )
        between = [later - earlier for earlier, later in pairwise(times)]
        if sum(between) < _AT_ONCE * outcome.seconds:
            self.timed = "the whole command, as its losses come at once"
            between = [outcome.seconds / len(losses)]
        try:
            numbers = tuple(map(float, losses))
        except ValueError as error:
            told = str(error).rpartition(": ")[2]
            raise ValueError(f"the command printed {told} as a loss, which is no number; see --loss") from None
        return Run(numbers, seconds_of(between), outcome.peak_memory)

    def evidence(self, seed: int, dtype: torch.dtype) -> list[Evidence]:
        """Return the evidence of the first steps, which the command gathers itself.

        Raises:
            ValueError: It gathers none, as it does not import polycast, or fails.
        """
        with NamedTemporaryFile(prefix="polycast-", suffix=".json") as file:
            _, last = self._run(Plan(), seed, environment={ENVIRONMENT_EVIDENCE: f"{text(dtype)}:{file.name}"})
            found = _read(Path(file.name))
        if not found:
            what = "did not import polycast" if found is None else "calls no op that autocasting meets"
            raise ValueError(
                f"the process that the command starts {what}; give the training script itself, which imports polycast, "
                f"and not what starts it in other processes: polycast tune -- python train.py{last}"
            )
        return found

    def _run(self, plan: Plan, seed: int, *args: Any, **kwargs: Any) -> tuple[command.Outcome, str]:
        """Run the command; return how it ended, and its last lines."""
        with NamedTemporaryFile(prefix="polycast-", suffix=".log") as log:
            words = [word.replace(SEED, str(seed)) for word in self._words]
            outcome = command.run(words, plan, log.name, *args, **kwargs)
            last = "; its last lines: " + " | ".join(command.last_lines(log.name, 3))
        if outcome.status:
            raise ValueError(f"the command ended with exit status {outcome.status}{last}")
        return outcome, last


def start(asked: str) -> None:
    """Gather in this process from now on, for the dtype and the file that the environment names."""
    dtype, _, path = asked.partition(":")
    gathering, stack, left = Gathering(dtype_of(dtype)), ExitStack(), BATCHES
    for context in (gathering.recording, gathering.values, scopes.over(Policy(FP32))):
        stack.enter_context(context)

    def end_step(*_: object) -> None:
        nonlocal left
        gathering.end_step()
        left -= 1
        if not left:
            end()
            raise SystemExit(0)

    def end() -> None:
        if Path(path).stat().st_size:  # of a forked process, which takes the steps, or of this one that went on
            return
        gathering.end_step()  # what came after the last step
        stack.close()
        own = Path(f"{path}.{os.getpid()}")  # the ranks of a launcher end at the same time
        own.write_text(json.dumps([one._asdict() for one in gathering.evidence()]), encoding="utf-8")
        own.replace(path)

    register_optimizer_step_post_hook(end_step)
    atexit.register(end)


def _read(path: Path) -> list[Evidence] | None:
    """Return the evidence of a file; None if nothing was written."""
    written = path.read_text(encoding="utf-8")
    if not written:
        return None
    found = json.loads(written)
    for fields in found:
        fields["casts"] = {int(place): seconds for place, seconds in fields["casts"].items()}  # keys of JSON are text
    return [Evidence(**fields) for fields in found]
