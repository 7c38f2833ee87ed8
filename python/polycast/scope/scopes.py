"""Scopes, which a thread enters for a region, a module, or a function that runs under earlier policies.

``csrc/autocast/policy_scope.h`` explains scopes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import torch

from polycast._extension import (
    PolicyScope,
    enter_scope,
    keep_scope,
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
# Compiled code identifies a scope by its id. None is the scope without a policy.
Held: TypeAlias = PolicyScope | int | None
OVER, MODULE, REGION = range(3)  # `Layer` in `policy_scope.h` has this order


def held() -> Held:
    """Return the scope of this thread, so that :func:`run_in` can enter it again."""
    return keep_scope_here() if torch.compiler.is_compiling() else scope_in_force()


def over(policy: Policy) -> AbstractContextManager[object]:
    """Return a context manager in which a policy overrides all others."""
    return policy_guard(OVER, policy.kernels)


@inlined
def run_in(scope: Held, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call a function in a scope, and return its result."""
    if torch.compiler.is_compiling():
        kept = scope if isinstance(scope, int) else keep_scope_of(scope)  # `keep_scope_of` calls `allow_scopes` first
        enter_scope(kept)
        try:
            return function(*args, **kwargs)
        finally:
            leave_scope()
    with scope_guard(kept_scope(scope) if isinstance(scope, int) else scope):
        return function(*args, **kwargs)


@constant
def keep_scope_here() -> int:
    """Return the id of the scope of this thread; 0 is the scope without a policy."""
    return keep_scope_of(scope_in_force())


@constant
def keep_scope_of(scope: PolicyScope | None) -> int:
    """Return the id of a scope; 0 is the scope without a policy."""
    allow_scopes()
    return keep_scope(scope)


@constant
def keep_scope_in(layer: int, digest: str) -> int:
    """Return the id of the scope that results if this thread enters a policy."""
    allow_scopes()
    _leave_after_tracing()
    with policy_guard(layer, Policy.of_digest(digest).kernels):
        return keep_scope(scope_in_force())


def _leave_after_tracing() -> None:
    """Have dynamo leave the scopes that it enters while it traces, even if the trace fails."""
    translator = dynamo_translator()
    if translator is not None:
        depth = scope_depth()
        translator.output.add_cleanup_hook(lambda: leave_to_depth(depth))
