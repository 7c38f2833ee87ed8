"""Modules with rules, which apply while ``forward`` runs.

Note [Why does a module with rules have a forward of its own?]
Hooks of the module would miss direct calls of ``forward``. PyTorch runs no hook after a KeyboardInterrupt, so the rules
would remain active. A subclass for the module would change its type. Therefore we add attributes to the module itself:
the policy, and a ``forward`` that enters the policy and calls the original ``forward``. Copies and pickles contain the
attributes, because they are in the module's ``__dict__``. In a deep copy they are bound to the copy. Other attributes
bind ``forward`` to replicas of ``nn.DataParallel``, and make ``torch.jit.script`` raise. A pre-hook that does nothing
prevents ``nn.TransformerEncoderLayer`` from running its fused operator, which calls no module of the layer.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import nn

from polycast._extension import policy_guard
from polycast.policy.policy import Policy
from polycast.scope import scopes
from polycast.torch_internals import inlined, is_fx_tracing, is_jit_tracing, tree_leaves

_RULES = "_polycast_rules"
_REPLICATE = "_replicate_for_data_parallel"
_SCRIPT = "__prepare_scriptable__"
# PyTorch's keys of hooks are numbers. In an unpickled module another hook may have our number, so our key is a name.
_HOOK = "polycast"


class _Rules(NamedTuple):
    """The rules of a module, and their digest, on which compiled code guards."""

    policy: Policy
    digest: str


class Bound:
    """A function that is bound to a module, like a method.

    The reference to the module is weak, so the weights of a deleted model are freed immediately.
    """

    __slots__ = ("_function", "_module", "own")

    def __init__(self, function: Callable[..., Any], module: nn.Module, own: Callable[..., Any] | None = None) -> None:
        self._function = function
        self._module = ref(module)
        self.own = own
        """The ``forward`` that the module itself had before, or None."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._module(), self.own, *args, **kwargs)

    @property
    def __self__(self) -> nn.Module:
        return self._module()  # type: ignore[return-value]

    @property
    def __func__(self) -> Callable[..., Any]:
        function, own = self._function, self.own

        def forward(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            return function(module, own, *args, **kwargs)

        return forward

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The ``forward`` whose signature ``inspect`` shows."""
        return self.own or MethodType(type(self.__self__).forward, self.__self__)

    @property
    def __code__(self) -> CodeType:
        """The code that ``torch.compile`` reads from the ``forward`` of a GraphModule."""
        return self.__wrapped__.__code__

    def __deepcopy__(self, memo: dict[int, Any]) -> "Bound":
        return Bound(self._function, deepcopy(self.__self__, memo), deepcopy(self.own, memo))

    def __reduce__(self) -> tuple[Any, ...]:  # the module is state, because a GraphModule pickles its attributes first
        return object.__new__, (Bound,), (self._function, self.__self__, self.own)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        Bound.__init__(self, *state)


@inlined
def _run(module: Any, own: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call ``own``, or the ``forward`` of the module's class, under the module's rules."""
    if module is None:
        raise ReferenceError("the module of this forward was deleted; keep a reference to the module")
    forward = partial(type(module).forward, module) if own is None else own
    rules: _Rules | None = module.__dict__.get(_RULES)
    if rules is None:  # the rules were removed, but the caller still has this forward
        return forward(*args, **kwargs)
    if torch.compiler.is_compiling():
        return scopes.run_in(scopes.keep_scope_in(scopes.MODULE, rules.digest), forward, *args, **kwargs)
    if is_jit_tracing():
        raise _lost("torch.jit.trace makes code that follows TorchScript's own cast lists", module)
    if is_fx_tracing() and any(isinstance(leaf, torch.fx.Proxy) for leaf in tree_leaves((args, kwargs))):
        raise _lost("torch.fx records no casts", module)
    with policy_guard(scopes.MODULE, rules.policy.kernels):
        return forward(*args, **kwargs)


def _replicate(module: Any, own: Any) -> nn.Module:
    """Return a replica of a module for ``nn.DataParallel``, with a ``forward`` that is bound to the replica."""
    replica: nn.Module = getattr(type(module), _REPLICATE)(module)
    _bind(replica, own)
    return replica


def _reject_script(module: nn.Module, _own: Any) -> None:
    """Raise an error, because ``torch.jit.script``, which calls this function for a module, would lose its rules."""
    raise _lost("torch.jit.script records no casts", module)


def _lost(what: str, module: nn.Module) -> RuntimeError:
    return RuntimeError(
        f"{what}, so the rules of this {type(module).__name__} would be lost; use torch.compile, which follows them, "
        "or remove them first: polycast.assign(model, {name: None})"
    )


def _do_nothing(_module: nn.Module, _args: object) -> None:
    pass


def _bind(module: nn.Module, own: Callable[..., Any] | None) -> None:
    functions = {"forward": _run, _REPLICATE: _replicate, _SCRIPT: _reject_script}
    vars(module).update({name: Bound(function, module, own) for name, function in functions.items()})


def rules_of(module: nn.Module) -> Policy | None:
    """Return the policy that was assigned to a module itself, or None."""
    attributes = vars(module)
    rules: _Rules | None = attributes.get(_RULES)
    # Of our attributes, an unpickled GraphModule has only the rules and `_SCRIPT`, so its rules do not apply.
    return None if rules is None or _REPLICATE not in attributes else rules.policy


def set_rules(module: nn.Module, policy: Policy | None) -> None:
    """Set the policy of a module, or remove it."""
    attributes = vars(module)
    forward = attributes.get("forward")
    if policy is None:
        for name in (_RULES, _REPLICATE, _SCRIPT):
            attributes.pop(name, None)
        module._forward_pre_hooks.pop(_HOOK, None)  # type: ignore[call-overload]
        if isinstance(forward, Bound):
            del attributes["forward"]
            if forward.own is not None:
                attributes["forward"] = forward.own
        return
    _ = policy.kernels  # dynamo cannot trace the first use of this property
    attributes[_RULES] = _Rules(policy, policy.digest)
    module._forward_pre_hooks[_HOOK] = _do_nothing  # type: ignore[index]
    if forward is None and not isinstance(getattr_static(type(module), "forward"), FunctionType):
        forward = module.forward  # a static method, for example, has no signature with `self`
    if not isinstance(forward, Bound):
        _bind(module, forward)
    elif forward.__self__ is not module:  # a shallow copy has the forward of the original
        _bind(module, forward.own)
