"""The scopes of this thread: entered for a region, a module or a rerun forward, and held to be entered again.

What a scope is stands in csrc/autocast/policy_scope.h.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import torch

from polycast._extension import (
    PolicyScope,
    enter_scope,
    keep_scope,
    keep_scope_within,
    kept_scope,
    leave_scope,
    leave_to_depth,
    policy_guard,
    scope_depth,
    scope_guard,
    scope_in_force,
)
from polycast.policy.policy import Policy
from polycast.scope.compiled_code import allow_scopes
from polycast.torch_internals import constant, dynamo_translator, inlined

R = TypeVar("R")
# Compiled code holds a scope by its id. None is the scope of no policy.
Held: TypeAlias = PolicyScope | int | None
OVER, MODULE, REGION = "over all", "module", "region"


def held() -> Held:
    """Return the scope of this thread, to be entered again."""
    return keep_scope_here() if torch.compiler.is_compiling() else scope_in_force()


def over(policy: Policy) -> AbstractContextManager[object]:
    """Return a context in which a policy decides over all others."""
    return policy_guard(OVER, policy.kernels)


def in_module(policy: Policy) -> AbstractContextManager[object]:
    """Return a context in which the rules of a module hold."""
    return policy_guard(MODULE, policy.kernels)


@inlined
def run_in(scope: Held, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call a function in a scope, and return its result."""
    if torch.compiler.is_compiling():
        kept = scope if isinstance(scope, int) else keep_scope_of(scope)  # on a line before: see `allow_scopes`
        enter_scope(kept)
        try:
            return function(*args, **kwargs)
        finally:
            leave_scope()
    with scope_guard(kept_scope(scope) if isinstance(scope, int) else scope):
        return function(*args, **kwargs)


@constant
def keep_scope_here() -> int:
    """Return the id of the scope of this thread; 0 is the scope of no policy."""
    allow_scopes()
    return keep_scope(scope_in_force())


@constant
def keep_scope_of(scope: PolicyScope | None) -> int:
    """Return the id of a scope; 0 is the scope of no policy."""
    allow_scopes()
    return keep_scope(scope)


@constant
def keep_scope_in(layer: str, digest: str) -> int:
    """Return the id of the scope that a policy makes when it is entered in the scope of this thread."""
    if torch.compiler.is_exporting():
        raise RuntimeError(
            "torch.export records the regions of a program and not their casts, and has no place for a policy "
            "of a region or a module; export without one, or make it that of the process where the program runs: "
            "polycast.use(policy)"
        )
    allow_scopes()
    _leave_after_tracing()
    return keep_scope_within(layer, Policy.of_digest(digest).kernels)


def _leave_after_tracing() -> None:
    """Leave what dynamo enters while it traces, also where it gives up before the end."""
    translator = dynamo_translator()
    if translator is not None:
        depth = scope_depth()
        translator.output.add_cleanup_hook(lambda: leave_to_depth(depth))
