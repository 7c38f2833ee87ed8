"""A module under rules: its ``forward`` enters them.

Note [The class of a module with rules]
A module with rules has a class of its own, which inherits from the class that it had, as torch's ``fully_shard`` and
``parametrize`` make them. So ``forward`` is found as any method is: a copy runs with the weights of the copy, a bound
``forward`` holds its module, and what wraps ``forward`` wraps the rules. The rules lie in the module's ``__dict__``,
where copies find them. An attribute ``forward`` of the module itself hides the method. So it is wrapped, too.
"""

from collections.abc import Callable
from functools import partial, wraps
from types import new_class
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import nn
from torch.fx import GraphModule
from torch.nn.utils.parametrize import is_parametrized

from polycast._compiled import enter_scope, leave_scope
from polycast.policy.policy import Policy
from polycast.scope import scopes, tracers
from polycast.scope.compiled_code import inlined
from polycast.scope.summary import summary

_RULES = "_polycast_rules"
_set_class: Callable[[nn.Module, type], None] = vars(object)["__class__"].__set__
# The class of modules with rules, by the class that they had.
_made: WeakValueDictionary[type, type] = WeakValueDictionary()


class _Rules(NamedTuple):
    """The rules of a module, and their digest, which compiled code guards."""

    policy: Policy
    digest: str


class Ruled:
    """The first base of a module with rules. The second one is the class that it had."""

    def __init_subclass__(cls, **_: object) -> None:
        """Run nothing that the other base runs for the subclasses that people write."""

    @property
    def __class__(self) -> type:
        """The class. One that a library gives to the module keeps the rules, as that of a lazy module."""
        return type(self)

    @__class__.setter
    def __class__(self, cls: type) -> None:
        _set_class(self, _ruled(cls) if _RULES in vars(self) else cls)  # type: ignore[arg-type]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return what makes a copy: no pickle can name the class."""
        reduced = super().__reduce_ex__(protocol)
        had = _had(type(self))
        if isinstance(reduced, str) or had is None:
            return reduced
        make, arguments, *state = reduced
        arguments = tuple(had if one is type(self) else one for one in arguments)
        if state and isinstance(state[0], dict):
            state[0] = {name: value for name, value in state[0].items() if name != _RULES}
        return _remake, (vars(self)[_RULES].policy, make, *arguments), *state

    def __prepare_scriptable__(self) -> Any:
        """Raise: torch.jit.script asks for what it compiles in the place of the module."""
        raise tracers.lost("torch.jit.script records no casts", self)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """Return what the module says of itself, and its rules."""
        own: str = super().extra_repr()  # type: ignore[misc]
        rules = rules_of(self)  # type: ignore[arg-type]
        return own if rules is None else f"{own}{', ' if own else ''}rules: {summary(rules)}"


class Around(partial[Any]):
    """A forward that is an attribute of the module itself, under the rules of the module."""

    @classmethod
    def of(cls, module: nn.Module, forward: Callable[..., Any]) -> "Around":
        """Return a forward under the rules of a module."""
        return cls(_run, module, forward)

    @property
    def __wrapped__(self) -> Any:  # where inspect finds the signature
        return self.args[-1]


@inlined
def _run(module: Any, forward: Any, *args: Any, **kwargs: Any) -> Any:
    rules: _Rules | None = module.__dict__.get(_RULES)
    if rules is None:
        return forward(*args, **kwargs)
    if torch.compiler.is_compiling():
        scope = scopes.keep_scope_in(scopes.MODULE, rules.digest)
        enter_scope(scope)
        try:
            return forward(*args, **kwargs)
        finally:
            leave_scope()
    tracers.check_call(module, args, kwargs)
    with scopes.in_module(rules.policy):
        return forward(*args, **kwargs)


def _ruled(cls: type) -> type:
    """Return the class of modules with rules that had a class."""
    if issubclass(cls, Ruled):
        return cls
    if cls not in _made:
        bound = cls.forward  # type: ignore[attr-defined]

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            # A method that was bound before the rules were taken back may be called after.
            own = super(Ruled, self).forward if isinstance(self, Ruled) else partial(bound, self)  # type: ignore[misc]
            return _run(self, own, *args, **kwargs)

        method = wraps(bound)(inlined(forward)) if callable(bound) else inlined(forward)
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        methods = _OF_GRAPH_MODULE if issubclass(cls, GraphModule) else {}
        own = {**names, **methods, "forward": method}
        _made[cls] = made = new_class(cls.__name__, (Ruled, cls), None, lambda namespace: namespace.update(own))
        return made
    return _made[cls]


def _of_graph_module(name: str) -> Callable[..., Any]:
    """Return a method of GraphModule that looks at the class: it runs in the one that the module had."""

    def method(self: GraphModule, *args: Any) -> Any:
        ruled = type(self)
        _set_class(self, ruled.__bases__[-1])
        try:
            result = getattr(self, name)(*args)
        finally:
            _set_class(self, ruled)
        if isinstance(result, GraphModule):  # a copy, which is made of the graph
            set_rules(result, rules_of(self))
        return result

    return method


_OF_GRAPH_MODULE = {name: _of_graph_module(name) for name in ("recompile", "__copy__", "__deepcopy__")}


def _had(cls: type) -> type | None:
    """Return the class that modules of a class had before they got rules; None for a class of another kind."""
    had = cls.__bases__[-1]
    return had if _made.get(had) is cls else None


def _remake(policy: Policy, make: Callable[..., Any], *arguments: Any) -> Any:
    module = make(*arguments)
    set_rules(module, policy)
    return module


def _change_class(module: nn.Module, change: Callable[[type], type | None]) -> None:
    cls = type(module)
    if is_parametrized(module):  # by a class for this module alone, whose base it gets back with the last of them
        base = change(cls.__bases__[0])
        changed = base and type(cls.__name__, (base,), dict(vars(cls)))
    else:
        changed = change(cls)
    if changed is not None:
        _set_class(module, changed)


def rules_of(module: nn.Module) -> Policy | None:
    """Return the rules that hold in a module of its own."""
    rules: _Rules | None = vars(module).get(_RULES)
    return None if rules is None else rules.policy


def set_rules(module: nn.Module, policy: Policy | None) -> None:
    """Have a module follow the rules of a policy, or none."""
    own = vars(module)
    if isinstance(forward := own.get("forward"), Around):
        own["forward"] = forward.args[-1]
    if policy is None:
        if own.pop(_RULES, None) is not None:
            _change_class(module, _had)
        return
    _ = policy.kernels  # made here, where dynamo does not compile the making
    own[_RULES] = _Rules(policy, policy.digest)
    _change_class(module, _ruled)
    if "forward" in own:
        own["forward"] = Around.of(module, own["forward"])
