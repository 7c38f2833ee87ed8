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
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

from polycast import backends
from polycast._compiled import enter_region, enter_scope, leave_scope, number_scope, set_carrier, show_scopes
from polycast._replaced import Undo, replace

F = TypeVar("F", bound=Callable[..., object])

# What dynamo records in its graphs: see `allow_scopes`.
_CALLS: tuple[Callable[..., None], ...] = (enter_region, enter_scope, leave_scope)
# The states that compiled code guards.
_guarded: list[Any] = []
# The carrier's own regions have these dtypes, so they mean no policy.
_OWN = (torch.float16, torch.bfloat16, torch.get_autocast_dtype(backends.CARRIER))
_DTYPES = sorted({kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and kind not in _OWN}, key=str)
set_carrier(backends.CARRIER, _DTYPES)


def uncompiled(function: F) -> F:
    """Have dynamo skip a function's own frame, and the frames of what it calls.

    For functions that enter without leaving, or leave without entering. Dynamo inlines them, and must not compile them
    alone.
    """
    return _skipped(function, _FrameAction.SKIP)


def disabled(function: F) -> F:
    """Have dynamo break its graph at calls of a function: what ``torch.compiler.disable`` does, without its wrapper."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return uncompiled(function)


def inlined(function: F) -> F:
    """Have dynamo skip a function's own frame, which enters and leaves around a call, but not what it calls."""
    return _skipped(function, _FrameAction.DEFAULT)


def _skipped(function: F, below: _FrameAction) -> F:
    # It marks the code of the function. torch._dynamo.eval_frame.skip_code does the same, but imports dynamo.
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, below))
    return function


def constant(function: F) -> F:
    """Have dynamo run a function while it traces, and compile for what it returns."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return uncompiled(function)


def allow_scopes() -> None:
    """Have dynamo record the calls that enter and leave scopes in its graphs. It runs before dynamo meets one."""
    for call in _CALLS:
        torch.compiler.allow_in_graph(call)  # type: ignore[no-untyped-call]
        torch.fx.node.has_side_effect(call)


def disallow_scopes() -> None:
    """Undo :func:`allow_scopes`."""
    dynamo = sys.modules.get("torch._dynamo.trace_rules")
    for call in _CALLS:
        torch.fx.node._side_effectful_functions.discard(call)
        if dynamo is not None:
            dynamo._allowed_callable_ids.remove(id(call))


def number_scopes(_: ModuleType, undo: Undo) -> None:
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

    replace(eval_frame, "_callback_from_stance", choose_after_showing, undo)
    for module in (guards, convert_frame):
        replace(module, "GlobalStateGuard", take_numbered, undo)


def _no_number() -> Exception:
    """Return an error after which a frame runs what was compiled of it before, and is not compiled again."""
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


def is_numbering() -> bool:
    """Return whether the states are kept that compiled code guards."""
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    return getattr(getattr(dynamo, "GlobalStateGuard", None), "__module__", None) == __name__


def _threads() -> set[int]:
    """Return the threads that may run compiled code: tqdm's monitor runs none, and torch's compilers start it."""
    monitor = getattr(getattr(sys.modules.get("tqdm"), "tqdm", None), "monitor", None)
    return sys._current_frames().keys() - {getattr(monitor, "ident", None)}


def forget(kept: bool | None = None) -> None:
    """Keep code that was compiled so far from running again.

    Other threads may be running or compiling it, and torch crashes if it is freed then. So the code guards a state that
    never holds from now on, and is freed only if this is the only thread, or where no state was kept.

    Args:
        kept: Whether states were kept when the code was compiled. None: as now.
    """
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None or getattr(dynamo.__spec__, "_initializing", False):  # another thread imports it
        return
    with dynamo.convert_frame.compile_lock:
        for state in _guarded:
            content = json.loads(state.__getstate__()) | {"num_threads": -1}
            state.__setstate__(json.dumps(content))
        _guarded.clear()
    if not (is_numbering() if kept is None else kept) or len(_threads()) == 1:
        dynamo.reset()
