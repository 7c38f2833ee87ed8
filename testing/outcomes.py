"""What a sample gives, its gradients, the same sample cast by hand, and what a backend cannot run."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
import torch
from polycast.backends import device_type_of

from testing.cases import Case, expected
from testing.probe import flatten, region
from testing.samples.ops import WITHOUT_CPU_KERNEL, WITHOUT_SAMPLE, Arguments

# What a backend cannot run, in a region or out of it.
CANNOT_RUN = {
    ("xla", "named"): "torch_xla has no named tensors",
    ("xla", "conv_tbc"): "torch_xla returns the bias of conv_tbc, whatever the input",
}
# For tests that compare bits on the host: linalg_lstsq has LAPACK read pivots that nobody wrote, so its results depend
# on what was there. Where torch is asked for determinism it fills new memory, and warns of ops that keep none of it.
filled_memory = [
    pytest.mark.usefixtures("fill_memory"),
    pytest.mark.filterwarnings("ignore:.* does not have a deterministic implementation:UserWarning"),
]
Result = list[torch.Tensor] | str


def autocast(operator: Callable[..., Any], device: str, lower: torch.dtype) -> Callable[..., Any]:
    """Return the operator as it is in a region, gradients or not as outside of it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = torch.is_grad_enabled()
        with region(device, lower), torch.set_grad_enabled(recording):
            return operator(*args, **kwargs)

    return call


def outcome(operator: Callable[..., Any], sample: Arguments) -> Result:
    """Return the tensors that a call gives, on the host and without names, or the text of the error that it raises."""
    try:
        with torch.no_grad():
            tensors = [tensor.cpu() for tensor in flatten(operator(*sample.args, **sample.kwargs))]
            return [nameless(tensor) for tensor in tensors]
    except RuntimeError as error:
        return str(error).splitlines()[0]


def gradients(operator: Callable[..., Any], sample: Arguments, only: Collection[int] | None = None) -> Result:
    """Return the gradients of the floating inputs, or of those numbered, on the host, or the text of the error.

    The outputs are weighted unevenly, so that no gradient cancels. An input that no output depends on has none.
    """
    inputs = [tensor.detach() for tensor in tensors(sample)]
    leaves = [
        tensor.requires_grad_()
        for index, tensor in enumerate(inputs)
        if tensor.is_floating_point() and (only is None or index in only)
    ]
    fresh = iter(inputs)
    call = replaced(sample, lambda _: next(fresh))
    try:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            outputs = [nameless(output) for output in flatten(operator(*call.args, **call.kwargs))]
        smooth = [output for output in outputs if output.requires_grad]
        torch.autograd.backward(smooth, [_uneven(output) for output in smooth])
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return [nameless(leaf.grad.cpu()) for leaf in leaves if leaf.grad is not None]


def _uneven(output: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape)
    return weights.to(output.dtype).to(output.device)


def nameless(tensor: Any) -> torch.Tensor:
    # Newer releases of torch have no named tensors.
    return tensor.rename(None) if getattr(tensor, "has_names", bool)() else tensor  # type: ignore[no-any-return]


def cast_by_hand(case: Case, sample: Arguments, lower: torch.dtype) -> Arguments:
    """Return the arguments as the sentence of the category says that the op gets them."""
    if case.category in ("fp32_set_opt_dtype", "fp32_append_dtype"):
        return Arguments(sample.args, {**sample.kwargs, "dtype": torch.float32})
    dtypes = iter(expected(case.category, [tensor.dtype for tensor in tensors(sample)], lower))
    return replaced(sample, lambda tensor: tensor.to(next(dtypes)))


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


def cannot_run(case: Case) -> str | None:
    """Return why no machine like this one can run a case, if so."""
    if case.name in WITHOUT_SAMPLE:
        return f"{case.name} {WITHOUT_SAMPLE[case.name]}"
    if case.name in WITHOUT_CPU_KERNEL:
        return f"{case.name} runs on a GPU only"
    return CANNOT_RUN.get((device_type_of(case.device), "named" if "name" in case.overload.lower() else case.op))
