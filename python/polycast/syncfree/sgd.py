"""The optimizer SGD."""

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast._operators import operators
from polycast.syncfree.step import StateNames, SyncFreeOptimizer
from polycast.syncfree.tensor_lists import Arguments, Group


class SGD(SyncFreeOptimizer, torch.optim.SGD):
    """SGD with momentum, as ``torch.optim.SGD`` documents it, with a sync-free step.

    Args:
        params: Parameters, parameter groups, or named parameters.
        lr: The learning rate: a float, or a tensor with one element on the CPU or on the device of the parameters.
        momentum: The factor of the momentum buffer. The buffer starts at +0, so a first gradient of -0 becomes +0.
        dampening: The part of each gradient, after the first one, that does not enter the buffer. If neither dampening
            nor momentum is 0, the step of ``torch.optim`` runs, which syncs.
        weight_decay: The factor by which the parameters are multiplied before they are added to the gradients.
        nesterov: Whether to use Nesterov momentum.
        maximize: Whether to maximize the objective.
        state_dtype: The dtype of the momentum buffers. None selects the dtype of each parameter, as in ``torch.optim``.
        foreach, fused: Options that the groups store. Only ``foreach`` has an effect, and only in groups for which
            the step of ``torch.optim`` runs.
        differentiable: Must be False, because autograd does not record the step.

    Raises:
        TypeError: If ``differentiable`` is true, or if ``state_dtype`` is not supported or a key of a group.
        ValueError, RuntimeError: If ``state_dtype`` is an unknown name, or as in ``torch.optim`` for its arguments.

    Example:
        >>> import torch
        >>> from polycast import syncfree
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = syncfree.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()

    Source: Ilya Sutskever and others: On the importance of initialization and momentum in deep learning, 2013, with the
    changes that ``torch.optim.SGD`` documents.
    """

    _average_names = ("momentum_buffer",)
    _operator = operators.sgd_step_.default
    _stock = torch.optim.SGD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype | str | None = None,
    ) -> None:
        self._start(
            params,
            state_dtype,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )

    def _plan(self, group: Group) -> tuple[StateNames, Arguments] | None:
        has_momentum = group["momentum"] != 0
        if has_momentum and group["dampening"] != 0:
            # PyTorch does not dampen the first gradient, and a buffer of zeros does not show whether there was one.
            return None
        options = {
            "weight_decay": group["weight_decay"],
            "momentum": group["momentum"],
            "nesterov": bool(group["nesterov"]),
            "maximize": bool(group["maximize"]),
        }
        return ("momentum_buffer" if has_momentum else None,), options
