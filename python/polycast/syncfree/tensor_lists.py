"""The tensors of one call of an operator, and the call."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from polycast._extension import check_arguments
from polycast.devices import HOST
from polycast.torch_internals import DisableTorchFunction, DispatchKey, DispatchKeySet

Group: TypeAlias = dict[str, Any]
Operator: TypeAlias = Any  # this is a `torch._ops.OpOverload`
Arguments: TypeAlias = dict[str, Any]  # an operator has these arguments after its lists

NOTHING: Arguments = {}
# These arguments of the operators are tensors of one element.
_SCALARS = ("lr_tensor", "found_inf", "grad_scale", "clip_coef", "inv_scale")
_PLACE = re.compile(r"\w+\[(\d+)\](?=: expected )")  # the operators' errors begin with a list and an index


@dataclass(slots=True)
class TensorLists:
    """The tensors of one call of an operator, on one device."""

    device: torch.device
    params: list[Tensor]  # the optimizer's parameters
    lists: list[list[Tensor]]  # the operator's arguments, with shards of DTensors and values of sparse gradients
    wholes: Sequence[Tensor] = ()  # the DTensors whose shards an operator may write
    mesh: Any = None  # the mesh of the parameters, if the lists have only gradients
    split_dims: tuple[int, ...] = ()  # the dimensions of the mesh that split the parameters

    def call(self, operator: Operator, param_groups: list[Group], arguments: Arguments = NOTHING) -> Any:
        """Call an operator on the lists. If it rejects a tensor of a list, the error contains the parameter's name."""
        result = self._named(param_groups, call, operator, self.device, self.lists, arguments)
        if self.wholes and operator.overloadpacket.__name__.endswith("_"):
            torch.autograd.graph.increment_version(self.wholes)
        return result

    def check(self, operator: Operator, param_groups: list[Group], arguments: Arguments) -> None:
        """Raise the error that the operator would raise for its arguments, with the name of a rejected parameter."""
        names = [each.name for each in operator._schema.arguments]
        scalars = [arguments.get(name) for name in names if name in _SCALARS]
        self._named(param_groups, check_arguments, operator.overloadpacket.__name__, self.lists, scalars)

    def _named(self, param_groups: list[Group], function: Callable[..., Any], *args: Any) -> Any:
        """Call a function. An error that begins with the index of a tensor also contains the parameter's name."""
        try:
            return function(*args)
        except Exception as error:
            place = _PLACE.match(str(error))
            if place is None:
                raise
            name = name_of(param_groups, self.params[int(place[1])])
            raise type(error)(f"{place[0]} (of {name}){place.string[place.end() :]}") from None


def name_of(param_groups: Iterable[Group], param: Tensor) -> str:
    """Return the name of a parameter in the optimizer, or its position in the groups if it has no name."""
    for number, group in enumerate(param_groups):
        for index, other in enumerate(group["params"]):
            if other is param:
                names = group.get("param_names")
                return str(names[index]) if names else f"param_groups[{number}]['params'][{index}]"
    return "a parameter that was removed from the optimizer"


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device. Only a copy to the CPU syncs, because the CPU could read an unfinished copy."""
    return tensor.to(device, non_blocking=device.type != HOST)


def call(operator: Operator, device: torch.device, args: Sequence[Any], options: Mapping[str, Any] = NOTHING) -> Any:
    """Call an operator on tensors of a device.

    A backend may have its kernel on its autograd key, which inference mode excludes. The call then passes this key.
    Subclasses and modes that override functions do not support polycast's operators, so they are bypassed.
    """
    with DisableTorchFunction():  # type: ignore[no-untyped-call]
        if torch.is_inference_mode_enabled():
            key = getattr(DispatchKey, f"Autograd{device.type.upper()}", None)
            if key is not None and operator.has_kernel_for_dispatch_key(key):
                return operator.redispatch(DispatchKeySet(key), *args, **options)
        return operator._op(*args, **options)  # this is operator(...) without its Python function
