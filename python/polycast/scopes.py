"""The policies in force: of the process, of regions and of modules, and the numbers that threads carry them by.

See Note [The number of a policy] in csrc/autocast/rules.h.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch

from polycast import backends
from polycast._compiled import (
    Additions,
    Rules,
    add_kernels,
    base_rules,
    enter_region,
    enter_rules,
    installed_kernels,
    leave_rules,
    leave_rules_to,
    make_rules,
    rules_depth,
    set_carrier,
    set_numbered,
    use_rules,
    uses_of,
)
from polycast.patch import PatchRow, Policy

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
Region: TypeAlias = tuple[str, torch.dtype, bool, bool]  # device, lower precision, enabled, cache enabled
NO_RULES = Policy()
# The carrier's own regions run in these, and mean no policy.
_OWN = (torch.float16, torch.bfloat16, torch.get_autocast_dtype(backends.CARRIER))


class Scope(NamedTuple):
    """What holds over the policy of the process: the rules of the regions and of the modules that a thread is in.

    What is over decides over all of these.
    """

    regions: Policy = NO_RULES
    modules: Policy = NO_RULES
    over: Policy = NO_RULES


class _Numbered(NamedTuple):
    number: torch.dtype
    kernels: Additions


_SPARED = 12
_lock = RLock()
_of_process = NO_RULES
_kernels_of_process: Additions | None = None
_free = sorted({kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and kind not in _OWN}, key=str)
_numbered: dict[Scope, _Numbered] = {}
_scopes: dict[torch.dtype, Scope] = {}


def is_numbered() -> bool:
    """Return whether this thread is in a region or a module with rules."""
    return torch.is_autocast_enabled(backends.CARRIER)


def scope() -> Scope:
    """Return what holds in this thread."""
    if not is_numbered():
        return Scope()
    return _scopes.get(torch.get_autocast_dtype(backends.CARRIER), Scope())


def policy_in_force() -> Policy:
    """Return the rules over the base that hold in this thread: the process's, its regions', its modules', joined."""
    return _joined(scope())


def layers(number: torch.dtype | None) -> tuple[tuple[str, Policy], ...]:
    """Return the policies over the base that hold under a number, the one that decides first, by whose they are."""
    scope = _scopes.get(number, Scope()) if number is not None else Scope()
    return ("over all", scope.over), ("module", scope.modules), ("region", scope.regions), ("process", _of_process)


def number_in_region(digest: str) -> torch.dtype:
    """Return the number of what holds in a region with a policy that is entered here."""
    now = scope()
    return _number_of(now._replace(regions=_join(now.regions, Policy.of_digest(digest))))


def number_in_module(digest: str) -> torch.dtype:
    """Return the number of what holds in a module with rules that is called here."""
    now = scope()
    return _number_of(now._replace(modules=_join(now.modules, Policy.of_digest(digest))))


def enter(digest: str, region: Region | None = None) -> None:
    """Enter the rules of a policy: in a region, as the type, dtype and switches of its device say, else in a module.

    A number is counted as used before another thread may take it for free.
    """
    if torch.compiler.is_compiling():
        _enter(number_in_region(digest) if region else number_in_module(digest), region)
        return
    with _lock:
        _enter(number_in_region(digest) if region else number_in_module(digest), region)


def _enter(number: torch.dtype, region: Region | None) -> None:
    if region is None:
        enter_rules(number)
    else:
        enter_region(*region, number)


def run_in(scope: Scope, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Return what the function returns where this scope holds."""
    with _lock:
        enter_rules(_number_of(scope))
    try:
        return function(*args, **kwargs)
    finally:
        leave_rules()


def use_in_process(policy: Policy) -> None:
    """Make a policy that of the process, in the place of an earlier one."""
    global _of_process, _kernels_of_process
    with _lock:
        rules, kernels = _resolve(policy)
        use_rules(rules)
        _of_process, _kernels_of_process = policy, kernels


def refresh() -> None:
    """Resolve the rules of every number again, for the columns that are installed now."""
    global _kernels_of_process
    with _lock:
        rules, _kernels_of_process = _resolve(_of_process)
        use_rules(rules)
        for scope, numbered in list(_numbered.items()):
            rules, kernels = _resolve(_joined(scope))
            set_numbered(numbered.number, rules)
            _numbered[scope] = numbered._replace(kernels=kernels)


@lru_cache
def _join(policy: Policy, other: Policy) -> Policy:
    """Return both; those of a program are few, and are joined at each entry."""
    return policy | other


def _joined(scope: Scope) -> Policy:
    return _of_process | scope.regions | scope.modules | scope.over


def _number_of(scope: Scope) -> torch.dtype:
    if torch.compiler.is_exporting():
        raise RuntimeError(
            "torch.export records the regions of a program and not their casts, and has no place for a policy "
            "of a region or a module; export without one, or make it that of the process where the program runs: "
            "polycast.use(policy)"
        )
    _watch_dynamo()
    with _lock:
        numbered = _numbered.get(scope)
        if numbered is None:
            rules, kernels = _resolve(_joined(scope))
            number = _take_number()
            set_numbered(number, rules)
            numbered = _numbered[scope] = _Numbered(number, kernels)
            _scopes[number] = scope
    return numbered.number


def _take_number() -> torch.dtype:
    """Return a number that is free, made so by forgetting the scopes that nobody is in, and their compiled code.

    That cannot be done while dynamo traces, so some are spared for it.
    """
    if len(_free) <= _SPARED and _translator() is None:
        for scope, numbered in list(_numbered.items()):
            if uses_of(numbered.number) == 0:
                del _numbered[scope], _scopes[numbered.number]
                set_numbered(numbered.number, None)
                _free.append(numbered.number)
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()
    if not _free:
        raise RuntimeError(
            f"{len(_numbered)} policies are in force at once, or in one compiled function, which is as many as can be"
        )
    return _free.pop()


def _resolve(policy: Policy) -> tuple[Rules, Additions]:
    """Return the rules of a policy over the base, and the kernels of the ops that the base gives none."""
    rows = policy.rows(tuple(installed_kernels()))
    patches = [(_full(row), row.column, row.category, _dtype(row), row.message) for row in rows]
    kernels = add_kernels([(_full(row), row.column) for row in rows])
    return (make_rules(patches) if patches else base_rules()), kernels


def _full(row: PatchRow) -> str:
    return row.name if row.overload == "default" else f"{row.name}.{row.overload}"


def _dtype(row: PatchRow) -> torch.dtype | None:
    return None if row.dtype is None else getattr(torch, row.dtype)


def _translator() -> Any:
    """Return what dynamo traces with in this thread; None where it does not."""
    dynamo = sys.modules.get("torch._dynamo.symbolic_convert")
    return None if dynamo is None else getattr(dynamo.tls, "current_tx", None)


def _watch_dynamo() -> None:
    """Have what dynamo enters while it traces left again, where it gives up before it comes to the end."""
    if (translator := _translator()) is not None:
        depth = rules_depth()
        translator.output.add_cleanup_hook(lambda: leave_rules_to(depth))


# What enters and does not leave, the other way around, and what finds numbers: dynamo inlines it, or runs it while it
# traces, and must not compile it, nor what it calls, alone.
_uncompiled: list[Callable[..., object]] = []
# What enters and leaves around a call: alone it must not be compiled either, in part; what it calls may be.
_inlined: list[Callable[..., object]] = []


def uncompiled(function: F) -> F:
    """Have dynamo leave a function's own frame alone, and those of what it calls."""
    _uncompiled.append(function)
    return function


def inlined(function: F) -> F:
    """Have dynamo leave a function's own frame alone."""
    _inlined.append(function)
    return function


def _teach_dynamo(_: ModuleType) -> None:
    calls: tuple[Callable[..., None], ...] = (enter_region, enter_rules, leave_rules)
    for call in calls:
        torch.compiler.allow_in_graph(call)  # type: ignore[no-untyped-call]
        torch.fx.node.has_side_effect(call)
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

    for function in _inlined:
        torch._dynamo.eval_frame.skip_code(function.__code__)
    for function in _uncompiled:
        set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))


# Dynamo runs these while it traces, and compiles for what they return.
for _function in (number_in_region, number_in_module, _number_of, enter):
    uncompiled(_function)
inlined(run_in)
number_in_region._dynamo_marked_constant = True  # type: ignore[attr-defined]
number_in_module._dynamo_marked_constant = True  # type: ignore[attr-defined]
set_carrier(backends.CARRIER)


def teach_dynamo() -> None:
    """Have torch.compile know what enters and leaves policies; now, or once it is imported."""
    backends.once_imported("torch._dynamo", _teach_dynamo)
