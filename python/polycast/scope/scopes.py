"""The policies in force: of the process, of regions and of modules.

See the notes in csrc/autocast/scopes.h.
"""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import torch

from polycast import backends
from polycast._compiled import (
    Patch,
    Scope,
    enter_region,
    enter_scope,
    keep_scope,
    kept_scope,
    leave_scope,
    leave_to_depth,
    number_scope,
    policy_context,
    refresh_kernels,
    scope_context,
    scope_depth,
    scope_in_force,
    set_carrier,
    use_patch,
    used_patch,
)
from polycast.policy.policy import PatchRow, Policy

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
# A scope, or in compiled code its id; None is that of no policy.
Held: TypeAlias = Scope | int | None
NO_RULES = Policy()
OVER, MODULE, REGION = "over all", "module", "region"


def held() -> Held:
    """Return the scope of this thread, to be entered again."""
    return keep_scope_here() if torch.compiler.is_compiling() else scope_in_force()


def policy_in_force() -> Policy:
    """Return the rules over the base that hold in this thread: the process's, its regions', its modules', joined."""
    scope, used = scope_in_force(), used_patch()
    patches = [patch for _, patch in scope.patches] if scope else []
    policy = NO_RULES
    for patch in reversed([*patches, *([used] if used else [])]):
        policy |= _policy_of(patch)
    return policy


def over(policy: Policy) -> AbstractContextManager[object]:
    """Return what has a policy decide over all others in a with statement."""
    return policy_context(OVER, policy.patch)


def in_module(policy: Policy) -> AbstractContextManager[object]:
    """Return what has the rules of a module hold in a with statement."""
    return policy_context(MODULE, policy.patch)


def run_in(scope: Held, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Return what the function returns where this scope holds."""
    if torch.compiler.is_compiling():
        enter_scope(scope if isinstance(scope, int) else keep_scope_of(scope))
        try:
            return function(*args, **kwargs)
        finally:
            leave_scope()
    with scope_context(kept_scope(scope) if isinstance(scope, int) else scope):
        return function(*args, **kwargs)


def use_in_process(policy: Policy) -> bool:
    """Make a policy that of the process, in the place of an earlier one; return whether it is another."""
    before = used_patch()
    use_patch(policy.patch if policy else None)
    return used_patch() is not before


def refresh() -> None:
    """Register the kernels that the policies in force need on the devices that are installed now."""
    refresh_kernels()


def _policy_of(patch: Patch) -> Policy:
    rows = []
    for full, column, category, dtype, message, source in patch.rows():
        name, _, overload = full.partition(".")
        kind = None if dtype is None else str(dtype).removeprefix("torch.")
        rows.append(PatchRow(name, overload or "default", column, category, kind, message, source))
    return Policy._of(rows)


# Dynamo runs these while it traces, and compiles for the ids that they return.


def keep_scope_here() -> int:
    """Return the id of the scope of this thread, 0 for that of no policy."""
    return keep_scope(None, None)


def keep_scope_of(scope: Scope | None) -> int:
    """Return the id of a scope, 0 for that of no policy."""
    with scope_context(scope):
        return keep_scope(None, None)


def keep_scope_in(layer: str, digest: str) -> int:
    """Return the id of the scope of a policy that is entered here."""
    if torch.compiler.is_exporting():
        raise RuntimeError(
            "torch.export records the regions of a program and not their casts, and has no place for a policy "
            "of a region or a module; export without one, or make it that of the process where the program runs: "
            "polycast.use(policy)"
        )
    _watch_dynamo()
    return keep_scope(layer, Policy.of_digest(digest).patch)


def _watch_dynamo() -> None:
    """Have what dynamo enters while it traces left again, where it gives up before it comes to the end."""
    translator = getattr(torch._dynamo.symbolic_convert.tls, "current_tx", None)
    if translator is not None:
        depth = scope_depth()
        translator.output.add_cleanup_hook(lambda: leave_to_depth(depth))


# What enters and does not leave, or leaves and does not enter: dynamo inlines it, and must not compile it alone, nor
# what it calls.
_uncompiled: list[Callable[..., object]] = []
# What enters and leaves around a call: dynamo must not compile it alone; what it calls may be.
_inlined: list[Callable[..., object]] = []


def uncompiled(function: F) -> F:
    """Have dynamo leave a function's own frame alone, and those of what it calls."""
    _uncompiled.append(function)
    return function


def inlined(function: F) -> F:
    """Have dynamo leave a function's own frame alone."""
    _inlined.append(function)
    return function


# What compiled code guards of torch's state; and whether it is kept, as it is from dynamo's import on.
_guarded: list[Any] = []
_taught: list[bool] = []


def _number_before_guards() -> None:
    """Have dynamo number the scope that it compiles in before it takes the state that it guards.

    Dynamo takes that state by one name, which is looked up at each frame that it starts to compile, in the thread that
    runs the frame.
    """
    from torch._C._dynamo import guards
    from torch._C._dynamo.eval_frame import _FrameAction as FrameAction
    from torch._C._dynamo.eval_frame import _FrameExecStrategy as FrameExecStrategy
    from torch._dynamo import convert_frame, exc

    take = guards.GlobalStateGuard

    def take_numbered() -> Any:
        if number_scope():
            _guarded.append(take())
            return _guarded[-1]
        # Torch's name, until 2.12, for an error after which a frame runs what was compiled of it, and no more of it is.
        error: Any = getattr(exc, "RecompileLimitExceeded", exc.Unsupported)(
            "torch.compile has met as many scopes of policies in this process as it can tell apart "
            f"({len(_DTYPES) - 1}); code in further ones runs uncompiled. Make a policy that of the process with "
            "polycast.use, or compile in a process of its own"
        )
        error.frame_exec_strategy = FrameExecStrategy(FrameAction.RUN_ONLY, FrameAction.RUN_ONLY)
        raise error

    for module in (guards, convert_frame):
        setattr(module, "GlobalStateGuard", take_numbered)  # noqa: B010
    _taught.append(True)


def forget_compiled_code() -> None:
    """Have nothing run again that was compiled so far.

    What other threads may be running or compiling must not be freed, or torch crashes. So compiled code is made to
    guard a state that never holds, and is dropped where this is the only thread.
    """
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None or getattr(dynamo.__spec__, "_initializing", False):  # another thread imports it
        return
    if _taught:
        with dynamo.convert_frame.compile_lock:
            for state in _guarded:
                content = json.loads(state.__getstate__()) | {"num_threads": -1}
                state.__setstate__(json.dumps(content))
            _guarded.clear()
    if not _taught or len(sys._current_frames()) == 1:
        dynamo.reset()


def _teach_dynamo(_: ModuleType) -> None:
    calls: tuple[Callable[..., None], ...] = (enter_region, enter_scope, leave_scope)
    for call in calls:
        torch.compiler.allow_in_graph(call)  # type: ignore[no-untyped-call]
        torch.fx.node.has_side_effect(call)
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

    for function in _inlined:
        torch._dynamo.eval_frame.skip_code(function.__code__)
    for function in _uncompiled:
        set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    _number_before_guards()


for _function in (keep_scope_here, keep_scope_of, keep_scope_in):
    _constant: Any = uncompiled(_function)
    _constant._dynamo_marked_constant = True
inlined(run_in)
# The carrier's own regions run in these, and mean no policy.
_OWN = (torch.float16, torch.bfloat16, torch.get_autocast_dtype(backends.CARRIER))
_DTYPES = sorted({kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and kind not in _OWN}, key=str)
set_carrier(backends.CARRIER, _DTYPES)


def teach_dynamo() -> None:
    """Have torch.compile know what enters and leaves policies; now, or once it is imported."""
    backends.once_imported("torch._dynamo", _teach_dynamo)
