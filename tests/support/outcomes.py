"""What a backend cannot run of the samples, what it gives of the others, and how tests of bits have memory filled."""

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
from polycast.backends import device_type_of
from polycast.debug.verification.outcomes import (
    Result,
    cast_by_hand,
    first_line,
    flatten,
    nameless,
    outcome,
    replaced,
    tensors,
)
from polycast.debug.verification.samples import WITHOUT_CPU_KERNEL, WITHOUT_SAMPLE, Arguments, find

from tests.support.backend import NAME
from tests.support.cases import Case
from tests.support.probe import region_with_gradients

# What a backend cannot run, in a region or out of it.
CANNOT_RUN = {
    ("xla", "named"): "torch_xla has no named tensors",
    ("xla", "conv_tbc"): "torch_xla returns the bias of conv_tbc, whatever the input",
    (NAME, "named"): "the fallback to the host takes no named tensors",
}
# For tests that compare bits on the host: linalg_lstsq has LAPACK read pivots that nobody wrote, so its results depend
# on what was there. Where torch is asked for determinism it fills new memory, and warns of ops that keep none of it.
filled_memory = [
    pytest.mark.usefixtures("fill_memory"),
    pytest.mark.filterwarnings("ignore:.* does not have a deterministic implementation:UserWarning"),
]


def cannot_run(case: Case) -> str | None:
    """Return why no machine like this one can run a case, if so."""
    if case.name in WITHOUT_SAMPLE:
        return f"{case.name} {WITHOUT_SAMPLE[case.name]}"
    if case.name in WITHOUT_CPU_KERNEL:
        return f"{case.name} runs on a GPU only"
    return CANNOT_RUN.get((device_type_of(case.device), "named" if "name" in case.overload.lower() else case.op))


def on_casts(case: Case, lower: torch.dtype) -> Callable[..., Any]:
    """Return a case's op as it is outside of a region, for inputs cast as the sentence of the category says."""
    below = find(case.reaches)
    assert below is not None

    def call(*args: Any, **kwargs: Any) -> Any:
        sample = cast_by_hand(case.category, Arguments(args, kwargs), lower)
        return below(*sample.args, **sample.kwargs)

    return call


def autocast(operator: Callable[..., Any], device: str, lower: torch.dtype) -> Callable[..., Any]:
    """Return the operator as it is in a region."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with region_with_gradients(device, lower):
            return operator(*args, **kwargs)

    return call


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
        return first_line(error)
    return [nameless(leaf.grad.cpu()) for leaf in leaves if leaf.grad is not None]


def _uneven(output: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape)
    return weights.to(output.dtype).to(output.device)


def results(operator: Callable[..., Any], sample: Arguments) -> list[Result]:
    """Return the values of a call, and its gradients; those of each input alone if an input has no derivative."""
    values, together = outcome(operator, sample), gradients(operator, sample)
    if not isinstance(together, str):
        return [values, together]
    return [values, *(gradients(operator, sample, [index]) for index, _ in enumerate(tensors(sample)))]
