"""Autocast regions as context managers and decorators."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.amp.autocast_mode import autocast as StockAutocast  # `torch.autocast` may have been replaced

from polycast._dtypes import dtype_of
from polycast._extension import enter_owner, enter_region, leave_owner, leave_scope, region_guard
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope import scopes
from polycast.torch_internals import (
    dynamo_translator,
    enter_autocast,
    exit_autocast,
    function_modes,
    uncompiled,
    unsupported,
)

P = ParamSpec("P")
R = TypeVar("R")

# Regions without a policy share a guard if their settings are equal, because a guard stores no state of a thread.
_guard_without_policy = cache(region_guard)


class Region(StockAutocast):
    """An autocast region, which :func:`polycast.autocast` returns: a ``torch.autocast`` that may have a policy.

    Several threads can be in one region at the same time, and a thread can enter a region that it is already in.
    ``torch.autocast`` stores the previous state in itself, so it can be entered only once at a time.

    A region with a policy has these limits. In compiled code, the graph breaks at the ``with`` statement of a region
    that was made outside. A region that compiled code makes is not a ``torch.autocast``. ``torch.export`` raises,
    because it records regions but no casts. ``torch.jit.script`` does not accept a policy.
    """

    device: str
    """The device type, as in ``torch.device(...).type``."""
    policy: Policy | None
    """The rules that apply in the region, or None. They override outer regions and the process, but not modules."""

    __enter__ = enter_owner
    __exit__ = leave_owner

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | str | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        policy: PolicyLike = None,
    ) -> None:
        if isinstance(dtype, str):
            dtype = dtype_of(dtype)
        if policy is not None and not isinstance(policy, Policy):
            policy = Policy(policy)
        self.policy = policy
        super().__init__(device_type, dtype, enabled, cache_enabled)
        # `_cache_enabled` is read from `__dict__`, because its property would add a tenth to the time of this method.
        self._settings = self.device, self.fast_dtype, self._enabled, self.__dict__["_cache_enabled"]
        self._guard = (
            _guard_without_policy(*self._settings, None)
            if policy is None
            else region_guard(*self._settings, policy.kernels)
        )

    @property
    def _cache_enabled(self) -> bool:
        """The attribute that dynamo reads at a region. It breaks the graph at a policy, which dynamo cannot trace."""
        if self.policy is not None and dynamo_translator() is not None:
            what = "policy: expected a region that compiled code creates, got a region from outside of compiled code"
            raise unsupported(f"{what}; create the region in compiled code, or decorate a function with it")
        enabled: bool = self.__dict__["_cache_enabled"]
        return enabled

    @_cache_enabled.setter
    def _cache_enabled(self, enabled: bool) -> None:
        self.__dict__["_cache_enabled"] = enabled

    def __reduce__(self) -> tuple[Any, ...]:
        return Region, (*self._settings, self.policy)

    def _tell_modes(self, entered: bool) -> None:
        """Report the region to the modes of ``torch.export``, as ``torch.autocast`` does."""
        for mode in function_modes():
            if isinstance(mode, torch.fx.experimental.proxy_tensor.PreDispatchTorchFunctionMode):
                mode.__torch_function__(
                    enter_autocast if entered else exit_autocast, (), self._settings if entered else ()
                )
                return

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that runs the given function in this region."""
        if self.policy is None:
            return super().__call__(function)  # type: ignore[no-untyped-call, no-any-return]
        settings = (*self._settings, self.policy.digest)

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if torch.compiler.is_compiling():
                with CompiledRegion(*settings):
                    return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return run


class CompiledRegion:
    """A region with a policy, in a form that ``torch.compile`` can trace."""

    def __init__(
        self, device_type: str, dtype: torch.dtype | None, enabled: bool, cache_enabled: bool | None, digest: str
    ) -> None:
        self._settings = device_type, dtype, enabled, cache_enabled, digest

    @uncompiled
    def __enter__(self) -> "CompiledRegion":
        device, dtype, enabled, cache_enabled, digest = self._settings
        if dtype is None:
            dtype = torch.get_autocast_dtype(device)
        if cache_enabled is None:
            cache_enabled = torch.is_autocast_cache_enabled()
        enter_region(device, dtype, enabled, cache_enabled, scopes.keep_scope_in(scopes.REGION, digest))
        return self

    @uncompiled
    def __exit__(self, *error: object) -> None:
        leave_scope()

    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        # ParamSpec is not used here, because `torch.compile` would guard on `P.args`, a new object at each call.
        def run(*args: Any, **kwargs: Any) -> Any:
            with CompiledRegion(*self._settings):
                return function(*args, **kwargs)

        return run
