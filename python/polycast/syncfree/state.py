"""The state of the optimizers: its dtypes, and loading checkpoints, ours and torch.optim's."""

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
    """A base class of SGD, Adam and AdamW, which makes, keeps and loads state."""

    #: The names of a parameter's state that have the sizes of the parameter, and of all without which torch fails.
    _average_names: ClassVar[tuple[str, ...]]
    _required_names: ClassVar[tuple[str, ...]] = ()

    state_dtype: torch.dtype | None

    def _set_state_dtype(self, dtype: torch.dtype | str | None) -> None:
        """Check and keep the argument ``state_dtype``."""
        self.state_dtype = found = None if dtype is None else dtype_of(dtype, "state_dtype")
        if found is not None and found not in _STATE_DTYPES:
            raise TypeError(
                f"the state_dtype is {found}; it takes {', '.join(map(str, _STATE_DTYPES))}, or None for that of each "
                "parameter"
            )

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        """Return the names of a parameter's state in the order of the operator's lists, None where it does without."""
        raise NotImplementedError

    def _init_state(self, param: Tensor, group: Group) -> None:
        """Give a parameter that has a gradient the state that it lacks: all of it, or none if memory runs out."""
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
            return torch.complex64  # torch's own answer until 2.15, whose complex dtype of bfloat16 has hardly an op
        return param.dtype if dtype is None else dtype.to_complex() if param.is_complex() else dtype

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch.optim's returned.

        Source: ``torch.optim.Optimizer.load_state_dict``, which casts the state to the dtype of its parameter. Here it
        goes to ``state_dtype``, where one was chosen, from the dtype it was saved in; a warning says so where the two
        differ.

        Raises:
            ValueError: If it is the state of another optimizer, whose groups or parameters lack values of this one.
            KeyError, AttributeError: As by torch.optim, if it is not the state of an optimizer.

        Whatever is raised, nothing is loaded.
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
        """Return a state, or raise a ValueError if it lacks values without which torch.optim's step would fail.

        Flags may be missing: older releases saved fewer, and torch.optim sets them.
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
                    f"state_dict: expected what {type(self).__name__}.state_dict() returned, got no "
                    f"{', '.join(missing)} for {kind} {key}; load the state of the same kind of optimizer"
                )
        return state_dict

    def _take_state(self, state_dict: dict[str, Any]) -> set[torch.dtype]:
        """Keep what was loaded, in the dtypes of this optimizer; return those of averages that are converted."""
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
    """Return where the count of steps is: with its parameter, or on the CPU, where torch.optim reads it."""
    return param.device if devices.facts_of(param.device.type).skips_by_itself else torch.device(devices.HOST)
