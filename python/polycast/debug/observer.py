"""The observer of the debugging tools, which records the calls that autocast intercepts."""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from torch import nn

from polycast import devices
from polycast._extension import start_recording, stop_recording, take_calls
from polycast.debug.calls import BACKWARD, FORWARD, Call, Cast, SiteCounter
from polycast.debug.module_tracker import ModuleTracker
from polycast.policy.categories import UNLISTED
from polycast.policy.rules import BUILT_IN, qualified, shown

# The program's line for a call is in the innermost frame outside these folders.
_LIBRARIES = [str(folder) + os.sep for folder in (Path(str(torch.__file__)).parent, Path(__file__).parents[1])]


class Observer:
    """A recorder of the program's calls that autocast intercepts.

    It records the thread that enters it, and the threads in which PyTorch runs the backward of this thread. PyTorch
    reports the calls, and our kernels report the rules that they follow. A process has at most one active observer.

    Args:
        tool: The name of the tool in errors.
        model: The model whose module names identify the calls.
        lines: Whether to record the program's line for each call.
        limit: The largest number of calls to record between two calls of ``take_calls``.
    """

    def __init__(self, tool: str, model: nn.Module | None, *, lines: bool = False, limit: int = sys.maxsize) -> None:
        self.modules = ModuleTracker(model)
        self.is_complete = True
        """Whether the number of calls is within the limit, so that all were recorded."""
        self._recording = tool, _LIBRARIES if lines else None, limit + 1  # one more call shows that calls were dropped
        self._limit = limit

    def __enter__(self) -> "Observer":
        with contextlib.ExitStack() as stack:
            start_recording(*self._recording)
            stack.callback(stop_recording)
            stack.enter_context(self.modules.track())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take_calls(self) -> list[Call]:
        """Return the calls with a floating-point tensor since the previous ``take_calls``, in order."""
        taken = take_calls()
        self.is_complete = len(taken) <= self._limit
        sites = SiteCounter()
        calls = []
        for fields in taken[: self._limit]:
            order, name, device, rule, origin, module, backward, arguments, arrived, returned, made, source = fields
            given = tuple([dtype for dtype, *_ in arguments])
            computed = tuple(arrived) or given
            if any(dtype.is_floating_point for dtype in (*given, *returned)):
                call = Call(
                    sites.next(BACKWARD if backward else FORWARD, self.modules.name(module), shown(name)),
                    device,
                    rule,
                    origin or _origin(name, rule, device),
                    given,
                    computed,
                    tuple(returned),
                    () if computed == given else tuple(self._casts(arguments, arrived, made)),
                    source,
                    order,
                )
                calls.append(call)
        return calls

    def _casts(
        self, arguments: list[tuple[torch.dtype, int, int]], arrived: list[torch.dtype], made: list[int]
    ) -> Iterator[Cast]:
        """Yield the casts of the arguments. ``made`` has the addresses of the arguments that were cast for the call."""
        for (given, elements, address), to in zip(arguments, arrived, strict=False):
            if given is not to:
                reused = address not in made
                if not reused:
                    made.remove(address)
                yield Cast(given, to, elements, reused, self.modules.weights.get(address))


def _origin(name: str, rule: str, device: str) -> str:
    """Return the origin of a rule that is not from the policy of the process, a region or a module."""
    if rule in (UNLISTED, "stock"):
        return "" if rule == UNLISTED else "torch"
    note = _notes().get((name, devices.device_of(device)))
    return f"policy.yaml: {note}" if note else "policy.yaml"


@cache
def _notes() -> dict[tuple[str, str], str]:
    """Return the notes of ``policy.yaml``, by the dispatcher's name of an overload and by device."""
    return {(qualified(rule.name), rule.device): rule.note for rule in BUILT_IN}
