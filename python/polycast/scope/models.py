"""Gives the rules of a plan to the modules of each model as it is first called.

Note [The models of a plan]
A plan names a model by its class, so nobody has the model when the plan is used. A hook for all modules meets it: the
module that is called while none of the models met so far has it. Its modules get their rules then, and keep them until
another plan is used. Torch has looked up the ``forward`` of the model itself by then, without its rules. So the hook
enters these for this first call, and another one leaves them.

Dynamo inlines the hook where it traces the call of a model. Rules cannot be given there, as a model that gets rules
has another class than the one that is traced. So the hook breaks the graph of the first call, and runs outside of it.
With ``fullgraph=True`` the break is an error, which names the model and the remedy.
"""

import threading
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from weakref import WeakKeyDictionary, ref

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from polycast import _caller
from polycast._compiled import scope_depth
from polycast._grammar.errors import Problem
from polycast._suggest import suggestion
from polycast.policy.plan import Plan
from polycast.policy.plan_reader import shown
from polycast.policy.policy import Policy
from polycast.scope import callers, scopes, tracers
from polycast.scope.assignment import Choice, choose
from polycast.scope.compiled_code import constant, uncompiled
from polycast.scope.module import plan_rules, rules_of
from polycast.scope.wrappers import model_in, modules_in, rules_in

# Torch warns of hooks for all modules beside compiled ones. Ours take the model that is in the wrapper.
COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"


_used: "Models | None" = None  # while they have rules


class _Entered(threading.local):
    """The models whose rules a hook has entered in a thread, each with the depth and the context of their scope."""

    def __init__(self) -> None:
        self.calls: list[tuple[nn.Module, int, AbstractContextManager[object]]] = []


class Models:
    """The models that a plan has met while it is used."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        # With all modules in them, by their ids: a WeakSet would take as long as the rest of a hook.
        self._met: dict[int, ref[nn.Module]] = {}
        self._given: WeakKeyDictionary[nn.Module, Choice] = WeakKeyDictionary()
        self._called: set[str] = set()  # the classes of the models
        self._warned: set[tuple[str, str]] = set()
        self._entered = _Entered()
        self._open = 0  # of these, in all threads
        self._hooks: dict[str, RemovableHandle] = {}

    def start(self) -> None:
        """Give the models that were met their rules again, and those that will be met theirs."""
        global _used
        _used = self
        for module, choice in self._given.items():
            _give(module, choice)
        warnings.filterwarnings("ignore", message=COMPILED)
        self._filter = warnings.filters[0]
        self._hooks["enter"] = register_module_forward_pre_hook(self._enter)

    def stop(self) -> None:
        """Take the rules back."""
        global _used
        _used = None
        self._hooks.pop("enter").remove()
        if self._open == 0 and "leave" in self._hooks:
            self._hooks.pop("leave").remove()
        with suppress(ValueError):  # the program may have reset them
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        with self._lock:
            for module in self._given:
                plan_rules(module, None)
                callers.have_called(module, callers.is_had_called(module) and rules_of(module) is not None)

    @uncompiled
    def _enter(self, module: nn.Module, args: object) -> None:
        if torch.compiler.is_compiling():
            if what := _not_met(id(module), type(module)):
                torch._dynamo.graph_break(msg=what)
        elif not self._is_met(module):
            self.meet(module)
            policy = rules_of(module)
            if policy is not None:
                tracers.check_call(module, args)
                context = scopes.in_module(policy)
                context.__enter__()
                self._entered.calls.append((module, scope_depth(), context))
                with self._lock:
                    self._open += 1
                    if "leave" not in self._hooks:
                        self._hooks["leave"] = register_module_forward_hook(self._leave, always_call=True)

    @uncompiled
    def _leave(self, module: nn.Module, _args: object, output: object) -> None:
        if torch.compiler.is_compiling() or not self._entered.calls or self._entered.calls[-1][0] is not module:
            return
        _, depth, context = self._entered.calls.pop()
        if depth == scope_depth():  # else Ctrl-C has ended the call, after which torch calls no hook
            context.__exit__(None, None, None)
        with self._lock:
            self._open -= 1
            # After an error torch is iterating over its hooks. Then `stop` removes this one.
            if self._open == 0 and output is not None:
                self._hooks.pop("leave").remove()

    def _is_met(self, module: nn.Module) -> bool:
        known = self._met.get(id(module))
        return known is not None and known() is module

    def meet(self, module: nn.Module) -> None:
        """Give a model its rules."""
        with self._lock:
            new = [] if self._is_met(module) else [part for part in module.modules() if not self._is_met(part)]
            kind = type(model := model_in(module))
            rules = rules_in(self._plan, kind)
            chosen = {} if rules is None or not new else self._choose(model, rules)
            given = {part: chosen[part] for part in new if part in chosen}
            for part, choice in given.items():
                _give(part, choice)
            self._given.update(given)
            self._called.update(cls.__name__ for cls in kind.__mro__ if new)
            for part in new:
                self._met[id(part)] = ref(part, partial(self._forget, id(part)))

    def warn_of_uncalled(self) -> None:
        """Warn of classes with rules of which no model was called, unless no model was called at all."""
        names = [name for name in self._plan.models if name not in self._called]
        if self._called and names:
            lines = [f"no {name} was called outside of other modules{suggestion(name, self._called)}" for name in names]
            _caller.warn("\n".join(["rules of the plan hold nowhere:", *lines]))

    def _forget(self, number: int, _: object) -> None:
        self._met.pop(number, None)

    def _choose(self, model: nn.Module, rules: Mapping[str, Policy]) -> dict[nn.Module, Choice]:
        """Return what each module is to have, and warn once of rules that hold nowhere."""
        problems: list[Problem] = []
        chosen = choose(dict(modules_in(model)), rules, problems)
        name = type(model).__name__
        new = [problem for problem in problems if (name, problem.location.path) not in self._warned]
        self._warned.update((name, problem.location.path) for problem in new)
        if new:
            lines = [f"{shown(name, problem.location.path)}: {problem.what}; {problem.remedy}" for problem in new]
            _caller.warn("\n".join(["rules of the plan hold nowhere:", *lines]))
        return chosen


@constant
def _not_met(number: int, kind: type[nn.Module]) -> str:
    """Return why the module with an id, which dynamo traces, must be called uncompiled first; "" if it need not."""
    if _used is None or number in _used._met or rules_in(_used._plan, kind) is None:
        return ""
    return f"polycast gives modules of a {kind.__name__} their rules when it is first called; call it once uncompiled"


def _give(module: nn.Module, choice: Choice) -> None:
    plan_rules(module, choice.policy)
    if choice.is_called:
        callers.have_called(module, True)
