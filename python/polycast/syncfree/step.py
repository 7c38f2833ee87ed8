"""What the sync-free optimizers share: the step, and the lists of tensors that it is prepared on."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from itertools import chain
from threading import Lock
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from typing_extensions import Self

from polycast._compiled import Batch, OptimizerLists, StepTensors
from polycast.syncfree.arguments import number
from polycast.syncfree.sharding import placed_like

Group: TypeAlias = dict[str, Any]
Options: TypeAlias = dict[str, Any]
Closure: TypeAlias = Callable[[], Any]


class SyncFreeOptimizer(torch.optim.Optimizer):
    """The part of SGD, Adam and AdamW that is the same; not a complete optimizer.

    A subclass names the tensors of its state, gives a parameter its state, and calls its operator.
    """

    #: How a gradient scaler knows an optimizer whose ``step`` takes ``found_inf``, ``grad_scale`` and ``clip_coef``.
    takes_found_inf: ClassVar[bool] = True
    #: The names of a parameter's state, in the order of the operator's lists.
    _state_names: ClassVar[tuple[str, ...]]
    #: Those of them that have the sizes of the parameter.
    _average_names: ClassVar[tuple[str, ...]]

    state_dtype: torch.dtype | None
    _lists: OptimizerLists | None = None
    _prepared_for: list[tuple[bool, ...]]
    _turn: Lock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return an optimizer, also a copied or unpickled one, that one thread at a time can step."""
        optimizer = super().__new__(cls)
        optimizer._turn = Lock()
        return optimizer

    def step(
        self,
        closure: Closure | None = None,
        *,
        found_inf: Tensor | None = None,
        grad_scale: Tensor | None = None,
        clip_coef: Tensor | None = None,
    ) -> Any:
        """Update the parameters that have gradients; the gradients keep their values.

        Args:
            closure: Computes the loss and the gradients anew, and returns the loss.
            found_inf: One float32 element on the device of the parameters. Where it is not zero the step is skipped:
                no parameter and no state changes by a bit, and no step is counted. Nothing is read back.
            grad_scale: One floating-point element: the gradients are divided by it, in registers.
            clip_coef: One floating-point element: the gradients are multiplied by it, in registers.

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
        self._update(found_inf, grad_scale, clip_coef)
        return loss

    # One fused call for all tensors: torch.compile has nothing to gain in here, and would take the lists apart.
    @_disable_dynamo
    @torch.no_grad()
    def _update(self, *scalars: Tensor | None) -> None:
        for name, scalar in zip(("found_inf", "grad_scale", "clip_coef"), scalars, strict=True):
            if scalar is not None and not isinstance(scalar, Tensor):
                raise TypeError(f"{name} is {scalar!r}; it takes a tensor of one element")
        with self._turn:
            lists = self._current_lists()
            try:
                self._step_lists(lists, scalars)
            finally:
                lists.release()

    def _step_lists(self, lists: OptimizerLists, scalars: tuple[Tensor | None, ...]) -> None:
        calls = [
            (batch, self._tensors(batch.device, group, scalars), self._options(group))
            for batch in lists.gather()
            for group in [self.param_groups[batch.group]]
        ]
        # One call checks all that it is given before it writes; several must be checked before the first.
        if len(calls) > 1 or lists.sparse:
            for index, param in lists.sparse:
                self._check_sparse(param, self.param_groups[index])
            for batch, tensors, options in calls:
                self._check_batch(batch, tensors, options)
        for index, param in lists.sparse:
            group = self.param_groups[index]
            self._step_sparse(param, group, self._tensors(param.device, group, scalars))
        for batch, tensors, options in calls:
            self._step_batch(batch, tensors, options)

    @abstractmethod
    def _init_state(self, param: Tensor, group: Group) -> None:
        """Give a parameter that has a gradient the state that it lacks."""

    @abstractmethod
    def _options(self, group: Group) -> Options:
        """Return what the operator takes of a group, or raise what is wrong with it."""

    @abstractmethod
    def _check_batch(self, batch: Batch, tensors: StepTensors, options: Options) -> None:
        """Raise what the step would."""

    @abstractmethod
    def _step_batch(self, batch: Batch, tensors: StepTensors, options: Options) -> None:
        """Call the operator on parameters of one group and one device."""

    @abstractmethod
    def _check_sparse(self, param: Tensor, group: Group) -> None:
        """Raise if a parameter cannot be updated by a sparse gradient."""

    def _step_sparse(self, param: Tensor, group: Group, tensors: StepTensors) -> None:
        """Update a parameter whose gradient is sparse, where `_check_sparse` lets it pass."""
        raise NotImplementedError

    @abstractmethod
    def _needs(self, group: Group) -> tuple[bool, ...]:
        """Return what decides which state the parameters of a group have."""

    def _current_lists(self) -> OptimizerLists:
        lists = self._lists
        needs = [self._needs(group) for group in self.param_groups]
        if lists is None or needs != self._prepared_for or not lists.is_current(self.state, self.param_groups):
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._init_state(param, group)
                        if param in self.state:
                            self._convert_state(param, self.state[param])
            lists = OptimizerLists(self.state, self.param_groups, self._state_names)
            self._lists = lists
            self._prepared_for = needs
        return lists

    def _convert_state(self, param: Tensor, state: dict[str, Any]) -> None:
        """Bring state that was put in by hand to the types that this optimizer keeps."""
        for name in self._average_names:
            value = state.get(name)
            if isinstance(value, Tensor):
                kept = value if self.state_dtype is None else value.to(self._kept_type(param))
                state[name] = placed_like(kept, param)

    def _new_state(self, param: Tensor) -> Tensor:
        return torch.zeros_like(param, dtype=self._kept_type(param), memory_format=torch.preserve_format)

    def _kept_type(self, param: Tensor) -> torch.dtype:
        dtype = self.state_dtype
        return param.dtype if dtype is None else dtype.to_complex() if param.is_complex() else dtype

    def _tensors(self, device: torch.device, group: Group, scalars: tuple[Tensor | None, ...]) -> StepTensors:
        found_inf, grad_scale, clip_coef = (_on(device, scalar) for scalar in scalars)
        return StepTensors(_learning_rate(group["lr"]), found_inf, grad_scale, clip_coef)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch.optim's returned.

        Source: ``torch.optim.Optimizer.load_state_dict``, which casts the state to the type of its parameter. Here it
        goes to ``state_dtype``, where one was chosen, from the type it was saved in; a warning says so where the two
        differ.
        """
        loaded: list[dict[str, Any]] = []
        converted: set[torch.dtype] = set()
        # The last hook before loading sees what others made of the state, the first one after it comes before theirs.
        hooks = (
            self.register_load_state_dict_pre_hook(lambda _, made: loaded.append(made)),
            self.register_load_state_dict_post_hook(
                lambda _: converted.update(self._take_saved_types(loaded[0])), prepend=True
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

    def _take_saved_types(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Take the averages from the types they were saved in, and return those that are not kept."""
        converted: set[torch.dtype] = set()
        if self.state_dtype is None:
            return converted
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._lists = None
        super().__setstate__(state)


def _on(device: torch.device, tensor: Tensor | None) -> Tensor | None:
    return tensor if tensor is None or tensor.device == device else tensor.to(device, non_blocking=True)


def _learning_rate(lr: float | Tensor) -> Tensor:
    if isinstance(lr, Tensor):
        return lr.detach()
    return torch.tensor(number("lr", lr), dtype=torch.float64, device="cpu")
