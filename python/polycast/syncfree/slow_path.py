"""The step of ``torch.optim``, for groups that the fused operators do not support.

``SyncFreeOptimizer.step`` lists these groups. Their step reads ``found_inf``, and skips for a value other than 0.
"""

import inspect
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from polycast._extension import check_arguments, may_overlap
from polycast._operators import AUTOCAST_KEYS
from polycast.syncfree.sharding import local_of
from polycast.syncfree.tensor_lists import Group
from polycast.torch_internals import exclude_keys

Scalars = dict[str, Tensor | None]


def is_skipped(scalars: Scalars) -> bool:
    """Return whether ``found_inf`` is given and not zero, with a sync. Raise an error if a scalar is invalid."""
    check_arguments("sgd_step_", [], [None, *scalars.values()])  # None stands for `lr`
    return scalars["found_inf"] is not None and scalars["found_inf"].item() != 0


# State that is created in inference mode cannot be written outside of it. Leaving the mode enables gradients.
@torch.inference_mode(False)
@torch.no_grad()
def step_by_torch(optimizer: Any, stock: Any, group: Group, params: list[Tensor], scalars: Scalars) -> None:
    """Update parameters of a group with the step of ``stock``, a class of ``torch.optim``.

    The step receives twins: tensors that share the memory of the parameters and have their own unscaled and clipped
    gradients. If the state needs a wider dtype than the parameter's, the twin is a copy in that dtype. If a float16
    gradient is unscaled or clipped, the twin is at least float32, because small gradients would underflow.
    """
    # PyTorch's fused and capturable steps support fewer groups.
    options = {**group, "fused": None, "capturable": False}
    lone = list(dict.fromkeys(params))
    # Twins that are copies would overwrite each other's results, so the parameters are stepped one after the other.
    for part in [[param] for param in lone] if may_overlap(list(map(local_of, lone))) else [params]:
        states = {param: optimizer.state.get(param, {}) for param in part}
        for param, state in states.items():
            if state and group.get("amsgrad"):  # The state may be older than the option.
                optimizer._init_state([param], ("max_exp_avg_sq",))
        twins = {param: _twin(optimizer, param, state, scalars) for param, state in states.items()}
        # The constructor and the decorated step of the class would count optimizers and call the user's hooks.
        stand_in = object.__new__(stock)
        stand_in.param_groups = [{**options, "params": [twins[param] for param in part]}]
        stand_in.state = defaultdict(dict)
        for param, twin in twins.items():
            for name, value in states[param].items():
                is_average = name in optimizer._average_names and isinstance(value, Tensor)
                stand_in.state[twin][name] = value.to(twin.dtype) if is_average else value
        inspect.unwrap(stock.step)(stand_in)
        for param, twin in twins.items():
            if twin.dtype is not param.dtype:
                param.detach().copy_(twin)
            for name, value in stand_in.state[twin].items():
                _keep(optimizer, param, name, value)


def _twin(optimizer: Any, param: Tensor, state: dict[str, Any], scalars: Scalars) -> Tensor:
    grad: Any = param.grad
    grad_scale, clip_coef = scalars["grad_scale"], scalars["clip_coef"]
    dtype = torch.promote_types(param.dtype, optimizer._kept_dtype(param))
    for name in optimizer._average_names:
        if isinstance(state.get(name), Tensor):
            dtype = torch.promote_types(dtype, state[name].dtype)
    if grad_scale is not None or clip_coef is not None:
        wide = torch.promote_types(grad.dtype, torch.float32)
        dtype = torch.promote_types(dtype, wide) if grad.dtype is torch.float16 else dtype
        grad = grad.to(wide)
    with exclude_keys(AUTOCAST_KEYS):
        if grad_scale is not None:
            grad = grad / grad_scale.to(grad.device).reshape(())
        if clip_coef is not None:
            grad = grad * clip_coef.to(grad.device).reshape(())
    twin = param.detach().to(dtype)
    twin.grad = grad.to(dtype)
    return twin


def _keep(optimizer: Any, param: Tensor, name: str, value: Any) -> None:
    """Store a value of the state that a step has created or changed."""
    state = optimizer.state[param]
    old = state.get(name)
    if name not in optimizer._average_names or value is None:
        state[name] = value
    elif not isinstance(old, Tensor):
        state[name] = value.to(optimizer._kept_dtype(param))
    elif old is not value:
        old.copy_(value)
