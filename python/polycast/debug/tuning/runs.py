"""Whole runs of a program of this process under a plan."""

import gc
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import torch

from polycast import backends
from polycast.debug.program_state import Snapshot
from polycast.debug.tuning.evidence import BATCHES, Evidence, gather
from polycast.policy.plan import Plan
from polycast.scope.process import use

WARM_UP = 3
Step = Callable[[Any], Any]
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Run(NamedTuple):
    """What a run of a program showed."""

    losses: tuple[float, ...]
    seconds: float
    """Of a step: the median without the first ones."""
    peak: int | None
    """The peak of the memory in bytes; None if it cannot be measured."""


class Program(Protocol):
    """What runs as a whole under a plan."""

    memory: str
    """Whose memory is measured, in words."""
    timed: str
    """What the seconds of a step are, in words."""

    def run(self, plan: Plan, seed: int, steps: int | None = None) -> Run:
        """Run all of it. For a time it may take other than all steps. A loss that is not finite may end the run."""

    def evidence(self, seed: int, dtype: torch.dtype) -> list[Evidence]:
        """Return the evidence of the first steps."""


def seconds_of(times: Sequence[float]) -> float:
    """Return the median of the seconds of steps, without those of the warm-up."""
    return median(times[min(WARM_UP, len(times) // 2) :])


class Training:
    """A program of this process.

    Args:
        make: Called after torch.manual_seed; returns a function that takes a batch and returns its loss.
        batches: What each run is given.
    """

    timed = "a call of the step"

    def __init__(self, make: Callable[[], Step], batches: Sequence[Any]) -> None:
        if not callable(make):
            raise TypeError(
                f"make is {_shown(make)}; give a function that makes a model and returns a function step(batch) -> loss"
            )
        self._make, self._batches = make, batches
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        self._has_allocator = accelerator is not None and _reset_allocator()
        self.memory = f"the allocator of {accelerator.type}" if accelerator and self._has_allocator else "the process"

    def run(self, plan: Plan, seed: int, steps: int | None = None) -> Run:
        """Take a step with each batch, or as many as asked for, until a loss that is not finite."""
        losses, times = list[float](), list[float]()
        with _apart(), use(plan):
            knows_peak = _reset_allocator() if self._has_allocator else _reset_process()
            step = self._made(seed)
            for batch in islice(cycle(self._batches), len(self._batches) if steps is None else steps):
                given = _copied(batch)  # the step may change it, and the next run needs the same
                start = perf_counter()
                loss = step(given)
                if isinstance(loss, torch.Tensor):
                    backends.synchronize(loss.device.type)
                times.append(perf_counter() - start)
                losses.append(_number(loss))
                if not math.isfinite(losses[-1]):
                    break
            return Run(tuple(losses), seconds_of(times), self._peak() if knows_peak else None)

    def evidence(self, seed: int, dtype: torch.dtype) -> list[Evidence]:
        """Return the evidence of the first batches."""
        with _apart():
            return gather(self._made(seed), [*map(_copied, self._batches[:BATCHES])], dtype)

    def _made(self, seed: int) -> Step:
        """Return the step of a new model.

        Raises:
            TypeError: The program makes no function.
        """
        gc.collect()  # the model of the run before may hold itself by a cycle
        backends.seed(seed)
        step: Any = self._make()
        if not callable(step) or isinstance(step, torch.nn.Module):
            raise TypeError(
                f"make() returned {_shown(step)}; it makes a model and an optimizer, and returns a function "
                "step(batch) that trains on a batch and returns the loss"
            )
        return step  # type: ignore[no-any-return]

    def _peak(self) -> int | None:
        if self._has_allocator:
            return torch.accelerator.max_memory_allocated()
        found = re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None


@contextmanager
def _apart() -> Iterator[None]:
    """Put the random state back at the end. Let the garbage collector look at what is new alone: that is far faster."""
    before, is_frozen = Snapshot(None), bool(gc.get_freeze_count())
    try:
        if not is_frozen:
            gc.freeze()
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()
        before.put_back()


def _reset_allocator() -> bool:
    """Forget the peak of the accelerator's allocator; return whether it counts one."""
    try:
        torch.accelerator.reset_peak_memory_stats()
    except RuntimeError:
        return False
    return True


def _reset_process() -> bool:
    """Make the peak of the process what it holds now; return whether the system can."""
    try:
        _RESET.write_text("5")  # Linux
    except OSError:
        return False
    return True


def _copied(batch: Any) -> Any:
    """Return a copy of a batch, or the batch where it cannot be copied, as some subclasses of tensors."""
    try:
        return deepcopy(batch)
    except Exception:
        return batch


def _number(loss: Any) -> float:
    try:
        return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
    except (TypeError, ValueError, RuntimeError):
        what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else _shown(loss)
        raise TypeError(f"the step returned {what}; let it return the loss, as one number") from None


def _shown(value: object) -> str:
    return f"the module {type(value).__name__}" if isinstance(value, torch.nn.Module) else f"{value!r:.60}"
