"""Steps, skips and changes between them in any order, against torch.optim in float64 and against ours without them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast.backends import skips_by_itself

from tests.optim.changes import compare
from tests.support.devices import has_float64
from tests.support.optimizers import OURS, SHAPES, Kernels, make, parameters, same_bits, set_grads, step, tensors
from tests.support.properties import examples


def test_programs_do_what_torch_optim_does(kernels: Kernels) -> None:
    """Their state goes to torch.optim on the host and comes back, too."""

    @given(data=st.data())
    @examples(8 if kernels.device == "xla" else 25, shrinks=kernels.device != "xla")
    def programs(data: st.DataObject) -> None:
        compare(data, kernels)

    programs()


@pytest.mark.parametrize(
    ("kind", "state_dtype"),
    [("SGD nesterov", None), ("SGD dampening", None), ("Adam amsgrad", torch.float64), ("AdamW", None)],
)
def test_training_with_skipped_steps_is_that_without_them(
    kind: str, state_dtype: torch.dtype | None, kernels: Kernels
) -> None:
    """No bit differs, also where the first step is skipped."""
    if state_dtype is torch.float64 and not has_float64(kernels.device):
        pytest.skip(f"{kernels} has no float64")
    skipping, straight = (parameters(*SHAPES, device=kernels.device) for _ in range(2))
    ours, wanted = (make(OURS, kind, params, state_dtype=state_dtype) for params in (skipping, straight))
    for number, skip in enumerate([True, True, False, True, False, None, False, None, True, False]):
        set_grads(skipping, number, factor=float("nan") if skip else 1.0)
        step(ours, **({} if skip is None else {"found_inf": float(skip)}))
        if not skip:
            set_grads(straight, number)
            step(wanted)
    assert all(map(same_bits, tensors(ours), tensors(wanted)))
    assert ours.state_dict()["state"].keys() == wanted.state_dict()["state"].keys()


@pytest.mark.parametrize("kind", ["SGD momentum", "SGD dampening", "AdamW"])
def test_a_weight_saved_for_backward_and_then_stepped_is_found(kind: str, kernels: Kernels) -> None:
    (weight,) = parameters((4,), device=kernels.device)
    optimizer = make(OURS, kind, [weight])
    for found_inf in (0.0, 1.0):
        set_grads([weight], 0)
        loss = (weight * weight).sum()
        step(optimizer, found_inf=found_inf)
        by_torch = kind == "SGD dampening" or kernels.path == "torch.optim" or not skips_by_itself(kernels.device)
        if found_inf and (by_torch or kernels == Kernels("cpu")):  # it is known there that nothing was written
            loss.backward()  # type: ignore[no-untyped-call]
            continue
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()  # type: ignore[no-untyped-call]
