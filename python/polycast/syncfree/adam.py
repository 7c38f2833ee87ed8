"""The optimizers Adam and AdamW."""

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast._operators import operators
from polycast.syncfree.step import StateNames, SyncFreeOptimizer
from polycast.syncfree.tensor_lists import Arguments, Group


class Adam(SyncFreeOptimizer, torch.optim.Adam):
    """Adam, as ``torch.optim.Adam`` documents it, with a sync-free step.

    Args:
        params: Parameters, parameter groups, or named parameters.
        lr: The learning rate: a float, or a tensor with one element on the CPU or on the device of the parameters.
        betas: The coefficients of the running averages of the gradient and of its square.
        eps: The number that is added to the denominator.
        weight_decay: The factor by which the parameters are multiplied before they are added to the gradients.
        amsgrad: Whether the denominator uses the largest running average so far of the squared gradient.
        maximize, decoupled_weight_decay: Whether to maximize the objective; whether to decay weights as in AdamW.
        state_dtype: The dtype of the running averages. None selects the dtype of each parameter, as in ``torch.optim``.
            Float16 parameters require another dtype, because the squares of their gradients underflow in float16.
        foreach, capturable, fused: Options that the groups store. Only ``foreach`` has an effect, and only in
            groups for which the step of ``torch.optim`` runs.
        differentiable: Must be False, because autograd does not record the step.

    Raises:
        TypeError: If ``differentiable`` is true, if ``state_dtype`` is not supported or a key of a group, or if the
            running averages would be float16.
        ValueError, RuntimeError: If ``state_dtype`` is an unknown name, or as in ``torch.optim`` for its arguments.

    Example:
        >>> import torch
        >>> from polycast import syncfree
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = syncfree.Adam(model.parameters(), lr=1e-3)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()

    Source: Diederik P. Kingma, Jimmy Ba: Adam, a method for stochastic optimization, 2014.
    """

    _average_names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    _required_names = ("step", "exp_avg", "exp_avg_sq")
    _operator = operators.adam_step_.default
    _stock = torch.optim.Adam

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        state_dtype: torch.dtype | str | None = None,
    ) -> None:
        self._start(
            params,
            state_dtype,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )

    def _problem_of(self, group: Group) -> str | None:
        for param in group["params"]:
            if self._kept_dtype(param) is torch.float16:
                return (
                    f"state_dtype: expected a dtype other than torch.float16 for a {param.dtype} parameter of shape "
                    f"{tuple(param.shape)}, got {self.state_dtype or 'None, which means the same dtype'}; squares of "
                    "gradients underflow in float16, so pass state_dtype=torch.float32 to the constructor"
                )
        return super()._problem_of(group)

    def _plan(self, group: Group) -> tuple[StateNames, Arguments] | None:
        beta1, beta2 = group["betas"]
        options = {
            "beta1": beta1,
            "beta2": beta2,
            "weight_decay": group["weight_decay"],
            "eps": group["eps"],
            "decoupled_weight_decay": bool(group["decoupled_weight_decay"]),
            "maximize": bool(group["maximize"]),
        }
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else None, "step"), options


class AdamW(Adam, torch.optim.AdamW):
    """AdamW, as ``torch.optim.AdamW`` documents it, with a sync-free step.

    Args:
        params, lr, betas, eps, amsgrad, maximize, foreach, capturable, differentiable, fused, state_dtype: As for
            :class:`Adam`.
        weight_decay: The decay: each step multiplies the parameters by ``1 - lr * weight_decay``.

    Raises:
        TypeError, ValueError, RuntimeError: As for :class:`Adam`.

    Example:
        >>> import torch
        >>> from polycast import syncfree
        >>> weight = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        >>> optimizer = syncfree.AdamW([weight], lr=0.5, state_dtype=torch.float32)
        >>> weight.grad = torch.ones_like(weight)
        >>> optimizer.step()
        >>> weight.detach()
        tensor([0.4941, 0.4941], dtype=torch.bfloat16)

    Source: Ilya Loshchilov, Frank Hutter: Decoupled weight decay regularization, 2017.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype | str | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
            state_dtype=state_dtype,
        )
