"""The distinct calls of a program: which ops autocasting meets, in which modules, and on which devices.

They are collected while the program runs, so that a long one takes no more memory than a short one. Calls of other
threads and of compiled code are not seen, nor those after the program has begun to trace or watch itself.

The environment variable POLYCAST_CALLS names a folder, in which each process that imports polycast writes a file at its
end: the calls of the thread that imported polycast, and of the backward of that thread.
"""

import atexit
import json
import os
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import torch
from torch.nn.modules.module import register_module_forward_hook

from polycast import backends
from polycast.debug.calls import Recording
from polycast.debug.places import Places
from polycast.installation import ENVIRONMENT_CALLS

_HELD = 200_000  # calls between two modules; those beyond are not seen


class DistinctCall(NamedTuple):
    """Calls of an op in a module on a device."""

    model: str
    """The class of the outermost module; "" outside of modules."""
    module: str
    """The name of the module in it; "" for the model itself."""
    op: str
    """The op without its overload."""
    device: str


class DistinctCalls:
    """Collects the calls of this thread while it is entered, and no other recording has begun."""

    def __init__(self) -> None:
        self.found: dict[DistinctCall, None] = {}
        """The calls, in the order in which they were first made."""
        self._thread = threading.get_ident()
        self._stack = ExitStack()

    def __enter__(self) -> "DistinctCalls":
        places = Places(None, numbered=False)
        self._recording = self._stack.enter_context(Recording("polycast.debug.bisect", places, limit=_HELD))
        self._stack.enter_context(places)
        self._stack.callback(self._take)
        self._stack.callback(register_module_forward_hook(self._leave, always_call=True).remove)
        Recording.give_way = self.stop
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Collect no more."""
        Recording.give_way = None
        self._stack.close()

    def write(self, folder: Path) -> None:
        """Write the calls to the file of this process at once, so that nobody reads a half."""
        whole = folder / f"{os.getpid()}.json"
        half = whole.with_suffix(".part")
        half.write_text(json.dumps([*self.found]), encoding="utf-8")
        half.replace(whole)

    def _leave(self, *_: object) -> None:
        if not torch.compiler.is_compiling() and threading.get_ident() == self._thread:
            self._take()

    def _take(self) -> None:
        for call in self._recording.take():
            model, _, module = call.module.partition(".")
            op = call.op.partition(".")[0]
            self.found[DistinctCall(model, module, op, backends.device_of(call.device))] = None


def read(folder: Path) -> list[DistinctCall] | None:
    """Return the calls of all processes that wrote theirs to a folder; None if none imported polycast."""
    written = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    return [*dict.fromkeys(DistinctCall(*call) for calls in written for call in calls)] if written else None


def start(folder: str) -> None:
    """Have this process write its calls to a folder at its end.

    Raises:
        ImportError: Nothing can be written there.
    """
    path, calls = Path(folder).absolute(), DistinctCalls()
    try:
        calls.write(path)  # says that this process has imported polycast, however it ends
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImportError(f"{ENVIRONMENT_CALLS} names {folder}, where nothing can be written: {reason}") from None
    calls.__enter__()

    def end() -> None:
        calls.stop()
        with suppress(OSError):  # nobody waited for this process
            calls.write(path)

    atexit.register(end)
