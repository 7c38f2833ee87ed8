"""A module under rules: its ``forward`` enters them."""

from functools import partial, wraps
from types import ModuleType
from typing import Any
from weakref import ref

import torch
from torch import nn

from polycast._compiled import enter_scope, leave_scope
from polycast._replaced import Undo, replace
from polycast.policy.policy import Policy
from polycast.scope import scopes, tracers
from polycast.scope.compiled_code import inlined
from polycast.scope.summary import summary


class Assigned(partial[Any]):
    """The forward of a module under rules.

    It holds the module weakly, since the module holds it. A copy of the module gets a forward of its own.
    """

    @classmethod
    def of(cls, module: nn.Module, policy: Policy, forward: Any) -> "Assigned":
        """Return a forward under the rules of a policy: the given one, or that of the module's class for None."""
        return cls(_run, ref(module), policy, policy.digest, forward)

    def __reduce__(self) -> tuple[Any, ...]:
        return Assigned.of, (self.module, self.policy, self.args[-1])

    @property
    def module(self) -> nn.Module:
        """The module."""
        module: nn.Module = self.args[0]()
        return module

    @property
    def policy(self) -> Policy:
        """Its rules."""
        policy: Policy = self.args[1]
        return policy

    def extra_repr(self) -> str:
        """Return what the module says of itself, and its rules."""
        own = type(self.module).extra_repr(self.module)
        return f"{own}{', ' if own else ''}rules: {summary(self.policy)}"

    @property
    def __wrapped__(self) -> Any:  # where inspect finds the signature
        return self.args[-1] or type(self.module).forward.__get__(self.module)


@inlined
def _run(module: ref[nn.Module], policy: Policy, digest: str, forward: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.compiler.is_compiling():
        scope = scopes.keep_scope_in(scopes.MODULE, digest)
        enter_scope(scope)
        try:
            return _forward(module, forward, args, kwargs)
        finally:
            leave_scope()
    tracers.check_call(module(), args, kwargs)
    with scopes.in_module(policy):
        return _forward(module, forward, args, kwargs)


@inlined
def _forward(module: ref[nn.Module], forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if forward is not None:
        return forward(*args, **kwargs)
    here: Any = module()
    return type(here).forward(here, *args, **kwargs)


def rules_of(module: nn.Module) -> Policy | None:
    """Return the rules that a module was given."""
    own = module.__dict__.get("forward")
    return own.policy if isinstance(own, Assigned) else None


def set_rules(module: nn.Module, policy: Policy | None) -> None:
    """Have a module follow the rules of a policy alone, or none."""
    own = module.__dict__
    forward = own.get("forward")
    if isinstance(forward, Assigned):
        forward = forward.args[-1]
    if isinstance(getattr(own.get("extra_repr"), "__self__", None), Assigned):
        del own["extra_repr"]
    if policy is not None:
        forward = Assigned.of(module, policy, forward)
        own.setdefault("extra_repr", forward.extra_repr)
    if forward is None:
        own.pop("forward", None)
    else:
        own["forward"] = forward


def check_models(_: ModuleType, undo: Undo) -> None:
    """Have torch.fx raise for a model that has rules itself: torch.fx would trace the forward of the model's class."""
    trace = torch.fx.Tracer.trace

    @wraps(trace)
    def checked(self: torch.fx.Tracer, root: Any, *args: Any, **kwargs: Any) -> torch.fx.Graph:
        if isinstance(root, nn.Module) and isinstance(vars(root).get("forward"), Assigned):
            raise tracers.lost("torch.fx records no casts", root)
        return trace(self, root, *args, **kwargs)

    replace(torch.fx.Tracer, "trace", checked, undo)
