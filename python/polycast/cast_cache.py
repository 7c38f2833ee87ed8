"""The cast cache: casts of weights that are reused inside a region, and, where asked for, beyond it.

Inside an autocast region, up to the end of the outermost one, the cast of a float32 leaf that requires grad is made
once and shared, as in torch. Nothing has to be called for that, and a changed weight is cast anew. Casts that
:func:`keep` was asked for outlive regions.

    >>> import torch, polycast
    >>> layer = torch.nn.Linear(4, 4).requires_grad_(False)
    >>> polycast.cast_cache.keep(layer)
    >>> for _ in range(3):
    ...     with polycast.autocast("cpu"):
    ...         y = layer(torch.ones(1, 4, dtype=torch.bfloat16))
    >>> polycast.cast_cache.info()["cpu"].entries  # the weight and the bias
    2
    >>> polycast.cast_cache.release(layer)
"""

import operator
import sys
import warnings
import weakref
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.optim.optimizer import register_optimizer_step_post_hook

from polycast import _compiled, backends
from polycast._cast_targets import Casts, named_tensors
from polycast.backends import recording

__all__ = ["Counts", "clear", "info", "keep", "limit", "release", "verify"]


def __dir__() -> list[str]:
    return __all__


_NAMED = 8  # tensors that a warning names


class Counts(NamedTuple):
    """What is kept for one type of device, and what has happened so far.

    ``entries`` are the casts, ``bytes`` theirs; ``hits`` counts the casts that were reused, ``misses`` those that were
    made, and ``drops`` those that are gone. Casts that only a region shares are not counted.
    """

    entries: int
    bytes: int
    hits: int
    misses: int
    drops: int


def keep(target: Casts) -> None:
    """Keep the casts of these tensors from one region to the next, until a tensor changes or dies.

    It asks one thing: change the tensors themselves, never behind their back. In-place operations, optimizers of
    ``torch.optim``'s kind, ``load_state_dict``, ``set_``, an assignment to ``.data`` (``w.data += 1``, too), and casts
    to other types are all seen. Writes that leave no trace on the tensor are not; :func:`release` it before one, or
    find them with :func:`verify`:

    - *through* ``.data`` (``w.data.add_(1)``), ``untyped_storage()``, NumPy, DLPack, a buffer or a raw pointer, or by
      another process that shares the memory;
    - by a kernel that counts no version: one of your own (Triton, an extension), or a fused one of torch's that is
      called by hand, such as ``torch._fused_adamw_``;
    - by the replay of a recorded graph, such as a CUDA graph;
    - what a collective of ``torch.distributed`` receives (``broadcast``, ``all_reduce``, ``recv``, ``scatter``);
    - under ``torch.autograd._unsafe_preserve_version_counter``.

    Threads share kept casts, so that a model which many threads serve is cast once; a region's own are its thread's.
    Casts with gradient history are never kept, only shared inside a region. ``torch.utils.swap_tensors`` refuses a
    tensor while its casts are kept.

    Args:
        target: A module, whose floating-point parameters and buffers are meant, a tensor, or an iterable of such. A
            tensor that comes in the place of a parameter later on is another one.

    Raises:
        ValueError: A tensor whose changes cannot be told: a DTensor or another subclass, what FSDP manages, an
            inference tensor, a view, no leaf; or one that is not floating-point. Nothing is kept then. Of a module
            that has others, such tensors are passed over, and a warning names them.
        TypeError: It is none of these.

    Example:
        >>> import torch, polycast
        >>> weight = torch.ones(2, 2)
        >>> polycast.cast_cache.keep(weight)
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
        raise ValueError(f"cannot keep the casts of {texts[0]}")
    if texts:
        more = f"; and of {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
        warnings.warn(f"keeps no casts of {'; of '.join(texts[:_NAMED])}{more}", stacklevel=2)
    for name, tensor in named:
        _compiled.keep_casts(tensor, name)
        _kept[tensor._cdata] = weakref.ref(tensor, partial(_dead, tensor._cdata))


def release(target: Casts) -> None:
    """Take :func:`keep` back and free the casts. Tensors that are not kept are passed over.

    Example:
        >>> import torch, polycast
        >>> layer = torch.nn.Linear(2, 2)
        >>> polycast.cast_cache.keep(layer)
        >>> polycast.cast_cache.release(layer)
    """
    for _, tensor in named_tensors(target):
        _release(tensor._cdata)


def info() -> dict[str, Counts]:
    """Return what is kept and has happened, for each type of device on which kept casts were looked for.

    Example:
        >>> import polycast
        >>> all(counts.bytes >= 0 for counts in polycast.cast_cache.info().values())
        True
    """
    return {device: Counts(*counts) for device, counts in _compiled.cast_counts().items()}


def clear() -> None:
    """Drop every cast. What :func:`keep` was asked for is cast again, and kept again, at its next use."""
    torch.clear_autocast_cache()
    _compiled.clear_casts()


def limit(size: int | None) -> None:
    """Bound the bytes of all kept casts together; those that were not used for longest go first.

    Casts that only a region shares do not count: they end with it.

    Args:
        size: In bytes. None, as it is at first, is no bound; with 0 none is kept.

    Raises:
        ValueError: A negative size.
        TypeError: The size is no whole number.

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
        size = min(size, sys.maxsize)  # more than any memory has
    _compiled.limit_casts(size)


def verify(enabled: bool) -> None:
    """Have each reused cast compared with a fresh one, bit for bit, to find writes that leave no trace.

    A difference raises a RuntimeError with the name of the parameter. That costs every cast that the cache saves, and
    on a device a read, so it is for looking for a mistake.

    Raises:
        TypeError: It is told neither True nor False.

    Example:
        >>> import polycast
        >>> polycast.cast_cache.verify(True)
        >>> polycast.cast_cache.verify(False)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled is {enabled!r}; it takes True or False")
    _compiled.verify_casts(enabled)


def _release(address: int) -> None:
    _kept.pop(address, None)
    _compiled.forget_casts(address, release=True)


def _dead(address: int, reference: weakref.ref[Tensor]) -> None:
    if _kept.get(address) is reference:
        _release(address)


@_disable_dynamo(recursive=False)
def _forget_updated(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """Drop the casts of what an optimizer may have written to.

    Fused steps and compiled ones count no versions, nor does FSDP, which gathers what was written into other tensors.
    """
    torch.clear_autocast_cache()
    if _kept:  # another package's optimizer may hold anything
        params = (param for group in optimizer.param_groups for param in group.get("params", ()))
        for address in _kept.keys() & {getattr(param, "_cdata", None) for param in params}:
            _compiled.forget_casts(address, release=False)


if "_kept" not in globals():  # importlib.reload comes here again
    # What tells that a tensor whose casts are kept is gone, so that its casts go at once; by the tensor's address.
    _kept: dict[int, weakref.ref[Tensor]] = {}
    register_optimizer_step_post_hook(_forget_updated)
for _kind, _probe in recording.probes(backends.types()).items():
    _compiled.set_recording_probe(_kind, _probe)
