"""The private names of PyTorch that this package imports. No other file imports private names of PyTorch.

Most comments state the use of a name, and the effect of its absence. Every supported release (2.9 and later) has each
name unless the comment lists releases. A function looks up each name whose module ``import torch`` does not import.

Other files use private attributes of PyTorch's objects, such as ``_cdata`` of tensors, ``_schema`` of operators, and
members of ``torch.amp.GradScaler`` that our scaler overrides. The private names of ``torch_xla`` are in
``polycast.devices`` and ``polycast.xla``.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state
from torch.optim import optimizer as _optimizer
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

__all__ = [
    "CustomOpDef",  # Policies accept ops of `torch.library.custom_op`. Without the class, users could pass only names.
    "FakeTensor",  # The debug tools omit calls on fake tensors, and samples can be fake tensors.
    "OpOverload",  # Policies accept an op from `torch.ops`, and the debug tools distinguish it from a higher-order op.
    "OpOverloadPacket",
    "OptState",  # PyTorch's GradScaler checks these stages of an optimizer between two updates.
    "TorchDispatchMode",  # A mode of compare intercepts the ops that draw random numbers.
    "tree_leaves",  # This function finds the tensors in nested arguments and results.
    "tree_map_only",  # This function casts the tensors in nested arguments.
]

F = TypeVar("F", bound=Callable[..., object])

# This function returns names that we suggest for misspelled ops. Without it, we could suggest only public names.
all_op_names = torch._C._dispatch_get_all_op_names

# This function returns the name of the process's out-of-tree backend, which identifies its device in `policy.yaml`.
privateuse1_name = torch._C._get_privateuse1_backend_name
# This function returns the ops with a kernel on a dispatch key, so that we do not override a backend's own kernels.
registrations_for = torch._C._dispatch_get_registrations_for_dispatch_key

# Our Python kernels call PyTorch's below autograd, so that versions are incremented once and no derivative is recorded.
below_autograd = torch._C._AutoDispatchBelowAutograd
exclude_keys = torch._C._ExcludeDispatchKeyGuard
DisableTorchFunction = torch._C.DisableTorchFunction  # The operators receive subclasses of tensors unchanged.
DispatchKey = torch._C.DispatchKey
DispatchKeySet = torch._C.DispatchKeySet
key_named = torch._C._dispatch_key_parse  # `DispatchKey` lacks the names of some keys, such as AutocastXLA.
keys_of = torch._C._dispatch_keys  # The keys of a tensor distinguish wrapped tensors from plain ones.
# On XLA, functionalization wraps tensors. The operators write to the tensors inside, and wrap their results.
is_functional_tensor, is_functional_base = torch._is_functional_tensor, torch._is_functional_tensor_base
to_functional_tensor, from_functional_tensor = torch._to_functional_tensor, torch._from_functional_tensor
functional_replace, propagate_xla_data = torch._functionalize_replace, torch._C._propagate_xla_data
functional_commit, functional_sync = torch._functionalize_commit_update, torch._functionalize_sync

# These multi-tensor kernels run steps and check gradients on accelerators. Without them, `torch.optim` would step.
fused_adam_, fused_adamw_, fused_sgd_ = torch._fused_adam_, torch._fused_adamw_, torch._fused_sgd_
foreach_add_, foreach_sub_, foreach_mul_ = torch._foreach_add_, torch._foreach_sub_, torch._foreach_mul_
foreach_div, foreach_copy_, foreach_norm = torch._foreach_div, torch._foreach_copy_, torch._foreach_norm
unscale_and_check_ = torch._amp_foreach_non_finite_check_and_unscale_
update_amp_scale_ = torch._amp_update_scale_
neg_view = torch._neg_view  # This function undoes the negation of a gradient that is a negative view.

# Without this function, the program's modes would intercept calls that `watch` repeats. Some modes change arguments.
without_dispatch_modes = _disable_current_modes

# `torch.amp` calls the first two for regions under `torch.export`, and the third in the `update` of its scaler.
enter_autocast, exit_autocast = _enter_autocast, _exit_autocast
fresh_optimizer_state = _refresh_per_optimizer_state
# These are the hooks of all optimizers. Our hook frees casts after a step. Other hooks may need unscaled gradients.
global_pre_hooks, global_post_hooks = _optimizer._global_optimizer_pre_hooks, _optimizer._global_optimizer_post_hooks

# These functions run a non-reentrant checkpoint. We replace the first name that exists, because since 2.15 the second
# function calls the first. Without the replacement, a rerun forward would lose the policies of its first run.
CHECKPOINTS_WITHOUT_REENTRANT = (
    "_checkpoint_without_reentrant_generator_impl",  # PyTorch 2.15 added this function
    "_checkpoint_without_reentrant_generator",
)


def function_modes() -> list[Any]:
    """Return the active modes for torch functions. Regions report to the mode of ``torch.export``."""
    modes: list[Any] = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return modes


def is_only_traced() -> bool:
    """Return whether fake tensors, ``make_fx`` or functionalization record the ops of this thread without values."""
    modes, get = torch._C._TorchDispatchModeKey, torch._C._get_dispatch_mode
    return any(get(key) is not None for key in (modes.FAKE, modes.PROXY, modes.FUNCTIONAL))


def is_fake_mode_active() -> bool:
    """Return whether this thread is in a mode of fake tensors, in which regions do not warn."""
    return torch._guards.active_fake_mode() is not None


def is_jit_tracing() -> bool:
    """Return whether ``torch.jit.trace`` records this thread. Modules with rules then raise, so no rules are lost."""
    return torch._C._get_tracing_state() is not None


def is_fx_tracing() -> bool:
    """Return whether ``torch.fx`` traces symbolically. Modules with rules then raise instead of losing their rules."""
    return bool(torch.fx._symbolic_trace.is_fx_symbolic_tracing())  # type: ignore[no-untyped-call]


# Note [Which functions does torch.compile trace?]
# Dynamo compiles every function that it can. It must not compile a function that only enters or only leaves a scope,
# or trace into our fused steps. The public decorators, `torch.compiler.disable` and `assume_constant_result`, wrap the
# function or import dynamo. The functions below set the marks of these decorators without a wrapper or an import.


def uncompiled(function: F) -> F:
    """Have dynamo skip a function's frame and its callees' frames. In a traced caller, dynamo inlines the function."""
    return _skipped(function, _FrameAction.SKIP)


def disabled(function: F) -> F:
    """Have dynamo break its graph at calls of a function, like ``torch.compiler.disable``, but without a wrapper."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return uncompiled(function)


def inlined(function: F) -> F:
    """Have dynamo skip a function's frame, which enters and leaves a scope, but not the frames of its callees."""
    return _skipped(function, _FrameAction.DEFAULT)


def constant(function: F) -> F:
    """Have dynamo run a function while it traces, and treat the result as a constant."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return uncompiled(function)


def _skipped(function: F, below: _FrameAction) -> F:
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, below))
    return function


def dynamo() -> Any:
    """Return ``torch._dynamo``, or None if its import has not begun or has not ended."""
    module = sys.modules.get("torch._dynamo")
    return None if module is None or getattr(module.__spec__, "_initializing", False) else module


def guard_manager_class() -> Any:
    """Import dynamo, and return the class whose ``compile_check_fn`` adds the last guards of a frame.

    Without the class, compiled code would follow the policies that were active when it was compiled.
    """
    from torch._dynamo.guards import CheckFunctionManager

    return CheckFunctionManager


def output_graph_class() -> Any:
    """Import dynamo, and return the class whose ``call_user_compiler`` passes a graph to the backend.

    Without the class, compiled backward would cast according to the region around the call.
    """
    from torch._dynamo.output_graph import OutputGraph

    return OutputGraph


def backward_without_autocast() -> AbstractContextManager[object]:
    """Return a context manager in which AOTAutograd traces backward without autocast, if the user set no other mode."""
    from torch._functorch import config

    is_default = config.backward_pass_autocast == "same_as_forward"
    return config.patch(backward_pass_autocast="off") if is_default else nullcontext()


def compile_lock() -> Any:
    """Return the lock that dynamo holds while it compiles, or None if dynamo is not imported.

    Without the lock, a change of policy during a compilation would invalidate the new guards.
    """
    module = dynamo()
    return None if module is None else module.convert_frame.compile_lock


def dynamo_translator() -> Any:
    """Return dynamo's translator of this thread, or None if dynamo is not tracing."""
    module: ModuleType | None = sys.modules.get("torch._dynamo.symbolic_convert")
    return getattr(getattr(module, "tls", None), "current_tx", None)


def unsupported(reason: str) -> Exception:
    """Return the exception at which dynamo breaks its graph."""
    error: Exception = torch._dynamo.exc.Unsupported(reason)
    return error
