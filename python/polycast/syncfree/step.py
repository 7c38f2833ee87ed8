"""The step that the sync-free optimizers share."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast.scope.compiled_code import disabled
from polycast.syncfree.arguments import (
    check_group,
    check_options,
    check_state_dtype,
    named_params,
    numbers,
    refuse_differentiable,
)
from polycast.syncfree.batches import Batch, Group, Operator, call, name_of, raise_named
from polycast.syncfree.gather import Collected, collect, gather_group
from polycast.syncfree.state import StatefulOptimizer
from polycast.syncfree.unusual import gather_batches, is_ready

#: What an operator takes beside its lists, in the order of its schema.
Arguments: TypeAlias = dict[str, Any]
Closure: TypeAlias = Callable[[], Any]


class SyncFreeOptimizer(StatefulOptimizer):
    """A base class of SGD, Adam and AdamW, which gathers tensors and calls an operator.

    A subclass names its operator and the tensors of its state, and makes the state of a parameter.
    """

    #: How a gradient scaler knows an optimizer whose ``step`` takes ``found_inf``, ``grad_scale`` and ``clip_coef``.
    takes_found_inf: ClassVar[bool] = True
    #: What a gradient scaler has collected, while it calls the step: see Note [Parameters gathered once].
    _collected: list[Collected] | None = None

    #: The operator; its check, which raises what the call would; and its kernel in ATen's ops, which subclasses know.
    _operator: ClassVar[Operator]
    _check: ClassVar[Callable[..., None]]
    _elsewhere: ClassVar[Callable[..., None]]

    def _start(self, stock: Any, params: ParamsT, state_dtype: Any, **options: Any) -> None:
        """Initialize the optimizer by the constructor of torch.optim's.

        Args:
            stock: The class of torch.optim.
            params: What the user gave.
            state_dtype: What the user gave.
            options: The arguments of that constructor, in the order in which it looks at them.
        """
        self.state_dtype = check_state_dtype(state_dtype)
        with named_params(params):
            check_options(**options)
            stock.__init__(self, params, **options)
        # By this attribute torch's fused optimizers say that their step changes the gradients, so trainers do not clip.
        vars(self).pop("_step_supports_amp_scaling", None)
        refuse_differentiable(type(self).__name__, self.defaults, "")

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, as ``torch.optim.Optimizer.add_param_group`` does, or leave all as it is.

        Raises:
            TypeError, ValueError: As the constructor.
        """
        for param in check_group(self, param_group):
            self._check_state_dtype(param)
        super().add_param_group(param_group)

    def step(
        self,
        closure: Closure | None = None,
        *,
        found_inf: Tensor | None = None,
        grad_scale: Tensor | None = None,
        clip_coef: Tensor | None = None,
    ) -> Any:
        """Update the parameters that have gradients.

        The gradients keep their values, but for one case: where torch's fused kernels take the step, as on cuda,
        ``grad_scale`` and ``clip_coef`` are applied to the gradients too, as by ``torch.optim`` with ``fused=True``.

        Args:
            closure: Computes the loss and the gradients anew, and returns the loss.
            found_inf: One float32 element on the device of the parameters. Where it is not zero the step is skipped:
                no parameter and no state changes by a bit, and no step is counted. This takes no sync.
            grad_scale: One floating-point element: the gradients are divided by it, in registers.
            clip_coef: One floating-point element: the gradients are multiplied by it, in registers.

        Any of the three that is not given is taken from the optimizer's attribute of that name where there is one:
        torch's protocol for fused steps, by which a gradient scaler calls steps of any signature.

        Returns:
            What the closure returned.

        Raises:
            ValueError: A learning rate is NaN, tensors share memory, or sizes do not fit.
            TypeError: A tensor is of a dtype that the step cannot use.
            RuntimeError: A parameter, its gradient and its state are on different devices. Whatever is raised, nothing
                has been written.

        Example:
            >>> import torch
            >>> from polycast import syncfree
            >>> weight = torch.nn.Parameter(torch.zeros(3))
            >>> optimizer = syncfree.AdamW([weight], lr=0.1)
            >>> weight.grad = torch.full((3,), 1024.0)
            >>> optimizer.step(grad_scale=torch.tensor(1024.0), found_inf=torch.tensor(0.0))
            >>> weight.detach()
            tensor([-0.1000, -0.1000, -0.1000])
        """
        loss = None
        if closure is not None:
            if not callable(closure):
                raise TypeError(f"closure is {closure!r:.60}; it takes a function that computes and returns the loss")
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        self._update(found_inf=found_inf, grad_scale=grad_scale, clip_coef=clip_coef)
        return loss

    # One fused call for all tensors: torch.compile has nothing to gain in here, and would take the lists apart.
    @disabled
    @torch.no_grad()
    def _update(self, **scalars: Tensor | None) -> None:
        for name, given in scalars.items():
            scalar = scalars[name] = getattr(self, name, None) if given is None else given
            if scalar is not None and not isinstance(scalar, Tensor):
                raise TypeError(f"{name} is {scalar!r}; it takes a tensor of one element")
        self._was_told = self._was_told or scalars["found_inf"] is not None
        batches: list[Batch] = []
        sparse: list[tuple[Group, Tensor]] = []
        for collected in collect(self.param_groups, self._collected):
            if collected.params:
                names = self._state_names(collected.group)
                batch = gather_group(collected, self.state, names)
                batches += self._gather_unusual(collected, names, sparse) if batch is None else [batch]
        steps = [(batch, self._arguments(batch.group, batch.device, scalars)) for batch in batches]
        for group, param in sparse:
            self._check_sparse(param, group)
        # One call checks all that it is given before it writes. Several are checked before the first of them.
        if len(steps) + len(sparse) > 1:
            for batch, arguments in steps:
                self._check_batch(batch, arguments)
        for group, param in sparse:
            self._step_sparse(param, group, self._arguments(group, param.device, scalars))
        for batch, arguments in steps:
            self._step_batch(batch, arguments)

    def _gather_unusual(
        self, collected: Collected, names: tuple[str | None, ...], sparse: list[tuple[Group, Tensor]]
    ) -> list[Batch]:
        """Gather a group whose tensors are not all plain, after each parameter got the state that it lacks."""
        group, params = collected.group, []
        for param, grad in zip(collected.params, collected.grads, strict=True):
            if grad.is_sparse:
                sparse.append((group, param))
                continue
            params.append(param)
            if not is_ready(param, self.state.get(param, {}), names):
                # What is made in inference mode could not be written outside of it.
                with torch.inference_mode(False):
                    self._init_state(param, group)
                    self._convert_state(param)
        states = [self.state.get(param, {}) for param in params]
        return gather_batches(self.param_groups, group, params, states, names)

    def _arguments(self, group: Group, device: torch.device, scalars: dict[str, Tensor | None]) -> Arguments:
        """Return what the operator takes beside its lists, on the device, or raise what is wrong with it."""
        moved = {}
        for name, scalar in scalars.items():
            if scalar is not None and scalar.device != device:
                scalar = scalar.to(device, non_blocking=True)
            moved[name] = scalar
        lr = group["lr"]
        if isinstance(lr, Tensor):
            lr = lr.detach() if lr.is_floating_point() else lr.detach().to(torch.float32)
        else:
            if type(lr) is not float or math.isnan(lr):
                (lr,) = numbers(("lr", lr))
            lr = torch.tensor(lr, dtype=torch.float64, device="cpu")
        return {"lr": lr, **self._options(group), **moved}

    def _check_batch(self, batch: Batch, arguments: Arguments) -> None:
        """Raise what the operator would, with the name of the parameter."""
        scalars = (arguments[name] for name in ("lr", "found_inf", "grad_scale", "clip_coef"))
        self._check(batch.lists, *scalars, lambda index: name_of(self.param_groups, batch.params[index]))

    def _step_batch(self, batch: Batch, arguments: Arguments) -> None:
        stand_ins = bool(batch.copies or batch.wholes)
        version = batch.version() if stand_ins else None
        try:
            if batch.is_opaque:
                self._elsewhere(*batch.lists, **arguments)
            else:
                call(self._operator, batch.device, *batch.lists, **arguments)
        except Exception as error:
            raise_named(error, lambda: self._check_batch(batch, arguments))
        # Where the version is the same the host knows that the step was skipped.
        if stand_ins and (version is None or batch.version() != version):
            batch.write_back()

    @abstractmethod
    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        """Return the names of a parameter's state in the order of the operator's lists, None where it does without."""

    @abstractmethod
    def _init_state(self, param: Tensor, group: Group) -> None:
        """Give a parameter that has a gradient the state that it lacks."""

    @abstractmethod
    def _options(self, group: Group) -> Arguments:
        """Return the numbers and flags that the operator takes of a group, or raise what is wrong with them."""

    @abstractmethod
    def _check_sparse(self, param: Tensor, group: Group) -> None:
        """Raise if a parameter cannot be updated by a sparse gradient."""

    def _check_state_dtype(self, param: Tensor) -> None:
        """Raise if the state of a parameter cannot be of the dtype that it would have."""

    def _step_sparse(self, param: Tensor, group: Group, arguments: Arguments) -> None:
        """Update a parameter whose gradient is sparse, where `_check_sparse` lets it pass."""
        raise NotImplementedError
