"""The tensors that one call of an operator takes, and the call."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from polycast._compiled import check_arguments

Group: TypeAlias = dict[str, Any]
Operator: TypeAlias = Any  # a torch._ops.OpOverload


@dataclass(slots=True)
class Gradients:
    """Gradients on one device that are placed alike: on one mesh, or on none."""

    device: torch.device
    params: list[Tensor]  # as the optimizer holds them
    grads: list[Tensor]  # shards in the place of DTensors, values in the place of sparse gradients
    mesh: Any = None
    split_dims: tuple[int, ...] = ()  # the dimensions of the mesh along which the shards are different parts
    wholes: list[Tensor] = field(default_factory=list)  # the DTensors whose shards stand in grads


@dataclass(slots=True)
class Batch:
    """The tensors of one group, on one device, that one call updates."""

    group: Group
    device: torch.device
    params: list[Tensor]  # as the optimizer holds them
    lists: list[list[Tensor]]  # what the operator takes: parameters, gradients, state
    wholes: list[Tensor] = field(default_factory=list)  # the DTensors whose shards stand in lists

    def version(self) -> int | None:
        """Return the version of the first parameter; inference tensors have none."""
        first = self.lists[0][0]
        return None if first.is_inference() else first._version


def name_of(param_groups: Iterable[Group], param: Tensor) -> str:
    """Return the name that the optimizer was given for a parameter, else its place in the groups."""
    for number, group in enumerate(param_groups):
        for index, other in enumerate(group["params"]):
            if other is param:
                names = group.get("param_names")
                return str(names[index]) if names else f"param_groups[{number}]['params'][{index}]"
    return "a parameter that the optimizer no longer has"


def on_gradients(operator: Operator, gathered: Gradients, param_groups: list[Group], *arguments: Any) -> Any:
    """Call an operator on gradients. Its errors name the parameter."""
    op = operator.overloadpacket.__name__

    def check() -> None:
        scalars = [each for each in arguments if isinstance(each, Tensor)]
        check_arguments(op, [gathered.grads], scalars, lambda index: name_of(param_groups, gathered.params[index]))

    try:
        with torch.no_grad():
            result = call(operator, gathered.device, gathered.grads, *arguments)
    except Exception as error:
        raise_named(error, check)
    if op.endswith("_") and gathered.wholes:
        torch.autograd.graph.increment_version(gathered.wholes)
    return result


def raise_named(error: Exception, check: Callable[[], None]) -> NoReturn:
    """Raise the error of ``check``, which names the parameter, or else the operator's, which counts tensors."""
    try:
        check()
    except Exception as named:
        raise named from None
    raise error


def call(operator: Operator, device: torch.device, *args: Any, **kwargs: Any) -> Any:
    """Call an operator on tensors of a device.

    A backend may have its kernel on its autograd key, which inference mode leaves out: there it is called by that key.
    Subclasses and modes that override functions know torch.optim's operators, and not ours: they are not asked.
    """
    with torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
        if torch.is_inference_mode_enabled():
            key = getattr(torch._C.DispatchKey, f"Autograd{device.type.upper()}", None)
            if key is not None and operator.has_kernel_for_dispatch_key(key):
                return operator.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)
        return operator(*args, **kwargs)
