"""The tensors in a target of cast_cache.keep or cast_cache.release."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from torch import Tensor, nn

from polycast._caller import warn

Casts: TypeAlias = nn.Module | Tensor | Iterable[nn.Module | Tensor]
# The modules of FSDP, which changes the storage of parameters and counts no versions.
_FSDP = "torch.distributed.fsdp"
_FSDP_MODULES = ("FSDPModule", "FullyShardedDataParallel")


def named_tensors(target: Casts) -> list[tuple[str, Tensor]]:
    """Return the tensors of a target, each with its name in a message. The name of a single tensor is empty.

    Raises:
        TypeError: The target is, or contains, something else.
        ValueError: A module is managed by FSDP.
    """
    found = list(_walk(target, ""))
    if not found and isinstance(target, Iterator):
        warn("the iterator gives no tensor; if it was used up before, give a list instead")
    return found


def _walk(target: object, place: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(target, nn.Module):
        fsdp = sys.modules.get(_FSDP)
        managers = tuple(getattr(fsdp, name) for name in _FSDP_MODULES if hasattr(fsdp, name))
        for module in target.modules():
            if isinstance(module, managers):
                raise ValueError(f"cannot keep the casts of a {type(module).__name__}: FSDP changes its storage")
        for tensors in (target.named_parameters(), target.named_buffers()):
            yield from ((name, tensor) for name, tensor in tensors if tensor.is_floating_point())
    elif isinstance(target, Tensor):
        yield "", target
    elif isinstance(target, Iterable) and not isinstance(target, (str, dict)):
        for index, part in enumerate(target):
            yield from ((name or f"tensor {index}", tensor) for name, tensor in _walk(part, f" in place {index}"))
    else:
        kind = type(target).__name__
        raise TypeError(f"{kind}{place} holds no casts; give a module, a tensor, or an iterable of them")
