"""Autocast regions as contexts and decorators."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.amp import autocast_mode
from torch.amp.autocast_mode import autocast as StockAutocast  # by this name also where ours is put in its place

from polycast._compiled import enter_owner, enter_region, leave_owner, leave_scope, region_context
from polycast.policy.policy import Policy
from polycast.scope import scopes
from polycast.scope.compiled_code import uncompiled

P = ParamSpec("P")
R = TypeVar("R")


class _Entered:
    """What regions share: many threads can enter one, and one thread can enter it again while it is in it."""

    device: Any
    fast_dtype: Any
    _enabled: Any
    _cache_enabled: Any
    policy: Policy | None = None

    __enter__ = enter_owner
    __exit__ = leave_owner

    @property
    def _settings(self) -> tuple[Any, Any, Any, Any]:
        return self.device, self.fast_dtype, self._enabled, self._cache_enabled

    def _set_context(self) -> None:
        self._context = region_context(*self._settings, self.policy.kernels if self.policy is not None else None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._settings + (() if self.policy is None else (self.policy,))

    def __repr__(self) -> str:
        """Return the call that makes such a region."""
        options = [f"dtype={self.fast_dtype}"]
        switches = {"enabled": self._enabled, "cache_enabled": self._cache_enabled}
        options += [f"{name}=False" for name, value in switches.items() if value is False]
        options += [] if self.policy is None else [f"policy={self.policy!r}"]
        return f"polycast.autocast('{self.device}', {', '.join(options)})"


class Region(_Entered, StockAutocast):
    """A ``torch.autocast``. Torch's own keeps what held before in itself, so it can be entered once at a time."""

    def __init__(self, device_type: str, dtype: torch.dtype | None, enabled: bool, cache_enabled: bool | None) -> None:
        StockAutocast.__init__(self, device_type, dtype, enabled, cache_enabled)
        self._set_context()

    def _tell_modes(self, entered: bool) -> None:
        """Report the region to torch.export's modes, as torch does."""
        enter, leave = autocast_mode._enter_autocast, autocast_mode._exit_autocast
        for mode in torch.overrides._get_current_function_mode_stack():  # type: ignore[no-untyped-call]
            if isinstance(mode, torch.fx.experimental.proxy_tensor.PreDispatchTorchFunctionMode):
                mode.__torch_function__(enter if entered else leave, (), self._settings if entered else ())
                return

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function, to be run in this region."""
        decorated: Callable[P, R] = super().__call__(function)  # type: ignore[no-untyped-call]
        return decorated


class PolicyRegion(_Entered):
    """A region with a policy over the rules around it.

    It is no ``torch.autocast``: torch.compile would take it for a region without a policy.
    """

    def __init__(
        self, device_type: str, dtype: torch.dtype | None, enabled: bool, cache_enabled: bool | None, policy: Policy
    ) -> None:
        self.device, self.fast_dtype, self._enabled, self._cache_enabled = device_type, dtype, enabled, cache_enabled
        self.policy: Policy = policy
        self._set_context()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function, to be run in this region."""
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
    """A region with a policy that compiled code makes, written so that torch.compile can read it."""

    def __init__(
        self, device_type: str, dtype: torch.dtype | None, enabled: bool, cache_enabled: bool | None, digest: str
    ) -> None:
        self.device = device_type
        self.fast_dtype = dtype
        self._enabled = enabled
        self._cache_enabled = cache_enabled
        self._digest = digest

    @uncompiled
    def __enter__(self) -> "CompiledRegion":
        dtype, cache_enabled = self.fast_dtype, self._cache_enabled
        if dtype is None:
            dtype = torch.get_autocast_dtype(self.device)
        if cache_enabled is None:
            cache_enabled = torch.is_autocast_cache_enabled()
        scope = scopes.keep_scope_in(scopes.REGION, self._digest)
        enter_region(self.device, dtype, self._enabled, cache_enabled, scope)
        return self

    @uncompiled
    def __exit__(self, *error: object) -> None:
        leave_scope()

    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        def run(*args: Any, **kwargs: Any) -> Any:  # torch.compile would guard `P.args`, which is made anew each time
            with CompiledRegion(self.device, self.fast_dtype, self._enabled, self._cache_enabled, self._digest):
                return function(*args, **kwargs)

        return run
