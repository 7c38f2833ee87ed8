"""The cast cache, which reuses the casts of weights inside an autocast region and, on request, in later regions.

By default, like PyTorch's cache, it reuses the lower-precision casts of float32 leaves that require grad, until
the outermost region ends. A weight that changes is cast again. Casts that you :func:`keep` outlive regions.

    >>> import torch, polycast
    >>> layer = torch.nn.Linear(4, 4).requires_grad_(False)
    >>> kept = polycast.cast_cache.keep(layer)
    >>> for _ in range(3):
    ...     with polycast.autocast("cpu"):  # only the first region casts the weight and the bias
    ...         y = layer(torch.ones(1, 4, dtype=torch.bfloat16))
    >>> kept.remove()
"""

import sys
import weakref
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from polycast import _extension, devices
from polycast._replaced import Undo
from polycast._warnings import warn
from polycast.scope.handle import Handle
from polycast.torch_internals import disabled

__all__ = ["clear", "keep"]


def __dir__() -> list[str]:
    return __all__


_NAMED = 8  # a warning lists at most this many tensors
# FSDP changes the storage of parameters without incrementing their versions, so `keep` rejects its modules.
_FSDP = "torch.distributed.fsdp"
_FSDP_MODULES = ("FSDPModule", "FullyShardedDataParallel")


@disabled
def keep(module: nn.Module) -> Handle:
    """Keep the casts of a module's parameters and buffers across regions. A tensor that changes is cast again.

    ``with polycast.cast_cache.keep(model)`` releases the casts at the end of the block.

    Limits: polycast does not notice writes that bypass a tensor's version counter. Call :func:`clear` after a write:

    - *through* ``.data`` (``w.data.add_(1)``), ``untyped_storage()``, NumPy, DLPack, a raw buffer or pointer, or by
      another process that shares the memory;
    - by a kernel that does not increment the version, such as your own Triton kernel, or a direct
      call of ``torch._fused_adamw_``;
    - by the replay of a recorded graph, such as a CUDA graph;
    - by a collective of ``torch.distributed`` (``broadcast``, ``all_reduce``, ``recv``, ``scatter``);
    - under ``torch.autograd._unsafe_preserve_version_counter``.

    polycast notices all other writes: in-place operations, ``torch.optim.Optimizer`` steps, ``load_state_dict``,
    ``set_``, assignments to ``.data`` (including ``w.data += 1``), and changes of dtype.

    All threads share the kept casts of a device stream. Casts with autograd history are never kept, but a region may
    reuse them. ``torch.utils.swap_tensors`` raises for a tensor whose casts are kept.

    Args:
        module: The module with the floating-point parameters and buffers, which may be in its submodules. The casts of
            a tensor that replaces a parameter later are not kept.

    Returns:
        A handle: its ``remove()``, or the end of its ``with`` block, frees the casts that were not kept before.

    Raises:
        ValueError: If FSDP manages the module or a part of it, or if no cast of its floating-point tensors can be kept.
            Casts of these tensors cannot be kept: subclasses such as DTensor, non-strided, inference and dual tensors,
            views, results of ops, and outputs of CUDA graphs. The call ignores such tensors if the casts of others can
            be kept, and issues a warning per reason that lists up to eight of them.
        TypeError: If the argument is not a module.

    Example:
        >>> import torch, polycast
        >>> layer = torch.nn.Linear(2, 1, bias=False).requires_grad_(False)
        >>> kept = polycast.cast_cache.keep(layer)
        >>> _ = layer.weight.fill_(1)
        >>> with polycast.autocast("cpu"):
        ...     before = layer(torch.ones(2))
        >>> _ = layer.weight.mul_(2)
        >>> with polycast.autocast("cpu"):
        ...     after = layer(torch.ones(2))
        >>> before.item(), after.item()
        (2.0, 4.0)
        >>> kept.remove()
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"module: expected a torch.nn.Module, got {type(module).__name__}; pass the module that has the tensors"
        )
    _check_not_sharded(module)
    tensors, texts = [], []
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if not tensor.is_floating_point():
            continue
        obstacle = _extension.cast_obstacle(tensor)
        if obstacle is None:
            tensors.append(tensor)
        else:
            texts.append((name, obstacle))
    if texts and not tensors:
        raise ValueError(f"module: expected tensors whose casts can be kept, got {', which '.join(texts[0])}")
    for obstacle in dict.fromkeys(obstacle for _, obstacle in texts):
        names = [name for name, other in texts if other == obstacle]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        warn(f"cast_cache.keep ignores {', '.join(names[:_NAMED])}{more}: each {obstacle}")
    new = WeakIdKeyDictionary({tensor: None for tensor in tensors if tensor._cdata not in _kept})  # type: ignore[no-untyped-call]
    for tensor in tensors:
        _extension.keep_casts(tensor)
        _kept[tensor._cdata] = weakref.ref(tensor, partial(_release, tensor._cdata))

    def restore() -> None:
        for tensor in list(new):
            _release(tensor._cdata)

    return Handle(restore)


def clear() -> None:
    """Free all casts. The weights of modules that you :func:`keep` are cast and kept again at their next use."""
    torch.clear_autocast_cache()
    _extension.clear_casts()


def _check_not_sharded(module: nn.Module) -> None:
    fsdp = sys.modules.get(_FSDP)
    managers = tuple(getattr(fsdp, name) for name in _FSDP_MODULES if hasattr(fsdp, name))
    for part in module.modules():
        if isinstance(part, managers):
            raise ValueError(
                f"module: expected modules without FSDP, got {type(part).__name__}, whose storage FSDP changes; "
                "pass a module that FSDP does not manage"
            )


def _release(address: int, _reference: object = None) -> None:
    _kept.pop(address, None)
    _extension.forget_casts(address, release=True)


@disabled
def _forget_updated(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """Free the casts of regions, and the kept casts of an optimizer's parameters, after the optimizer's step.

    Fused and compiled steps do not increment versions. FSDP does not either: it gathers new values into other tensors.
    """
    torch.clear_autocast_cache()
    if _kept:  # the groups of another package's optimizer may have any form
        params = (param for group in optimizer.param_groups for param in group.get("params", ()))
        for address in _kept.keys() & {getattr(param, "_cdata", None) for param in params}:
            _extension.forget_casts(address, release=False)


def follow_steps(module: ModuleType, undo: Undo) -> None:
    """Register a hook that frees casts after optimizer steps. Free all kept casts now, because steps may have run."""
    _extension.clear_casts()
    hooks: dict[Any, Any] = module._global_optimizer_post_hooks
    undo.append(lambda: hooks.pop(__name__, None))
    # PyTorch's function that registers hooks also increments a counter, which we could not restore.
    hooks[__name__] = _forget_updated


# `_kept` maps the addresses of tensors with kept casts to weak references, which free the casts of deleted tensors.
_kept: dict[int, weakref.ref[Tensor]] = {}
for _kind in devices.device_types():
    # While a device records a graph, kept casts are not used. The modules of such devices have this function.
    if (_probe := getattr(getattr(torch, _kind, None), "is_current_stream_capturing", None)) is not None:
        _extension.set_recording_probe(_kind, _probe)
