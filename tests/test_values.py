"""Real values, on the devices that are here: an op in a region equals the op called by hand on inputs cast by hand.

The test names no operator; tests/samples/ops.py holds arguments for each.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from polycast import _compiled

from tests.cases import CASES, Case
from tests.probe import HAS_XLA, NO_XLA, device_type, flatten, kernels_of, region
from tests.samples.ops import SAMPLES, WITHOUT_CPU_KERNEL, WITHOUT_SAMPLE, Arguments, Make, arguments, find
from tests.test_policy_cases import expected

F32 = torch.float32
HERE = [case for case in CASES if device_type(case.device) in ("cpu", "xla") and case.category != "stock"]
# What a backend cannot run, in a region or out of it.
CANNOT_RUN = {
    ("xla", "named"): "torch_xla has no named tensors",
    ("xla", "conv_tbc"): "torch_xla returns the bias of conv_tbc, whatever the input",
}
# Outputs that are scratch memory, by op and position.
SCRATCH = {("mkldnn_rnn_layer", 3)}


@pytest.fixture(scope="module")
def column(request: pytest.FixtureRequest) -> Iterator[str]:
    """The column under test, its kernels installed."""
    name: str = request.param
    if device_type(name) == "xla" and not HAS_XLA:
        pytest.skip(NO_XLA)
    with kernels_of(name):
        yield name


def test_every_row_has_a_sample_or_a_reason() -> None:
    assert {case.name for case in CASES} <= SAMPLES.keys() | WITHOUT_SAMPLE.keys()


@pytest.mark.parametrize(
    ("column", "case"), [pytest.param(case.device, case, id=str(case)) for case in HERE], indirect=["column"]
)
def test_a_region_gives_what_casting_by_hand_gives(column: str, case: Case) -> None:
    skip_what_cannot_run(case)
    operator, below = find(case.name), find(case.reaches)
    assert operator is not None
    assert below is not None
    for lower in _compiled.DEVICES[column].lower_precision:
        for given in ([F32], [lower], [lower, F32]):
            sample = arguments(case.name, Make(device_type(column), *given))
            with region(column, lower):
                result = outcome(operator, sample)
            if case.category == "banned":
                assert isinstance(result, str)
                assert "unsafe to autocast" in result
                continue
            wanted = outcome(below, cast_by_hand(case, sample, lower))
            for index in range(max(len(result), len(wanted))):
                if isinstance(result, str) or isinstance(wanted, str):
                    assert result == wanted  # what the op refuses by hand, it refuses in a region
                elif (case.op, index) not in SCRATCH:
                    # Exact in a lower precision; in float32 a LAPACK routine can differ in the last bit between calls.
                    torch.testing.assert_close(result[index], wanted[index], rtol=1e-6, atol=1e-6, equal_nan=True)


def outcome(operator: Callable[..., Any], sample: Arguments) -> list[torch.Tensor] | str:
    """Return the tensors that a call gives, on the host and without names, or the text of the error that it raises."""
    try:
        with torch.no_grad():
            tensors = [tensor.cpu() for tensor in flatten(operator(*sample.args, **sample.kwargs))]
            return [_nameless(tensor) for tensor in tensors]
    except RuntimeError as error:
        return str(error).splitlines()[0]


def _nameless(tensor: Any) -> torch.Tensor:
    # Newer releases of torch have no named tensors.
    return tensor.rename(None) if getattr(tensor, "has_names", bool)() else tensor  # type: ignore[no-any-return]


def cast_by_hand(case: Case, sample: Arguments, lower: torch.dtype) -> Arguments:
    """Return the arguments as the sentence of the category says that the op gets them."""
    if case.category in ("fp32_set_opt_dtype", "fp32_append_dtype"):
        return Arguments(sample.args, {**sample.kwargs, "dtype": F32})
    tensors = list(flatten((tuple(sample.args), tuple(sample.kwargs.values()))))
    types = iter(expected(case.category, [tensor.dtype for tensor in tensors], lower))

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(next(types))
        return type(value)(map(cast, value)) if isinstance(value, (list, tuple)) else value

    args = [cast(value) for value in sample.args]
    return Arguments(args, {name: cast(value) for name, value in sample.kwargs.items()})


def skip_what_cannot_run(case: Case) -> None:
    kind = device_type(case.device)
    if case.name in WITHOUT_SAMPLE:
        pytest.skip(f"{case.name} {WITHOUT_SAMPLE[case.name]}")
    if case.name in WITHOUT_CPU_KERNEL:
        pytest.skip(f"{case.name} runs on a GPU only")
    reason = CANNOT_RUN.get((kind, "named" if "name" in case.overload.lower() else case.op))
    if reason:
        pytest.skip(reason)
