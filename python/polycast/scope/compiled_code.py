"""What torch.compile is told of scopes.

Note [How does compiled code follow policies?]
Compiled code holds the casts of the scope that it was compiled in. Dynamo adds its last guards to a frame in
``CheckFunctionManager.compile_check_fn``, in the thread that compiles. So we replace this method, a private one, by a
function that adds one guard more: on the id of the scope. An id says all that decides about rules, and a change of the
kernels gives each scope another id: see csrc/autocast/policy_scope.h.

Dynamo checks the guards of a frame once after it has compiled it. So the policy of the process, and the ids, change
under the lock that dynamo holds while it compiles.
"""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

from polycast._compiled import enter_region, enter_scope, is_in_force, keep_id_in_force, leave_scope
from polycast._replaced import Undo, replace

F = TypeVar("F", bound=Callable[..., object])

# What dynamo records in its graphs: see `allow_scopes`.
_CALLS: tuple[Callable[..., None], ...] = (enter_region, enter_scope, leave_scope)


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


def guard_scopes(_: ModuleType, undo: Undo) -> None:
    """Have compiled code guard the scope: see the note above."""
    from torch._dynamo.guards import CheckFunctionManager

    stock = CheckFunctionManager.compile_check_fn

    def compile_check_fn(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        scope = keep_id_in_force()
        add, guard = self.guard_manager.root.add_lambda_guard, partial(is_in_force, scope)
        text = [f"polycast: policies of scope {scope}"]
        try:
            add(guard, text)
        except TypeError:
            add(guard, text, None)  # in torch 2.13 it also takes the stack of the program

    replace(CheckFunctionManager, "compile_check_fn", compile_check_fn, undo)


def break_graph(what: str) -> None:
    """Break the graph if dynamo is tracing in this thread."""
    dynamo = sys.modules.get("torch._dynamo.symbolic_convert")
    if dynamo is not None and getattr(getattr(dynamo, "tls", None), "current_tx", None) is not None:
        raise torch._dynamo.exc.Unsupported(f"{what}; make it inside, or decorate a function with it")


def _dynamo() -> Any:
    """Return torch._dynamo; None if it is not imported, or another thread is importing it."""
    dynamo = sys.modules.get("torch._dynamo")
    return None if dynamo is None or getattr(dynamo.__spec__, "_initializing", False) else dynamo


def is_guarding() -> bool:
    """Return whether what is compiled now guards the scope."""
    dynamo = _dynamo()
    return dynamo is None or dynamo.guards.CheckFunctionManager.compile_check_fn.__module__ == __name__


def while_nothing_compiles() -> AbstractContextManager[object]:
    """Return a context in which no other thread compiles."""
    dynamo = _dynamo()
    return nullcontext() if dynamo is None else dynamo.convert_frame.compile_lock


def free() -> None:
    """Free all compiled code. No other thread may run any meanwhile."""
    dynamo = _dynamo()
    if dynamo is not None:
        dynamo.reset()


def _release_in_child() -> None:
    """Release the lock of a thread that was compiling when this process was forked, and is not in it."""
    dynamo = _dynamo()
    if dynamo is not None and not dynamo.convert_frame.compile_lock._is_owned():
        dynamo.convert_frame.compile_lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
