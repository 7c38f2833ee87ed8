"""The cast cache: it reuses the casts of weights inside an autocast region and, on request, beyond it.

By default it shares what torch shares: the cast of a float32 leaf that requires grad, until the outermost region ends.
A weight that changes is cast again. Casts that you :func:`keep` outlive regions.

    >>> import torch, polycast
    >>> layer = torch.nn.Linear(4, 4).requires_grad_(False)
    >>> kept = polycast.cast_cache.keep(layer)
    >>> for _ in range(3):
    ...     with polycast.autocast("cpu"):
    ...         y = layer(torch.ones(1, 4, dtype=torch.bfloat16))
    >>> polycast.cast_cache.info()["cpu"].entries  # the weight and the bias
    2
    >>> polycast.cast_cache.release(layer)
"""

import operator
import sys
import weakref
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.utils.weak import WeakIdKeyDictionary

from polycast import _compiled, backends
from polycast._caller import warn
from polycast._cast_targets import Casts, named_tensors
from polycast._replaced import Undo
from polycast.scope.compiled_code import disabled
from polycast.scope.handle import Handle

__all__ = ["Counts", "Kept", "clear", "info", "keep", "limit", "release", "verify"]


def __dir__() -> list[str]:
    return __all__


_NAMED = 8  # a warning names no more tensors than this


class Counts(NamedTuple):
    """The kept casts on one device type, and how often they were used.

    Casts that only a region shares are not counted.
    """

    entries: int
    """How many casts are stored now."""
    bytes: int
    """Their size."""
    hits: int
    """How often a cast was reused."""
    misses: int
    """How often a cast had to be made."""
    drops: int
    """How many casts were dropped."""


class Kept(Handle):
    """A handle that :func:`keep` returns: removing it releases what was not kept before."""

    def __init__(self, named: list[tuple[str, Tensor]]) -> None:
        self._count = len(named)
        new = WeakIdKeyDictionary({tensor: name for name, tensor in named if tensor._cdata not in _kept})  # type: ignore[no-untyped-call]
        for name, tensor in named:
            _keep(name, tensor)

        def restore() -> None:
            for tensor in list(new):
                _release(tensor._cdata)

        super().__init__(restore)

    def __repr__(self) -> str:
        return f"<the casts of {'a tensor' if self._count == 1 else f'{self._count} tensors'} are kept>"


@disabled
def keep(target: Casts) -> Kept:
    """Keep the casts of tensors from one region to the next, until a tensor changes or is deleted.

    They are kept from the call on. ``with polycast.cast_cache.keep(model)`` keeps them until the end of the block.

    Limitation: writes that bypass the tensor's version counter are not seen. Call :func:`release` before such a write,
    or find it with :func:`verify`:

    - *through* ``.data`` (``w.data.add_(1)``), ``untyped_storage()``, NumPy, DLPack, a buffer or a raw pointer, or by
      another process that shares the memory;
    - by a kernel that counts no version: one of your own (Triton, an extension), or a fused one of torch's that is
      called by hand, such as ``torch._fused_adamw_``;
    - by the replay of a recorded graph, such as a CUDA graph;
    - by a collective of ``torch.distributed`` (``broadcast``, ``all_reduce``, ``recv``, ``scatter``);
    - under ``torch.autograd._unsafe_preserve_version_counter``.

    All other writes are seen: in-place operations, optimizers of ``torch.optim``'s kind, ``load_state_dict``, ``set_``,
    an assignment to ``.data`` (also ``w.data += 1``), and a change of dtype.

    All threads share kept casts, so a model that many threads serve is cast once. Casts with autograd history are never
    kept; a region may share them. ``torch.utils.swap_tensors`` raises for a tensor whose casts are kept.

    Args:
        target: A module, a tensor, or an iterable of both. Of a module, its floating-point parameters and buffers are
            kept. A tensor that replaces a parameter later is not kept.

    Returns:
        A context manager. At its end, or at its ``remove``, what it began to keep is released.

    Raises:
        ValueError: The changes of a tensor cannot be seen, or it is not floating-point; then nothing is kept. This
            concerns DTensors and other subclasses, modules that FSDP manages, inference tensors, views and results of
            ops. In a module that also has other tensors, such tensors are ignored and a warning names them.
        TypeError: The target is something else.

    Example:
        >>> import torch, polycast
        >>> weight = torch.ones(2, 2)
        >>> polycast.cast_cache.keep(weight)
        <the casts of a tensor are kept>
        >>> with polycast.autocast("cpu"):
        ...     before = weight @ weight
        >>> _ = weight.mul_(2)
        >>> with polycast.autocast("cpu"):
        ...     after = weight @ weight
        >>> before[0, 0].item(), after[0, 0].item()
        (2.0, 8.0)
        >>> polycast.cast_cache.release(weight)
    """
    named, texts = [], []
    for name, tensor in named_tensors(target):
        obstacle = "is not floating-point" if not tensor.is_floating_point() else _compiled.cast_obstacle(tensor)
        if obstacle is None:
            named.append((name, tensor))
        else:
            texts.append(f"{name or 'the tensor'}: it {obstacle}")
    if texts and not (named and isinstance(target, torch.nn.Module)):
        raise ValueError(
            f"cannot keep the casts of {texts[0]}; give floating-point parameters, buffers or other leaves"
        )
    if texts:
        more = f"; and of {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
        warn(f"keeps no casts of {'; of '.join(texts[:_NAMED])}{more}")
    return Kept(named)


def release(target: Casts) -> None:
    """Undo :func:`keep` and free the casts. Tensors that are not kept are ignored.

    Example:
        >>> import torch, polycast
        >>> layer = torch.nn.Linear(2, 2)
        >>> kept = polycast.cast_cache.keep(layer)
        >>> polycast.cast_cache.release(layer)
    """
    for _, tensor in named_tensors(target):
        _release(tensor._cdata)


def info() -> dict[str, Counts]:
    """Return the counts of each device type on which kept casts were used.

    Example:
        >>> import polycast
        >>> all(counts.bytes >= 0 for counts in polycast.cast_cache.info().values())
        True
    """
    return {device: Counts(*counts) for device, counts in _compiled.cast_counts().items()}


def clear() -> None:
    """Drop every cast. Tensors that you :func:`keep` are cast and kept again at their next use."""
    torch.clear_autocast_cache()
    _compiled.clear_casts()


def limit(size: int | None) -> None:
    """Limit the bytes of all kept casts together. The least recently used are dropped first.

    Casts that only a region shares do not count.

    Args:
        size: The limit in bytes. None, the default, is no limit; with 0 no cast is kept.

    Raises:
        ValueError: The size is negative.
        TypeError: The size is not an int.

    Example:
        >>> import polycast
        >>> polycast.cast_cache.limit(2**30)
        >>> polycast.cast_cache.limit(None)
    """
    if size is not None:
        if not isinstance(size, SupportsIndex) or isinstance(size, (bool, Tensor)):
            raise TypeError(f"size is {size!r}; give a whole number of bytes, such as 2**30, or None for no limit")
        size = operator.index(size)
        if size < 0:
            raise ValueError(f"size is {size}; give a number of bytes from 0 on, or None for no limit")
        size = min(size, sys.maxsize)  # a size_t in C++
    _compiled.limit_casts(size)


def verify(enabled: bool) -> None:
    """Compare each reused cast with a fresh one, bit for bit, to find writes that bypass the version counter.

    A difference raises a RuntimeError that names the parameter. This is for debugging: it makes every cast again, and
    syncs with the device.

    Raises:
        TypeError: ``enabled`` is not a bool.

    Example:
        >>> import polycast
        >>> polycast.cast_cache.verify(True)
        >>> polycast.cast_cache.verify(False)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled is {enabled!r}; it takes True or False")
    _compiled.verify_casts(enabled)


def _keep(name: str, tensor: Tensor) -> None:
    _compiled.keep_casts(tensor, name)
    _kept[tensor._cdata] = weakref.ref(tensor, partial(_dead, tensor._cdata))


def _release(address: int) -> None:
    _kept.pop(address, None)
    _compiled.forget_casts(address, release=True)


def _dead(address: int, reference: weakref.ref[Tensor]) -> None:
    if _kept.get(address) is reference:
        _release(address)


@_disable_dynamo(recursive=False)
def _forget_updated(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """Drop the casts of an optimizer's parameters after its step.

    Fused and compiled steps count no versions. Neither does FSDP, which gathers the new values into other tensors.
    """
    torch.clear_autocast_cache()
    if _kept:  # another package's optimizer may have groups of any form
        params = (param for group in optimizer.param_groups for param in group.get("params", ()))
        for address in _kept.keys() & {getattr(param, "_cdata", None) for param in params}:
            _compiled.forget_casts(address, release=False)


def follow_steps(module: ModuleType, undo: Undo) -> None:
    """Drop the casts of parameters after each step of an optimizer. Steps before this one were not seen."""
    _compiled.clear_casts()
    hooks: dict[Any, Any] = module._global_optimizer_post_hooks
    undo.append(lambda: hooks.pop(__name__, None))
    # Torch's function that registers hooks counts a number up, which nothing brings back.
    hooks[__name__] = _forget_updated


# By the tensor's address: a weak reference whose callback frees the casts when the tensor is deleted.
_kept: dict[int, weakref.ref[Tensor]] = {}
for _kind in backends.device_types():
    # Where a device's work can be recorded as a graph, torch's module of the device says whether the stream records.
    if (_probe := getattr(getattr(torch, _kind, None), "is_current_stream_capturing", None)) is not None:
        _compiled.set_recording_probe(_kind, _probe)
