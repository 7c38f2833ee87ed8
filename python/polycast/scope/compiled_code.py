"""What torch.compile is told of scopes, and how code that it compiled is dropped.

Note [Threads that show their scopes]
A thread that never calls compiled code changes no autocast state but that of its regions: see Note [The number of a
scope] in csrc/autocast/scopes.h. Dynamo calls `_callback_from_stance` in each call of compiled code, before it compares
guards, in the thread that calls. So we replace that name, a private one, by a function that has the thread show its
scopes from then on.

Note [Numbers before guards]
Compiled code guards the autocast state of every device, the carrier's too: see Note [The number of a scope] in
csrc/autocast/scopes.h. A scope gets its number when dynamo starts to compile in it, before dynamo takes the state that
it guards. Dynamo takes that state by calling `GlobalStateGuard`, which it looks up at each frame, in the thread that
runs the frame. So we replace that name, a private one, by a function that numbers the scope first. The callbacks that
dynamo offers for the start of a compilation are no substitute. They run after the state was taken, for one thread only
while two compile, and `torch._dynamo.reset()` removes them. The function also keeps each state: a change of the policy
must end compiled code that other threads may be running. That code cannot be freed, but its state can be changed to one
that never holds.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import torch

from polycast import backends
from polycast._compiled import enter_region, enter_scope, leave_scope, number_scope, set_carrier, show_scopes
from polycast._replaced import replaced

F = TypeVar("F", bound=Callable[..., object])

# These functions enter without leaving, or leave without entering. Dynamo inlines them. It must not compile them alone,
# nor what they call.
_uncompiled: list[Callable[..., object]] = []
# These functions enter and leave around a call. Dynamo must not compile them alone, but may compile what they call.
_inlined: list[Callable[..., object]] = []
# The states that compiled code guards.
_guarded: list[Any] = []
# The carrier's own regions have these dtypes, so they mean no policy.
_OWN = (torch.float16, torch.bfloat16, torch.get_autocast_dtype(backends.CARRIER))
_DTYPES = sorted({kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and kind not in _OWN}, key=str)
set_carrier(backends.CARRIER, _DTYPES)


def uncompiled(function: F) -> F:
    """Have dynamo skip a function's own frame, and the frames of what it calls."""
    _uncompiled.append(function)
    return function


def inlined(function: F) -> F:
    """Have dynamo skip a function's own frame."""
    _inlined.append(function)
    return function


def constant(function: F) -> F:
    """Have dynamo run a function while it traces, and compile for what it returns."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return uncompiled(function)


def describe(_: ModuleType) -> None:
    """Describe polycast's own functions to dynamo, once dynamo is imported."""
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

    calls: tuple[Callable[..., None], ...] = (enter_region, enter_scope, leave_scope)
    for call in calls:
        torch.compiler.allow_in_graph(call)  # type: ignore[no-untyped-call]
        torch.fx.node.has_side_effect(call)
    for function in _inlined:
        torch._dynamo.eval_frame.skip_code(function.__code__)
    for function in _uncompiled:
        set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))


@contextmanager
def number_scopes(_: ModuleType) -> Iterator[None]:
    """Have threads show their scopes to dynamo, and scopes get numbers: see the notes above."""
    from torch._C._dynamo import guards
    from torch._dynamo import convert_frame, eval_frame

    take, choose = guards.GlobalStateGuard, eval_frame._callback_from_stance

    def choose_after_showing(callback: Any) -> Any:
        if callback is not None:  # None runs a function uncompiled
            show_scopes()
        return choose(callback)

    def take_numbered() -> Any:
        if not number_scope():
            raise _no_number()
        _guarded.append(take())
        return _guarded[-1]

    with (
        replaced(eval_frame, "_callback_from_stance", choose_after_showing),
        replaced(guards, "GlobalStateGuard", take_numbered),
        replaced(convert_frame, "GlobalStateGuard", take_numbered),
    ):
        yield


def _no_number() -> Exception:
    """Return an error after which a frame runs what was compiled of it before, and is not compiled again."""
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy
    from torch._dynamo import exc

    # Until torch 2.12 the error has another name.
    error: Any = getattr(exc, "RecompileLimitExceeded", exc.Unsupported)(
        "torch.compile has met as many scopes of policies in this process as it can tell apart "
        f"({len(_DTYPES) - 1}); code in further ones runs uncompiled. Make a policy that of the process with "
        "polycast.use, or compile in a process of its own"
    )
    error.frame_exec_strategy = _FrameExecStrategy(_FrameAction.RUN_ONLY, _FrameAction.RUN_ONLY)
    return error  # type: ignore[no-any-return]


def break_graph(what: str) -> None:
    """Break the graph if dynamo is tracing in this thread."""
    dynamo = sys.modules.get("torch._dynamo.symbolic_convert")
    if dynamo is not None and getattr(getattr(dynamo, "tls", None), "current_tx", None) is not None:
        raise torch._dynamo.exc.Unsupported(f"{what}; make it inside, or decorate a function with it")


def forget() -> None:
    """Keep code that was compiled so far from running again.

    Other threads may be running or compiling it, and torch crashes if it is freed then. So the code guards a state that
    never holds from now on, and is freed only if this is the only thread, or where no state was kept.
    """
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None or getattr(dynamo.__spec__, "_initializing", False):  # another thread imports it
        return
    is_numbering = dynamo.convert_frame.GlobalStateGuard.__module__ == __name__
    with dynamo.convert_frame.compile_lock:
        for state in _guarded:
            content = json.loads(state.__getstate__()) | {"num_threads": -1}
            state.__setstate__(json.dumps(content))
        _guarded.clear()
    if not is_numbering or len(sys._current_frames()) == 1:
        dynamo.reset()
