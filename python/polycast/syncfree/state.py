"""The state of the optimizers: its dtypes, and loading checkpoints, ours and torch.optim's."""

import warnings
from collections.abc import Iterable
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor

from polycast.syncfree.arguments import check_mapping, refuse_differentiable
from polycast.syncfree.sharding import placed_like


class StatefulOptimizer(torch.optim.Optimizer):
    """A base class of SGD, Adam and AdamW, which keeps and loads state."""

    #: The names of a parameter's state that have the sizes of the parameter.
    _average_names: ClassVar[tuple[str, ...]]

    state_dtype: torch.dtype | None

    def _new_state(self, param: Tensor) -> Tensor:
        return torch.zeros_like(param, dtype=self._kept_dtype(param), memory_format=torch.preserve_format)

    def _kept_dtype(self, param: Tensor) -> torch.dtype:
        dtype = self.state_dtype
        if dtype is torch.bfloat16 and param.is_complex():
            return torch.complex64  # torch's own answer until 2.15, whose complex dtype of bfloat16 has hardly an op
        return param.dtype if dtype is None else dtype.to_complex() if param.is_complex() else dtype

    def _convert_state(self, param: Tensor) -> None:
        """Place the state of a parameter, which may come from a checkpoint, as the parameter is placed."""
        state = self.state[param]
        for name in self._average_names:
            if isinstance(state.get(name), Tensor):
                state[name] = placed_like(state[name], param)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch.optim's returned.

        Source: ``torch.optim.Optimizer.load_state_dict``, which casts the state to the dtype of its parameter. Here it
        goes to ``state_dtype``, where one was chosen, from the dtype it was saved in; a warning says so where the two
        differ.

        Raises:
            ValueError: It is no state of an optimizer, or that of another one, whose groups lack numbers of this one.
            TypeError: It is no dictionary, or a group of it is ``differentiable``.

        Whatever is raised, nothing is loaded.
        """
        check_mapping(state_dict, f"{type(self).__name__}.state_dict()")
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
        name = type(self).__name__
        lacking = [key for key in ("state", "param_groups") if key not in state_dict]
        if lacking:
            raise ValueError(
                f"the state is not that of an optimizer: it has {_listed(state_dict)}, and no {', '.join(lacking)}; "
                f"load what {name}.state_dict() returned"
            )
        wanted = [key for key, value in self.defaults.items() if not isinstance(value, (bool, type(None)))]
        for number, group in enumerate(state_dict["param_groups"]):
            missing = [key for key in wanted if key not in group]
            if missing:
                raise ValueError(
                    f"the state is not that of an optimizer such as {name}: its parameter group {number} has "
                    f"{_listed(group.keys() - {'params'})}, and no {', '.join(missing)}; load what {name}.state_dict() "
                    "returned"
                )
            refuse_differentiable(name, group, f" of parameter group {number} of the state")
        return state_dict

    def _take_state(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Keep what was loaded; return the dtypes of averages that are converted to another."""
        converted = set() if self.state_dtype is None else self._take_saved_dtypes(state_dict)
        for param in self.state:
            if isinstance(param, Tensor):
                self._convert_state(param)
        return converted

    def _take_saved_dtypes(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Take the averages from the dtypes they were saved in, and return those that are not kept."""
        converted: set[torch.dtype] = set()
        saved_ids = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for saved_id, param in zip(saved_ids, params, strict=True):
            for name, value in state_dict["state"].get(saved_id, {}).items():
                if name in self._average_names and isinstance(value, Tensor):
                    kept = self._kept_dtype(param)
                    self.state[param][name] = value.to(param.device, kept, copy=True)
                    converted |= {value.dtype} - {kept}
        return converted

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "state_dtype": self.state_dtype}


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, keys))) or "nothing"
