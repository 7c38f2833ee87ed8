"""What a backend cannot run of the samples, their casts by hand, and how tests that compare bits have memory filled."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast.backends import device_type_of
from polycast.debug.verification.outcomes import cast_by_hand
from polycast.debug.verification.samples import WITHOUT_CPU_KERNEL, WITHOUT_SAMPLE, Arguments, find

from tests.support.backend import NAME
from tests.support.cases import Case

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
