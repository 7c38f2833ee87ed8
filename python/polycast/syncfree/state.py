"""The state of the optimizers: its dtypes, and checkpoints of polycast and of torch.optim."""

import warnings
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor

from polycast import devices
from polycast._dtypes import dtype_of
from polycast.syncfree.tensor_lists import Group

_STATE_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class StatefulOptimizer(torch.optim.Optimizer):
    """The base class of SGD, Adam and AdamW that creates and loads their state."""

    #: The names of the state that has the shape of its parameter, and of all state without which PyTorch fails.
    _average_names: ClassVar[tuple[str, ...]]
    _required_names: ClassVar[tuple[str, ...]] = ()

    state_dtype: torch.dtype | None

    def _set_state_dtype(self, dtype: torch.dtype | str | None) -> None:
        """Check and store the argument ``state_dtype``."""
        self.state_dtype = found = None if dtype is None else dtype_of(dtype, "state_dtype")
        if found is not None and found not in _STATE_DTYPES:
            raise TypeError(
                f"state_dtype: expected one of {', '.join(map(str, _STATE_DTYPES))}, or None for the dtype of each "
                f"parameter, got {found}"
            )

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        """Return the names of a parameter's state in the order of the operator's lists. None is an empty list."""
        raise NotImplementedError

    def _init_state(self, param: Tensor, group: Group) -> None:
        """Create the missing state of a parameter: all of it, or none if memory runs out."""
        state = self.state[param]
        names = [name for name in self._state_names(group) if name and name not in state]
        state.update({name: self._new_state(param, name) for name in names})

    def _new_state(self, param: Tensor, name: str) -> Tensor:
        if name in self._average_names:
            return torch.zeros_like(param, dtype=self._kept_dtype(param), memory_format=torch.preserve_format)
        return torch.zeros((), dtype=torch.float32, device=_place_of_step(param))

    def _kept_dtype(self, param: Tensor) -> torch.dtype:
        dtype = self.state_dtype
        if dtype is torch.bfloat16 and param.is_complex():
            return torch.complex64  # PyTorch's choice until 2.15, which has a complex bfloat16 with few ops
        return param.dtype if dtype is None else dtype.to_complex() if param.is_complex() else dtype

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that ``state_dict`` of this class or of the class in torch.optim returned.

        Source: ``torch.optim.Optimizer.load_state_dict``, which casts the state to the dtype of its parameter. If
        ``state_dtype`` was given, this method casts the state from its saved dtype to ``state_dtype`` instead, and
        warns if the two differ. If an error is raised, nothing is loaded.

        Raises:
            ValueError: If the state belongs to another kind of optimizer and lacks values.
            KeyError, AttributeError: As in torch.optim, if it is not the state of an optimizer.
        """
        loaded: list[dict[str, Any]] = []
        converted: set[torch.dtype] = set()
        # The last hook before loading sees the changes of other hooks. The first one after it precedes the others.
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
        """Return a state, or raise a ValueError if it lacks values without which the step of torch.optim would fail.

        Flags can be missing, because older releases saved fewer. torch.optim sets them.
        """
        wanted = [key for key, value in self.defaults.items() if not isinstance(value, (bool, type(None)))]
        checks = [("parameter group", number, group, wanted) for number, group in enumerate(state_dict["param_groups"])]
        checks += [
            ("parameter", key, state_dict["state"][key], list(self._required_names))
            for group in state_dict["param_groups"]
            for key in group["params"]
            if state_dict["state"].get(key)
        ]
        for kind, key, values, names in checks:
            missing = [name for name in names if name not in values]
            if missing:
                raise ValueError(
                    f"state_dict: expected the state of {type(self).__name__}, got one without "
                    f"{', '.join(missing)} for {kind} {key}; load the state of the same kind of optimizer"
                )
        return state_dict

    def _take_state(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Store the loaded values in the dtypes of this optimizer, and return the dtypes that were converted."""
        converted: set[torch.dtype] = set()
        saved_ids = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for saved_id, param in zip(saved_ids, params, strict=True):
            state, kept = self.state.get(param, {}), self._kept_dtype(param)
            for name, value in state_dict["state"].get(saved_id, {}).items():
                if name == "step":
                    state[name] = torch.as_tensor(state[name], dtype=torch.float32, device=_place_of_step(param))
                elif name in self._average_names and value is None:
                    del state[name]  # a momentum buffer that no step has written
                elif name in self._average_names and self.state_dtype is not None:
                    state[name] = value.to(param.device, kept, copy=True)
                    converted |= {value.dtype} - {kept}
        return converted

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "state_dtype": self.state_dtype}


def _place_of_step(param: Tensor) -> torch.device:
    """Return the device of the step count: its parameter's, or the CPU if torch.optim reads it there."""
    return param.device if devices.facts_of(param.device.type).skips_by_itself else torch.device(devices.HOST)
