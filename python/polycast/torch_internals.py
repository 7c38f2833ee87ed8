"""The private names of PyTorch that this package uses. No other file has such a name.

Each has a comment: what it is needed for, and what would be lost without it. Every supported release (2.9 and later)
has each name unless the comment names releases. Names that importing torch does not import are in functions.

Private attributes of PyTorch's objects are used where the object is, as ``_version`` of a tensor or ``_schema`` of an
operator. The members of ``torch.amp.GradScaler`` that ours overrides are such attributes. The names of torch_xla are in
``polycast.devices`` and ``polycast.xla``.
"""

import sys
from collections.abc import Callable
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
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

__all__ = [
    "CustomOpDef",  # policies accept a custom operator that Python defined; without it users write its name
    "FakeTensor",  # debug tools leave out calls without values, and samples are checked without memory
    "OpOverload",  # policies accept an op from torch.ops, and the debug tools tell it from a higher-order one
    "OpOverloadPacket",
    "OptState",  # the stages of an optimizer between two updates, which torch's own GradScaler checks
    "TorchDispatchMode",  # compare sees the ops that draw random numbers
    "tree_leaves",  # finds the tensors in the arguments of an op
    "tree_map",
    "tree_map_only",
]

F = TypeVar("F", bound=Callable[..., object])

# Custom ops are suggested for misspelled names. Without it only the ops of policy.yaml are.
all_op_names = torch._C._dispatch_get_all_op_names
schema_of = torch._C._get_schema  # tells views from writes, by the name of an op
# Python's own binding of the overloads that take names of dimensions, which torch.ops does not take. verify runs them.
variable_functions = torch._C._VariableFunctions

# The name of the out-of-tree backend of this process. Without it policy.yaml's devices for such backends are unknown.
privateuse1_name = torch._C._get_privateuse1_backend_name
# The ops with a kernel on a dispatch key. Without it a guess could override what an out-of-tree backend registered.
registrations_for = torch._C._dispatch_get_registrations_for_dispatch_key

# Autograd, below which the kernels in Python call torch's: they raise versions once, and record no derivative.
below_autograd = torch._C._AutoDispatchBelowAutograd
exclude_keys = torch._C._ExcludeDispatchKeyGuard
DisableTorchFunction = torch._C.DisableTorchFunction  # subclasses of tensors reach the operators as they are
DispatchKey = torch._C.DispatchKey
DispatchKeySet = torch._C.DispatchKeySet
keys_of = torch._C._dispatch_keys  # tells wrapped tensors from plain ones
# On XLA the operators write to the tensors that functionalization wraps. Without these they could not.
is_functional_tensor, to_functional_tensor = torch._is_functional_tensor, torch._to_functional_tensor

# Torch's multi-tensor kernels, which take a step and check gradients on accelerators. Without them, torch.optim does.
fused_adam_, fused_adamw_, fused_sgd_ = torch._fused_adam_, torch._fused_adamw_, torch._fused_sgd_
foreach_add_, foreach_sub_, foreach_mul_ = torch._foreach_add_, torch._foreach_sub_, torch._foreach_mul_
foreach_div, foreach_copy_, foreach_norm = torch._foreach_div, torch._foreach_copy_, torch._foreach_norm
unscale_and_check_ = torch._amp_foreach_non_finite_check_and_unscale_
update_amp_scale_ = torch._amp_update_scale_
neg_view = torch._neg_view  # undoes the negation of a gradient that is a negative view

# The modes of the program would see the calls that watch makes again, and some change their arguments.
without_dispatch_modes = _disable_current_modes

# What torch.amp does at the edges of a region for torch.export, and its scaler for an optimizer after an update.
enter_autocast, exit_autocast = _enter_autocast, _exit_autocast
fresh_optimizer_state = _refresh_per_optimizer_state
# Hooks of all optimizers. A hook after steps drops kept casts; others tell that gradients can be seen within a step.
global_pre_hooks, global_post_hooks = _optimizer._global_optimizer_pre_hooks, _optimizer._global_optimizer_post_hooks

# Checkpoints that do not rerun in backward's own graph, under the name of this release: since 2.15 the second calls the
# first, so only the first one that is there is replaced. Without them a rerun forward loses the policies of its first.
CHECKPOINTS_WITHOUT_REENTRANT = (
    "_checkpoint_without_reentrant_generator_impl",  # 2.15
    "_checkpoint_without_reentrant_generator",
)


def function_modes() -> list[Any]:
    """Return the active modes for torch functions. torch.export has one, and is told of a region."""
    modes: list[Any] = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return modes


def is_only_traced() -> bool:
    """Return whether ops of this thread are recorded without values: by fake tensors, make_fx or functionalization."""
    modes, get = torch._C._TorchDispatchModeKey, torch._C._get_dispatch_mode
    return any(get(key) is not None for key in (modes.FAKE, modes.PROXY, modes.FUNCTIONAL))


def is_fake_mode_active() -> bool:
    """Return whether this thread runs in a mode of fake tensors. A warning there would be one of tracing."""
    return torch._guards.active_fake_mode() is not None


def is_jit_tracing() -> bool:
    """Return whether torch.jit.trace records this thread. It raises where rules of a module would be lost."""
    return torch._C._get_tracing_state() is not None


def is_fx_tracing() -> bool:
    """Return whether torch.fx traces symbolically. It raises where rules of a module would be lost."""
    return bool(torch.fx._symbolic_trace.is_fx_symbolic_tracing())  # type: ignore[no-untyped-call]


# Note [Which functions does torch.compile trace?]
# Dynamo compiles every function that it can. It must not compile a function that only enters or only leaves a scope,
# and it must not break our fused steps into ops. The public decorators, torch.compiler.disable and
# assume_constant_result, wrap the function or import dynamo. These set the same marks.


def uncompiled(function: F) -> F:
    """Have dynamo skip a function's own frame, and the frames of what it calls. It inlines the function elsewhere."""
    return _skipped(function, _FrameAction.SKIP)


def disabled(function: F) -> F:
    """Have dynamo break its graph at calls of a function: what ``torch.compiler.disable`` does, without its wrapper."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return uncompiled(function)


def inlined(function: F) -> F:
    """Have dynamo skip a function's own frame, which enters and leaves around a call, but not what it calls."""
    return _skipped(function, _FrameAction.DEFAULT)


def constant(function: F) -> F:
    """Have dynamo run a function while it traces, and compile for its result."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return uncompiled(function)


def _skipped(function: F, below: _FrameAction) -> F:
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, below))
    return function


def dynamo() -> Any:
    """Return torch._dynamo; None if it is not imported, or another thread is importing it."""
    module = sys.modules.get("torch._dynamo")
    return None if module is None or getattr(module.__spec__, "_initializing", False) else module


def guard_manager_class() -> Any:
    """Return the class whose ``compile_check_fn`` adds the last guards of a frame. Imports dynamo.

    Without it compiled code would follow the policies that it was compiled with.
    """
    from torch._dynamo.guards import CheckFunctionManager

    return CheckFunctionManager


def compile_lock() -> Any:
    """Return the lock that dynamo holds while it compiles; None if dynamo is not imported.

    Without it, a change of policy during a compilation would fail the guards that were just made.
    """
    module = dynamo()
    return None if module is None else module.convert_frame.compile_lock


def dynamo_translator() -> Any:
    """Return dynamo's translator of this thread; None if it is not tracing."""
    module: ModuleType | None = sys.modules.get("torch._dynamo.symbolic_convert")
    return getattr(getattr(module, "tls", None), "current_tx", None)


def unsupported(what: str) -> Exception:
    """Return the exception at which dynamo breaks its graph."""
    error: Exception = torch._dynamo.exc.Unsupported(what)
    return error


def forget_allowed(function: Callable[..., object]) -> None:
    """Undo ``torch.compiler.allow_in_graph`` and ``torch.fx.node.has_side_effect``, which have no public reverse."""
    torch.fx.node._side_effectful_functions.discard(function)
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules._allowed_callable_ids.remove(id(function))
