"""The base class of SGD, Adam and AdamW, with their step, their state and their checkpoints."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast import devices
from polycast._dtypes import dtype_of
from polycast.syncfree import torch_fused  # noqa: F401 -- the import registers the operators for other devices
from polycast.syncfree.gather import gather_group, with_gradients
from polycast.syncfree.slow_path import Scalars, is_skipped, step_by_torch
from polycast.syncfree.tensor_lists import Arguments, Group, Operator, TensorLists, moved
from polycast.torch_internals import disabled

#: The names of a parameter's state, in the order of the operator's lists. None stands for an empty list.
StateNames: TypeAlias = tuple[str | None, ...]

_CPU = torch.device(devices.HOST)
_STATE_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class SyncFreeOptimizer(torch.optim.Optimizer):
    """An optimizer whose step gathers its tensors and calls an operator."""

    _operator: ClassVar[Operator]
    _stock: ClassVar[Any]  # this class of `torch.optim` runs the steps that the operator does not support
    #: The names of the state with the shape of its parameter, and of the state that PyTorch requires.
    _average_names: ClassVar[tuple[str, ...]]
    _required_names: ClassVar[tuple[str, ...]] = ()

    def _start(self, params: ParamsT, state_dtype: Any, **options: Any) -> None:
        """Initialize the optimizer with the constructor of its class in ``torch.optim``, with the same arguments."""
        if options["differentiable"]:
            raise TypeError(
                f"differentiable: expected False, got {options['differentiable']!r}; autograd does not record the "
                f"steps of syncfree.{type(self).__name__}, so use torch.optim.{type(self).__name__}"
            )
        self.state_dtype = None if state_dtype is None else dtype_of(state_dtype, "state_dtype")
        if self.state_dtype not in (None, *_STATE_DTYPES):
            raise TypeError(
                f"state_dtype: expected a real floating-point dtype or None, got {self.state_dtype}; pass one of "
                f"{', '.join(map(str, _STATE_DTYPES))}, or None for the dtype of each parameter"
            )
        self._stock.__init__(self, params, **options)
        # Trainers do not clip for an optimizer with this attribute, which PyTorch's fused optimizers have.
        vars(self).pop("_step_supports_amp_scaling", None)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, as ``torch.optim.Optimizer`` does. After an error the optimizer is unchanged.

        Raises:
            TypeError: If the group has its own ``state_dtype``, or if its state would have an unsupported dtype.
            ValueError: As in ``torch.optim``, if a parameter is in a group already, or an option is missing.
        """
        super().add_param_group(param_group)
        if problem := self._problem_of(self.param_groups[-1]):
            self.param_groups.pop()
            raise TypeError(problem)

    def _problem_of(self, group: Group) -> str | None:
        """Return the reason why this optimizer does not support a group, or None."""
        text = "state_dtype: expected an argument of the optimizer, got a key of a group; pass it to the constructor"
        return text if "state_dtype" in group else None

    def step(
        self,
        closure: Callable[[], Any] | None = None,
        *,
        found_inf: Tensor | None = None,
        grad_scale: Tensor | None = None,
        clip_coef: Tensor | None = None,
    ) -> Any:
        """Update the parameters that have gradients.

        ``.grad`` is unchanged, except on devices where PyTorch's fused kernels run, such as cuda. These kernels may
        write the unscaled and clipped gradients, as ``torch.optim`` does with ``fused=True``.

        The step of ``torch.optim`` runs for groups with sparse or complex tensors, tensors on several devices, or
        parameters that share memory. It also runs for subclasses that override operators, except most DTensors, and for
        SGD with momentum and dampening. On devices whose fused kernels polycast does not use, such as mps and xpu,
        this step always runs. It syncs to read ``found_inf`` and any learning rate that is a tensor on an accelerator.

        Args:
            closure: A function that computes the loss and the gradients again, and returns the loss.
            found_inf: One float32 element on the device of the parameters. If it is not zero, the step is skipped: no
                parameter, no state and no step count changes. Missing state may be created, as zeros.
            grad_scale: One floating-point element by which the gradients are divided.
            clip_coef: One floating-point element by which the gradients are multiplied.

        If one of these tensors is None, the step uses the optimizer's attribute of this name, if any. A gradient
        scaler sets them, as PyTorch's does for fused steps, so that it can call a step with any signature.

        Returns:
            The result of the closure, or None.

        Raises:
            ValueError: If sizes do not match, or a tensor is expanded.
            TypeError: If a tensor has an unsupported dtype, or if a scalar is not a tensor.
            RuntimeError: If a tensor cannot be written or has no memory, or if the step of ``torch.optim`` raises it.

        If an error is raised outside of a step of ``torch.optim``, nothing has been written.

        Example:
            >>> import torch
            >>> from polycast import syncfree
            >>> weight = torch.nn.Parameter(torch.zeros(3))
            >>> optimizer = syncfree.AdamW([weight], lr=0.1)
            >>> weight.grad = torch.full((3,), 1024.0)
            >>> optimizer.step(grad_scale=torch.tensor(1024.0), found_inf=torch.tensor(0.0))
            >>> weight.detach()
            tensor([-0.1000, -0.1000, -0.1000])
            >>> optimizer.step(grad_scale=torch.tensor(1024.0), found_inf=torch.tensor(1.0))  # this step is skipped
            >>> weight.detach()
            tensor([-0.1000, -0.1000, -0.1000])
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        self._update({"found_inf": found_inf, "grad_scale": grad_scale, "clip_coef": clip_coef})
        return loss

    # `torch.compile` cannot improve one fused call for all tensors, and would trace each tensor of the lists. Autograd
    # remains enabled, because the operators have no derivative, and `no_grad` would take 1.5 us.
    @disabled
    def _update(self, scalars: Scalars) -> None:
        for name, given in scalars.items():
            scalars[name] = scalar = getattr(self, name, None) if given is None else given
            if not (scalar is None or isinstance(scalar, Tensor)):
                raise TypeError(f"{name}: expected a tensor of one element, got {scalar!r:.60}; pass torch.tensor(...)")
        calls: list[tuple[TensorLists, Arguments]] = []
        others: list[tuple[Group, list[Tensor]]] = []
        for group in self.param_groups:
            params, grads = with_gradients(group["params"])
            found = self._gather(group, params, grads) if params else None
            if found:
                _add_scalars(found[1], group["lr"], scalars, found[0].device)
                calls.append(found)
            elif params:
                # PyTorch's steps would round a tensor `lr`. This read can raise, so it comes before all writes.
                others.append(({**group, "lr": float(group["lr"])}, params))
        if others and is_skipped(scalars):
            return
        # One call checks its arguments before it writes. Several calls are all checked before the first one writes.
        for lists, arguments in calls if len(calls) + len(others) > 1 else ():
            lists.check(self._operator, self.param_groups, arguments)
        for group, params in others:
            step_by_torch(self, self._stock, group, params, scalars)
        for lists, arguments in calls:
            lists.call(self._operator, self.param_groups, arguments)

    @abstractmethod
    def _plan(self, group: Group) -> tuple[StateNames, Arguments] | None:
        """Return the names of a parameter's state in the order of the operator's lists, and the operator's options.

        The name None stands for an empty list. The result is None if only ``torch.optim`` supports the group's options.
        """

    def _gather(self, group: Group, params: list[Tensor], grads: list[Tensor]) -> tuple[TensorLists, Arguments] | None:
        """Return the tensors and options of a group for the operator, or None if ``torch.optim`` steps the group."""
        plan = self._plan(group)
        if plan is None or not _facts_of(params[0].device).skips_by_itself:
            return None
        names, options = plan
        try:
            lists = gather_group(params, grads, self.state, names)
        except KeyError:
            lists = gather_group(params, grads, self.state, ())
            if lists is not None:
                self._init_state(params, names)
                lists = gather_group(params, grads, self.state, names)
        return None if lists is None else (lists, options)

    @torch.inference_mode(False)  # State that is created in inference mode cannot be written outside of it.
    def _init_state(self, params: list[Tensor], names: StateNames) -> None:
        """Create each parameter's missing state. If memory runs out, a parameter has all or none of it."""
        for param in params:
            state, dtype, missing = self.state[param], self._kept_dtype(param), dict[str, Tensor]()
            for name in names:
                if name in self._average_names and name not in state:
                    missing[name] = torch.zeros_like(param, dtype=dtype, memory_format=torch.preserve_format)
                elif name and name not in state:
                    missing[name] = torch.zeros((), dtype=torch.float32, device=_place_of_step(param))
            state.update(missing)

    def _kept_dtype(self, param: Tensor) -> torch.dtype:
        dtype = self.state_dtype
        if dtype is torch.bfloat16 and param.is_complex():
            return torch.complex64  # the complex bfloat16 of PyTorch 2.15 supports few ops
        return param.dtype if dtype is None else dtype.to_complex() if param.is_complex() else dtype

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that ``state_dict`` of this class or of the class in ``torch.optim`` returned.

        Source: ``torch.optim.Optimizer.load_state_dict``, which casts the state to the dtype of its parameter. If
        ``state_dtype`` was given, this method casts the state from its saved dtype to ``state_dtype`` instead. If an
        error is raised, nothing is loaded.

        Raises:
            ValueError: If the state lacks or has invalid values, or, as in ``torch.optim``, if its groups do not match.
            KeyError, AttributeError: As in ``torch.optim``, if the argument is not the state of an optimizer.
        """
        loaded: list[dict[str, Any]] = []
        # Our pre-hook runs last, so it sees the changes of other hooks. Our post-hook runs first, before other hooks.
        before = self.register_load_state_dict_pre_hook(lambda _, made: loaded.append(self._checked(made)))
        after = self.register_load_state_dict_post_hook(lambda _: self._take_state(loaded[0]), prepend=True)
        try:
            super().load_state_dict(state_dict)
        finally:
            before.remove()
            after.remove()

    def _checked(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return a state. Raise a ``ValueError`` if it lacks a value that a step requires, or has an invalid one."""
        groups, state = state_dict["param_groups"], state_dict["state"]
        # Flags can be missing, because older releases saved fewer. `torch.optim` sets them.
        wanted = [key for key, value in self.defaults.items() if not isinstance(value, (bool, type(None)))]
        parts = [(f"parameter group {number}", group, wanted) for number, group in enumerate(groups)]
        keys = chain.from_iterable(group["params"] for group in groups)
        parts += [(f"parameter {key}", state[key], [*self._required_names]) for key in keys if state.get(key)]
        for part, values, names in parts:
            missing = ", ".join(name for name in names if name not in values)
            if missing:
                raise ValueError(
                    f"state_dict: expected the state of {type(self).__name__}, got one without {missing} for {part}; "
                    "load the state of the same kind of optimizer"
                )
            for name, value in ((name, values[name]) for name in names if name in self._required_names):
                if not isinstance(value, (Tensor, float, int) if name == "step" else Tensor):
                    raise ValueError(
                        f"state_dict: expected a tensor as '{name}' of {part}, got {value!r:.60}; load a state that "
                        "state_dict() returned"
                    )
        return state_dict

    def _take_state(self, state_dict: dict[str, Any]) -> None:
        """Store the loaded values in the dtypes of this optimizer."""
        saved_ids = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for saved_id, param in zip(saved_ids, params, strict=False):  # PyTorch raises if the counts differ.
            for name, value in state_dict["state"].get(saved_id, {}).items():
                state = self.state[param]
                if name == "step":
                    state[name] = torch.as_tensor(state[name], dtype=torch.float32, device=_place_of_step(param))
                elif name in self._average_names and value is None:
                    del state[name]  # no step has written this momentum buffer
                elif name in self._average_names and self.state_dtype is not None:
                    state[name] = value.to(param.device, self._kept_dtype(param), copy=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "state_dtype": self.state_dtype}


@cache
def _facts_of(device: torch.device) -> devices.DeviceType:
    """Return the facts about a device. The cache avoids ``device.type``, which makes a string and takes 0.3 us."""
    return devices.facts_of(device.type)


def _add_scalars(arguments: Arguments, lr: Any, scalars: Scalars, device: torch.device) -> None:
    """Add the learning rate, and the scalars that are not None, to an operator's arguments."""
    if isinstance(lr, Tensor):
        lr = lr if lr.is_floating_point() else lr.to(torch.float32)
        arguments["lr_tensor"] = lr if lr.device in (_CPU, device) else moved(lr, device)
        lr = 0.0
    arguments["lr"] = float(lr)
    for name, scalar in scalars.items():
        if scalar is not None:
            arguments[name] = scalar if scalar.device == device else moved(scalar, device)


def _place_of_step(param: Tensor) -> torch.device:
    """Return the device of the step count: the parameter's, or the CPU on devices that ``torch.optim`` steps."""
    return param.device if _facts_of(param.device).skips_by_itself else _CPU
