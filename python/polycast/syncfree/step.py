"""The step that the sync-free optimizers share."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from polycast.syncfree.arguments import learning_rate
from polycast.syncfree.batches import Batch, Group, Operator, call, name_of, raise_named
from polycast.syncfree.gather import gather_group
from polycast.syncfree.sharding import placed_like
from polycast.syncfree.unusual import is_ready, sort_batches

#: What an operator takes beside its lists, in the order of its schema.
Arguments: TypeAlias = dict[str, Any]
Closure: TypeAlias = Callable[[], Any]


class SyncFreeOptimizer(torch.optim.Optimizer):
    """The part of SGD, Adam and AdamW that is the same; not a complete optimizer.

    A subclass names the tensors of its state, gives a parameter its state, and calls its operator.
    """

    #: How a gradient scaler knows an optimizer whose ``step`` takes ``found_inf``, ``grad_scale`` and ``clip_coef``.
    takes_found_inf: ClassVar[bool] = True
    #: The names of a parameter's state that have the sizes of the parameter.
    _average_names: ClassVar[tuple[str, ...]]

    state_dtype: torch.dtype | None

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
                no parameter and no state changes by a bit, and no step is counted. Nothing is read back.
            grad_scale: One floating-point element: the gradients are divided by it, in registers.
            clip_coef: One floating-point element: the gradients are multiplied by it, in registers.

        Any of the three that is not given is taken from the optimizer's attribute of that name where there is one:
        torch's protocol for fused steps, by which a gradient scaler calls steps of any signature.

        Returns:
            What the closure returned.

        Raises:
            ValueError: A learning rate is NaN, tensors share memory, or sizes do not fit.
            TypeError: A tensor is of a type that the step cannot use.
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
            with torch.enable_grad():  # type: ignore[no-untyped-call]
                loss = closure()
        self._update(found_inf=found_inf, grad_scale=grad_scale, clip_coef=clip_coef)
        return loss

    # One fused call for all tensors: torch.compile has nothing to gain in here, and would take the lists apart.
    @_disable_dynamo
    @torch.no_grad()
    def _update(self, **scalars: Tensor | None) -> None:
        for name, given in scalars.items():
            scalar = scalars[name] = getattr(self, name, None) if given is None else given
            if scalar is not None and not isinstance(scalar, Tensor):
                raise TypeError(f"{name} is {scalar!r}; it takes a tensor of one element")
        batches, sparse = self._gather()
        steps = [(batch, self._arguments(batch.group, batch.device, scalars)) for batch in batches]
        # One call checks all that it is given before it writes; several must be checked before the first.
        if len(steps) + len(sparse) > 1:
            for group, param in sparse:
                self._check_sparse(param, group)
            for batch, arguments in steps:
                self._check_batch(batch, arguments)
        for group, param in sparse:
            self._step_sparse(param, group, self._arguments(group, param.device, scalars))
        for batch, arguments in steps:
            self._step_batch(batch, arguments)

    def _gather(self) -> tuple[list[Batch], list[tuple[Group, Tensor]]]:
        """Return what the operator takes, and the parameters with sparse gradients, each with its group."""
        batches: list[Batch] = []
        sparse: list[tuple[Group, Tensor]] = []
        for group in self.param_groups:
            names = self._state_names(group)
            batch = gather_group(group, self.state, names)
            if batch is None:
                batches += self._gather_unusual(group, names, sparse)
            elif batch.params:
                batches.append(batch)
        return batches, sparse

    def _gather_unusual(
        self, group: Group, names: tuple[str | None, ...], sparse: list[tuple[Group, Tensor]]
    ) -> list[Batch]:
        """Gather a group whose tensors are not all plain, after each parameter got the state that it lacks."""
        params = []
        for param in group["params"]:
            if param.grad is None:
                continue
            if param.grad.is_sparse:
                sparse.append((group, param))
                continue
            params.append(param)
            if not is_ready(param, self.state.get(param, {}), names):
                # What is made in inference mode could not be written outside of it.
                with torch.inference_mode(False):
                    self._init_state(param, group)
                    self._convert_state(param)
        states = [self.state.get(param, {}) for param in params]
        return sort_batches(self.param_groups, group, params, states, names)

    def _check_batch(self, batch: Batch, arguments: Arguments) -> None:
        """Raise what the operator would, with the name of the parameter."""
        scalars = (arguments[name] for name in ("lr", "found_inf", "grad_scale", "clip_coef"))
        self._check(batch.lists, *scalars, lambda index: name_of(self.param_groups, batch.params[index]))

    def _step_batch(self, batch: Batch, arguments: Arguments) -> None:
        first = batch.lists[0][0]
        before = 0 if first.is_inference() else first._version
        try:
            if batch.is_opaque:
                self._elsewhere(*batch.lists, **arguments)
            else:
                call(self._operator, batch.device, *batch.lists, **arguments)
        except Exception as error:
            raise_named(error, lambda: self._check_batch(batch, arguments))
        if not first.is_inference() and first._version == before:
            return  # skipped, where the host knows it
        for view, copy in batch.copies:
            view.copy_(copy)
        if batch.wholes:
            torch.autograd.graph.increment_version(batch.wholes)

    #: The operator; its check, which raises what the call would; and its kernel in ATen's ops, which subclasses know.
    _operator: ClassVar[Operator]
    _check: ClassVar[Callable[..., None]]
    _elsewhere: ClassVar[Callable[..., None]]

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

    def _step_sparse(self, param: Tensor, group: Group, arguments: Arguments) -> None:
        """Update a parameter whose gradient is sparse, where `_check_sparse` lets it pass."""
        raise NotImplementedError

    def _convert_state(self, param: Tensor) -> None:
        """Bring state that comes from elsewhere to where this optimizer keeps it."""
        state = self.state[param]
        for name in self._average_names:
            if isinstance(state.get(name), Tensor):
                state[name] = placed_like(state[name], param)

    def _new_state(self, param: Tensor) -> Tensor:
        return torch.zeros_like(param, dtype=self._kept_type(param), memory_format=torch.preserve_format)

    def _kept_type(self, param: Tensor) -> torch.dtype:
        dtype = self.state_dtype
        if dtype is torch.bfloat16 and param.is_complex():
            return torch.complex64  # torch's own answer until 2.15, whose complex type of bfloat16 has hardly an op
        return param.dtype if dtype is None else dtype.to_complex() if param.is_complex() else dtype

    def _arguments(self, group: Group, device: torch.device, scalars: dict[str, Tensor | None]) -> Arguments:
        moved = {}
        for name, scalar in scalars.items():
            if scalar is not None and scalar.device != device:
                scalar = scalar.to(device, non_blocking=True)
            moved[name] = scalar
        return {"lr": learning_rate(group["lr"]), **self._options(group), **moved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch.optim's returned.

        Source: ``torch.optim.Optimizer.load_state_dict``, which casts the state to the type of its parameter. Here it
        goes to ``state_dtype``, where one was chosen, from the type it was saved in; a warning says so where the two
        differ.

        Raises:
            ValueError: It is the state of another optimizer, whose groups lack numbers of this one. Nothing is loaded.
        """
        loaded: list[dict[str, Any]] = []
        converted: set[torch.dtype] = set()
        # The last hook before loading sees what others made of the state, the first one after it comes before theirs.
        hooks = (
            self.register_load_state_dict_pre_hook(lambda _, made: loaded.append(self._checked(made))),
            self.register_load_state_dict_post_hook(
                lambda _: converted.update(self._take_state(loaded[0])), prepend=True
            ),
        )
        try:
            super().load_state_dict(state_dict)
        finally:
            for hook in hooks:
                hook.remove()
        if converted:
            names = " and ".join(sorted(map(str, converted)))
            warnings.warn(f"loaded state of {names} is converted to the state_dtype {self.state_dtype}", stacklevel=2)

    def _checked(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return a state, or raise a ValueError if it lacks numbers of this optimizer, where torch.optim's step would.

        Flags may be missing: older releases saved fewer, and torch.optim sets them.
        """
        wanted = [name for name, value in self.defaults.items() if not isinstance(value, (bool, type(None)))]
        for number, group in enumerate(state_dict["param_groups"]):
            missing = [name for name in wanted if name not in group]
            if missing:
                name = type(self).__name__
                raise ValueError(
                    f"the state is not that of an optimizer such as {name}: its parameter group {number} has "
                    f"{', '.join(sorted(group.keys() - {'params'}))}, and no {', '.join(missing)}; load what "
                    f"{name}.state_dict() returned"
                )
        return state_dict

    def _take_state(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Keep what was loaded; return the types of averages that are converted to another."""
        converted = set() if self.state_dtype is None else self._take_saved_types(state_dict)
        for param in self.state:
            if isinstance(param, Tensor):
                self._convert_state(param)
        return converted

    def _take_saved_types(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Take the averages from the types they were saved in, and return those that are not kept."""
        converted: set[torch.dtype] = set()
        saved_ids = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for saved_id, param in zip(saved_ids, params, strict=True):
            for name, value in state_dict["state"].get(saved_id, {}).items():
                if name in self._average_names and isinstance(value, Tensor):
                    kept = self._kept_type(param)
                    self.state[param][name] = value.to(param.device, kept, copy=True)
                    converted |= {value.dtype} - {kept}
        return converted

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "state_dtype": self.state_dtype}
