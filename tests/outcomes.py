"""What a sample gives, the same sample cast by hand, and what a backend cannot run."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.cases import Case, expected
from tests.probe import device_type, flatten
from tests.samples.ops import WITHOUT_CPU_KERNEL, WITHOUT_SAMPLE, Arguments

# What a backend cannot run, in a region or out of it.
CANNOT_RUN = {
    ("xla", "named"): "torch_xla has no named tensors",
    ("xla", "conv_tbc"): "torch_xla returns the bias of conv_tbc, whatever the input",
}
# Outputs that are scratch memory, by op and position.
SCRATCH = {("mkldnn_rnn_layer", 3)}
# For tests that compare bits on the host: linalg_lstsq has LAPACK read pivots that nobody wrote, so its results hang on
# what lay there. Where torch is asked for determinism it fills new memory, and warns of ops that keep none of it.
filled_memory = [
    pytest.mark.usefixtures("fill_memory"),
    pytest.mark.filterwarnings("ignore:.* does not have a deterministic implementation:UserWarning"),
]


def outcome(operator: Callable[..., Any], sample: Arguments) -> list[torch.Tensor] | str:
    """Return the tensors that a call gives, on the host and without names, or the text of the error that it raises."""
    try:
        with torch.no_grad():
            tensors = [tensor.cpu() for tensor in flatten(operator(*sample.args, **sample.kwargs))]
            return [nameless(tensor) for tensor in tensors]
    except RuntimeError as error:
        return str(error).splitlines()[0]


def nameless(tensor: Any) -> torch.Tensor:
    # Newer releases of torch have no named tensors.
    return tensor.rename(None) if getattr(tensor, "has_names", bool)() else tensor  # type: ignore[no-any-return]


def cast_by_hand(case: Case, sample: Arguments, lower: torch.dtype) -> Arguments:
    """Return the arguments as the sentence of the category says that the op gets them."""
    if case.category in ("fp32_set_opt_dtype", "fp32_append_dtype"):
        return Arguments(sample.args, {**sample.kwargs, "dtype": torch.float32})
    types = iter(expected(case.category, [tensor.dtype for tensor in tensors(sample)], lower))
    return replaced(sample, lambda tensor: tensor.to(next(types)))


def tensors(sample: Arguments) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments of a call."""
    yield from flatten((tuple(sample.args), tuple(sample.kwargs.values())))


def replaced(sample: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """Return the arguments with each tensor changed, in the order of `tensors`."""

    def walk(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return change(value)
        return type(value)(map(walk, value)) if isinstance(value, (list, tuple)) else value

    args = [walk(value) for value in sample.args]
    return Arguments(args, {name: walk(value) for name, value in sample.kwargs.items()})


def skip_what_cannot_run(case: Case) -> None:
    """Skip the test of a row that no machine like this one can run, with the reason."""
    kind = device_type(case.device)
    if case.name in WITHOUT_SAMPLE:
        pytest.skip(f"{case.name} {WITHOUT_SAMPLE[case.name]}")
    if case.name in WITHOUT_CPU_KERNEL:
        pytest.skip(f"{case.name} runs on a GPU only")
    reason = CANNOT_RUN.get((kind, "named" if "name" in case.overload.lower() else case.op))
    if reason:
        pytest.skip(reason)
