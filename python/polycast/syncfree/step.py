"""The step that the sync-free optimizers share."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast import devices
from polycast._compiled import check_arguments
from polycast.syncfree.arguments import check_state_dtype, numbers, refuse_differentiable
from polycast.syncfree.batches import Batch, Group, Operator, call, name_of, raise_named
from polycast.syncfree.gather import Collected, collect, gather_group, gather_locals
from polycast.syncfree.slow_path import is_skipped, step_by_torch
from polycast.syncfree.state import StatefulOptimizer
from polycast.torch_internals import disabled

#: What an operator takes beside its lists, in the order of its schema.
Arguments: TypeAlias = dict[str, Any]
Closure: TypeAlias = Callable[[], Any]


class SyncFreeOptimizer(StatefulOptimizer):
    """A base class of SGD, Adam and AdamW, which gathers tensors and calls an operator.

    A subclass names its operator and the tensors of its state, and makes the state of a parameter.
    """

    _operator: ClassVar[Operator]

    def _start(self, stock: Any, params: ParamsT, state_dtype: Any, **options: Any) -> None:
        """Initialize the optimizer by the constructor of torch.optim's.

        Args:
            stock: The class of torch.optim.
            params: What the user gave.
            state_dtype: What the user gave.
            options: The arguments of that constructor.
        """
        self.state_dtype = check_state_dtype(state_dtype)
        stock.__init__(self, params, **options)
        # By this attribute torch's fused optimizers say that their step changes the gradients, so trainers do not clip.
        vars(self).pop("_step_supports_amp_scaling", None)
        refuse_differentiable(type(self).__name__, self.defaults, "")

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, as ``torch.optim.Optimizer.add_param_group`` does, or leave all as it is.

        Raises:
            TypeError: It has a ``state_dtype`` of its own, is ``differentiable``, or its state would be of a wrong
                dtype.
            ValueError: As torch.optim raises it.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        where = f" of parameter group {len(self.param_groups) - 1}"
        try:
            if "state_dtype" in group:
                raise TypeError(f"state_dtype{where}: expected none; pass it to the optimizer, for all groups")
            if group.get("differentiable") and not self.defaults.get("differentiable"):  # the constructor tells of it
                refuse_differentiable(type(self).__name__, group, where)
            for param in group["params"]:
                self._check_state_dtype(param)
        except TypeError:
            self.param_groups.pop()
            raise

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

        A group takes the step of ``torch.optim``, after one read of ``found_inf``, if it holds sparse or complex
        tensors, subclasses other than DTensors, tensors on several devices, or parameters that share memory; if it is
        of SGD with dampening; and on devices whose fused kernels do not skip, as mps and xpu.

        Args:
            closure: Computes the loss and the gradients anew, and returns the loss.
            found_inf: One float32 element on the device of the parameters. Where it is not zero the step is skipped:
                no parameter and no state changes by a bit, and no step is counted.
            grad_scale: One floating-point element: the gradients are divided by it, in registers.
            clip_coef: One floating-point element: the gradients are multiplied by it, in registers.

        Any of the three that is not given is taken from the optimizer's attribute of that name where there is one:
        torch's protocol for fused steps, by which a gradient scaler calls steps of any signature.

        Returns:
            What the closure returned.

        Raises:
            ValueError: An option is NaN, or sizes do not fit.
            TypeError: A tensor is of a dtype that the step cannot use.
            RuntimeError: As by ``torch.optim``. Whatever is raised, nothing has been written, except where
                ``torch.optim`` raises in a step that it takes.

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
        batches: list[Batch] = []
        others: list[Collected] = []
        for collected in collect(self.param_groups):
            if collected.params:
                batch = self._gather(collected)
                batches += [] if batch is None else [batch]
                others += [collected] if batch is None else []
        if others and is_skipped(scalars):
            return
        steps = [(batch, self._arguments(batch.group, batch.device, scalars)) for batch in batches]
        # One call checks all that it is given before it writes. Several are checked before the first of them.
        if len(steps) + len(others) > 1:
            for batch, arguments in steps:
                self._check_batch(batch, arguments)
        if others:
            step_by_torch(self, others, scalars)
        for batch, arguments in steps:
            self._step_batch(batch, arguments)

    def _gather(self, collected: Collected) -> Batch | None:
        """Return what the operator takes of a group, or None where torch.optim takes the step."""
        group, params, _ = collected
        if self._needs_torch(group) or not devices.facts_of(params[0].device.type).skips_by_itself:
            return None
        names = self._state_names(group)
        batch = gather_group(collected, self.state, names)
        if batch is None and gather_locals(self.param_groups, collected) is not None:
            # What is made in inference mode could not be written outside of it.
            with torch.inference_mode(False):
                for param in params:
                    self._init_state(param, group)
                    self._convert_state(param)
            batch = gather_locals(self.param_groups, collected, self.state, names)
        return batch

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
        scalars = [arguments[name] for name in ("lr", "found_inf", "grad_scale", "clip_coef")]
        op = self._operator.overloadpacket.__name__
        check_arguments(op, batch.lists, scalars, lambda index: name_of(self.param_groups, batch.params[index]))

    def _step_batch(self, batch: Batch, arguments: Arguments) -> None:
        version = batch.version() if batch.wholes else None
        try:
            call(self._operator, batch.device, *batch.lists, **arguments)
        except Exception as error:
            raise_named(error, lambda: self._check_batch(batch, arguments))
        # Where the version is the same the host knows that the step was skipped.
        if batch.wholes and (version is None or batch.version() != version):
            torch.autograd.graph.increment_version(batch.wholes)

    @abstractmethod
    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        """Return the names of a parameter's state in the order of the operator's lists, None where it does without."""

    @abstractmethod
    def _init_state(self, param: Tensor, group: Group) -> None:
        """Give a parameter that has a gradient the state that it lacks."""

    @abstractmethod
    def _options(self, group: Group) -> Arguments:
        """Return the numbers and flags that the operator takes of a group, or raise what is wrong with them."""

    def _needs_torch(self, group: Group) -> bool:  # noqa: ARG002
        """Return whether only torch.optim knows the options of a group."""
        return False

    @abstractmethod
    def _prepare_for_torch(self, group: Group, params: list[Tensor]) -> None:
        """Check the group, and give its parameters that have gradients the state that torch.optim's step needs."""

    @abstractmethod
    def _step_by_torch(self, group: Group, lists: list[list[Any]]) -> None:
        """Call the function of torch.optim."""

    def _check_state_dtype(self, param: Tensor) -> None:
        """Raise if the state of a parameter cannot be of the dtype that it would have."""
