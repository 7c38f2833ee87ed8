"""The tensors of one call of an operator, and the call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from polycast._extension import check_arguments
from polycast.torch_internals import DisableTorchFunction, DispatchKey, DispatchKeySet

Group: TypeAlias = dict[str, Any]
Operator: TypeAlias = Any  # a torch._ops.OpOverload

_NONE: dict[str, Any] = {}


@dataclass(slots=True)
class Gradients:
    """Gradients on one device with the same placement: on one mesh, or without a mesh."""

    device: torch.device
    params: list[Tensor]  # the optimizer's parameters
    grads: list[Tensor]  # shards of DTensors, and values of sparse gradients
    mesh: Any = None
    split_dims: tuple[int, ...] = ()  # the dimensions of the mesh along which the shards are different parts
    wholes: list[Tensor] = field(default_factory=list)  # the DTensors whose shards are in grads


@dataclass(slots=True)
class Batch:
    """The tensors of a group that one call updates. They are on one device."""

    params: list[Tensor]  # the optimizer's parameters
    lists: list[list[Tensor]]  # for the operator: parameters, gradients, state
    wholes: list[Tensor]  # the DTensors whose shards are in the lists that are written


def name_of(param_groups: Iterable[Group], param: Tensor) -> str:
    """Return the name of a parameter in the optimizer, otherwise its position in the groups."""
    for number, group in enumerate(param_groups):
        for index, other in enumerate(group["params"]):
            if other is param:
                names = group.get("param_names")
                return str(names[index]) if names else f"param_groups[{number}]['params'][{index}]"
    return "a parameter that was removed from the optimizer"


def on_gradients(operator: Operator, gathered: Gradients, param_groups: list[Group], *arguments: Any) -> Any:
    """Call an operator on gradients. Its errors name the parameter."""
    op = operator.overloadpacket.__name__

    def check() -> None:
        scalars = [each for each in arguments if isinstance(each, Tensor)]
        check_arguments(op, [gathered.grads], scalars, lambda index: name_of(param_groups, gathered.params[index]))

    try:
        with torch.no_grad():
            result = call(operator, gathered.device, (gathered.grads, *arguments))
    except Exception:
        raise_named(check)
        raise
    if op.endswith("_") and gathered.wholes:
        torch.autograd.graph.increment_version(gathered.wholes)
    return result


def raise_named(check: Callable[[], None]) -> None:
    """Raise the error of ``check``, which names the parameter, if it has one. The operator's has an index."""
    try:
        check()
    except Exception as named:
        raise named from None


def call(operator: Operator, device: torch.device, args: Sequence[Any], options: Mapping[str, Any] = _NONE) -> Any:
    """Call an operator on tensors of a device.

    A backend may have its kernel on its autograd key, which inference mode excludes. That key then selects the kernel.
    Subclasses and modes that override functions know torch.optim's operators and not polycast's, so they are bypassed.
    """
    with DisableTorchFunction():  # type: ignore[no-untyped-call]
        if torch.is_inference_mode_enabled():
            key = getattr(DispatchKey, f"Autograd{device.type.upper()}", None)
            if key is not None and operator.has_kernel_for_dispatch_key(key):
                return operator.redispatch(DispatchKeySet(key), *args, **options)
        return operator._op(*args, **options)  # as a call of the operator, without a function of Python
