"""The step that the sync-free optimizers share."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast import devices
from polycast._extension import check_arguments
from polycast.syncfree.gather import gather_group, with_gradients
from polycast.syncfree.slow_path import Scalars, is_skipped, step_by_torch
from polycast.syncfree.state import StatefulOptimizer
from polycast.syncfree.tensor_lists import Batch, Group, Operator, call, name_of, raise_named
from polycast.torch_internals import disabled

#: The arguments of an operator after its lists.
Arguments: TypeAlias = dict[str, Any]
Closure: TypeAlias = Callable[[], Any]

_CPU = torch.device(devices.HOST)


class SyncFreeOptimizer(StatefulOptimizer):
    """The base class of SGD, Adam and AdamW that gathers tensors and calls an operator.

    A subclass names its operator, the class of torch.optim for all other steps, and the tensors of its state.
    """

    _operator: ClassVar[Operator]
    _stock: ClassVar[Any]

    def _start(self, params: ParamsT, state_dtype: Any, **options: Any) -> None:
        """Initialize the optimizer by the constructor of torch.optim's, with its arguments.

        Raises:
            TypeError: If ``differentiable`` is true, or ``state_dtype`` is not a supported dtype.
        """
        name = type(self).__name__
        if options["differentiable"]:
            raise TypeError(
                f"differentiable: expected False, got {options['differentiable']!r}; autograd does not record the "
                f"steps of syncfree.{name}, so use torch.optim.{name}"
            )
        self._set_state_dtype(state_dtype)
        self._stock.__init__(self, params, **options)
        # Trainers do not clip for an optimizer with this attribute, which PyTorch's fused optimizers have.
        vars(self).pop("_step_supports_amp_scaling", None)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, as ``torch.optim.Optimizer.add_param_group`` does. If it raises, nothing changes.

        Raises:
            TypeError: If the group has its own ``state_dtype``, or if its state would have an unsupported dtype.
            ValueError: As in torch.optim.
        """
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except TypeError:
            self.param_groups.pop()
            raise

    def _check_group(self, group: Group) -> None:
        """Raise a TypeError for a group that this optimizer does not support."""
        if "state_dtype" in group:
            raise TypeError("state_dtype of a parameter group: expected none; pass it to the optimizer, for all groups")

    def step(
        self,
        closure: Closure | None = None,
        *,
        found_inf: Tensor | None = None,
        grad_scale: Tensor | None = None,
        clip_coef: Tensor | None = None,
    ) -> Any:
        """Update the parameters that have gradients.

        ``.grad`` is unchanged, except on devices where PyTorch's fused kernels run, such as cuda: they apply
        ``grad_scale`` and ``clip_coef`` to the gradients as well, as ``torch.optim`` does with ``fused=True``.

        The step of ``torch.optim`` runs, after one sync to read ``found_inf``, for groups with sparse or complex
        tensors, tensor subclasses other than DTensors, tensors on several devices, parameters that share memory, or a
        parameter twice; for SGD with dampening; and on devices whose fused kernels do not skip, such as mps and xpu.

        Args:
            closure: A function that computes the loss and the gradients again, and returns the loss.
            found_inf: One float32 element on the device of the parameters. If it is not zero, the step is skipped: no
                parameter, no state and no step count changes.
            grad_scale: One floating-point element by which the gradients are divided as they are read.
            clip_coef: One floating-point element by which the gradients are multiplied as they are read.

        Any of the three that is not given is taken from the optimizer's attribute of that name where there is one:
        torch's protocol for fused steps, by which a gradient scaler calls steps of any signature.

        Returns:
            The result of the closure, or None.

        Raises:
            ValueError: If the learning rate is NaN, or if shapes do not match.
            TypeError: If a tensor has an unsupported dtype.
            RuntimeError: As in ``torch.optim``.

        If an error is raised, nothing has been written, except for an error within a step of ``torch.optim``.

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
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        self._update({"found_inf": found_inf, "grad_scale": grad_scale, "clip_coef": clip_coef})
        return loss

    # torch.compile cannot improve one fused call for all tensors, and would trace each tensor of the lists.
    # The operators have no derivative, so autograd may remain enabled: entering and leaving no_grad takes 1.5 us.
    @disabled
    def _update(self, scalars: Scalars) -> None:
        for name, given in scalars.items():
            if given is None:
                scalars[name] = getattr(self, name, None)
        batches, others = self._gather(scalars)
        if others and is_skipped(scalars):
            return
        # One call checks its arguments before it writes. Several calls are all checked before the first one writes.
        if len(batches) + len(others) > 1:
            for batch, arguments in batches:
                self._check_batch(batch, arguments)
        for group, params in others:
            step_by_torch(self, self._stock, group, params, scalars)
        for batch, arguments in batches:
            self._step_batch(batch, arguments)

    def _gather(self, scalars: Scalars) -> tuple[list[tuple[Batch, Arguments]], list[tuple[Group, list[Tensor]]]]:
        """Return the operator's arguments for each group, and the groups that torch.optim steps."""
        batches, others = [], []
        for group in self.param_groups:
            params, grads = with_gradients(group["params"])
            batch = self._batch(group, params, grads) if params else None
            if batch is not None:
                batches.append((batch, self._arguments(group, grads[0].device, scalars)))
            elif params:
                others.append((group, params))
        return batches, others

    def _batch(self, group: Group, params: list[Tensor], grads: list[Tensor]) -> Batch | None:
        """Return the tensors of a group for the operator, or None if torch.optim steps the group."""
        if self._needs_torch(group) or not devices.facts_of(params[0].device.type).skips_by_itself:
            return None
        names = self._state_names(group)
        try:
            return gather_group(params, grads, self.state, names)
        except KeyError:
            if gather_group(params, grads, self.state, ()) is None:
                return None
        with torch.inference_mode(False):  # State that is created in inference mode cannot be written outside of it.
            for param in params:
                self._init_state(param, group)
        return gather_group(params, grads, self.state, names)

    def _arguments(self, group: Group, device: torch.device, scalars: Scalars) -> Arguments:
        """Return the operator's arguments after its lists, on the device."""
        arguments = self._options(group)
        for name, scalar in scalars.items():
            if scalar is not None:
                is_there = not isinstance(scalar, Tensor) or scalar.device == device
                arguments[name] = scalar if is_there else scalar.to(device, non_blocking=True)
        lr = group["lr"]
        if not isinstance(lr, Tensor):
            lr = torch.scalar_tensor(lr, dtype=torch.float64, device=_CPU)
        elif not lr.is_floating_point():
            lr = lr.to(torch.float32)
        arguments["lr"] = lr
        return arguments

    def _check_batch(self, batch: Batch, arguments: Arguments) -> None:
        """Raise the error of the operator, with the name of the parameter."""
        scalars = [arguments.get(name) for name in ("lr", "found_inf", "grad_scale", "clip_coef")]
        op = self._operator.overloadpacket.__name__
        check_arguments(op, batch.lists, scalars, lambda index: name_of(self.param_groups, batch.params[index]))

    def _step_batch(self, batch: Batch, arguments: Arguments) -> None:
        try:
            call(self._operator, batch.lists[0][0].device, batch.lists, arguments)
        except Exception:
            raise_named(lambda: self._check_batch(batch, arguments))
            raise
        if batch.wholes:
            torch.autograd.graph.increment_version(batch.wholes)

    @abstractmethod
    def _options(self, group: Group) -> Arguments:
        """Return the numbers and flags of a group for the operator."""

    def _needs_torch(self, group: Group) -> bool:  # noqa: ARG002
        """Return whether only torch.optim supports the options of a group."""
        return False
