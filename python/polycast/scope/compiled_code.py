"""The interface between scopes and ``torch.compile``.

Note [How does compiled code follow policies?]
Compiled code contains the casts of the scope that it was compiled in, so it must not run in another scope. Each scope
has an id, which identifies all rules that apply: see ``csrc/autocast/policy_scope.h``. After a change of the
kernels, every scope has a new id. In the thread that compiles, dynamo adds its last guards to a frame in
``CheckFunctionManager.compile_check_fn``. Our replacement of this private method adds a guard on the id of the scope.

After dynamo has compiled a frame, it checks the new guards, and raises an error if one fails. Therefore the policy of
the process and the ids change only under the lock that dynamo holds while it compiles.

Note [Why does backward compile without autocast under a policy?]
When AOTAutograd compiles forward, it traces backward and casts its ops according to the region around the call. The
backward of a float32 ``linear`` would therefore run ``mm`` in the region's dtype. In eager code backward runs outside
of regions. We replace a private method, ``OutputGraph.call_user_compiler``, to set an option of AOTAutograd for graphs
that are compiled under a policy. Other graphs compile as in stock PyTorch.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

import torch

from polycast._extension import (
    BUILD,
    enter_region,
    enter_scope,
    installed_kernels,
    is_in_force,
    keep_id_in_force,
    leave_scope,
    leave_to_depth,
    scope_depth,
    scope_in_force,
)
from polycast._replaced import Undo, replace
from polycast.policy import current
from polycast.torch_internals import (
    backward_without_autocast,
    compile_lock,
    dynamo,
    guard_manager_class,
    output_graph_class,
)

R = TypeVar("R")


def allow_scopes() -> None:
    """Make dynamo record the calls that enter and leave scopes. Call this function before dynamo traces such a call."""
    for call in (enter_region, enter_scope, leave_scope):
        torch.compiler.allow_in_graph(call)  # type: ignore[no-untyped-call]
        torch.fx.node.has_side_effect(call)


def guard_scopes(_: ModuleType, undo: Undo) -> None:
    """Add a guard on the scope to newly compiled code, and compile backward without autocast under a policy."""
    manager, output = guard_manager_class(), output_graph_class()
    stock, stock_compile = manager.compile_check_fn, output.call_user_compiler

    def compile_check_fn(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        scope = keep_id_in_force()
        add, guard = self.guard_manager.root.add_lambda_guard, partial(is_in_force, scope)
        text = [f"polycast: policies of scope {scope}"]
        try:
            add(guard, text)
        except TypeError:
            add(guard, text, None)  # PyTorch 2.13 requires the user's stack, which may be None.

    def call_user_compiler(self: Any, graph: torch.fx.GraphModule, *args: Any) -> Any:
        depth, enters_policy = scope_depth(), _enters_policy(graph)
        ddp: Any = getattr(self.compiler_fn, "__self__", None)
        if enters_policy and hasattr(ddp, "backend_compile_fn"):
            self.compiler_fn = ddp.backend_compile_fn  # DDPOptimizer would cut the graph between an entry and its exit
        try:
            with (
                torch.compiler.config.patch(cache_key_tag=_cache_key_tag()),  # type: ignore[attr-defined]
                backward_without_autocast() if enters_policy or scope_in_force() is not None else nullcontext(),
            ):
                compiled = stock_compile(self, graph, *args)
        finally:
            leave_to_depth(depth)  # if the compiler runs the graph and fails, the graph does not leave its scopes
        return _leaving(compiled) if enters_policy else compiled

    replace(manager, "compile_check_fn", compile_check_fn, undo)
    replace(output, "call_user_compiler", call_user_compiler, undo)


def _cache_key_tag() -> str:
    """Return the user's tag for the keys of on-disk caches, with our build, the installed kernels and the policy."""
    ours = f"polycast:{BUILD}:{','.join(installed_kernels())}:{current().digest}"
    return f"{torch.compiler.config.cache_key_tag} {ours}".lstrip()


def _enters_policy(graph: torch.fx.GraphModule) -> bool:
    """Return whether a graph enters a scope with a policy."""
    graphs = [module.graph for module in graph.modules() if isinstance(module, torch.fx.GraphModule)]
    entered = (node.args[-1] for each in graphs for node in each.nodes if node.target in (enter_region, enter_scope))
    return any(entered)  # 0 is the scope without a policy


def _leaving(compiled: Callable[..., R]) -> Callable[..., R]:
    """Return compiled code that leaves its scopes if it raises.

    The backend "eager", for example, runs the graph, in which the entry and the exit are calls without a ``finally``.
    """

    def run(*args: Any) -> R:
        depth = scope_depth()
        try:
            return compiled(*args)
        except BaseException:
            leave_to_depth(depth)
            raise

    return run


def is_guarding() -> bool:
    """Return whether newly compiled code has a guard on the scope, or dynamo is not imported."""
    return dynamo() is None or guard_manager_class().compile_check_fn.__module__ == __name__


def while_nothing_compiles() -> AbstractContextManager[object]:
    """Return a context manager in which no other thread compiles."""
    return compile_lock() or nullcontext()


def _release_in_child() -> None:
    """Release the lock if another thread was compiling during the fork, because that thread is not in this process."""
    lock = compile_lock()
    if lock is not None and not lock._is_owned():
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
