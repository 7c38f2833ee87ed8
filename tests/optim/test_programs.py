"""Steps, skips and changes between them in any order, against torch.optim in float64 and against ours without them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import syncfree
from torch import nn

from testing.optimizers import KINDS, OURS, PATHS, SHAPES, THEIRS, make, parameters, same_bits, set_grads, step, tensors
from testing.probe import HAS_XLA, NO_XLA
from testing.properties import examples
from tests.optim.programs import compare

EACH = pytest.mark.parametrize("kind", KINDS)
EACH_PATH = pytest.mark.parametrize("path", PATHS)


@EACH_PATH
@given(data=st.data())
@examples(25)
def test_programs_do_what_torch_optim_does(path: str, data: st.DataObject) -> None:
    compare(data, path)


@pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
@given(data=st.data())
@examples(8)
def test_programs_on_xla_do_what_torch_optim_does(data: st.DataObject) -> None:
    """Their state goes to torch.optim on the host and comes back, too."""
    compare(data, "xla")


@EACH
def test_parameters_can_be_swapped_between_steps(kind: str) -> None:
    """Torch refuses to swap a tensor that anything else refers to."""
    param, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    optimizer = make(OURS, kind, [param])
    set_grads([param], 0)
    optimizer.step()
    torch.utils.swap_tensors(param, other)  # type: ignore[no-untyped-call]
    set_grads([param], 1)
    before = other.detach().clone()
    optimizer.step()
    assert torch.equal(other, before)
    assert (param != 1).all()


@pytest.mark.parametrize("state_dtype", [None, torch.float64])
@EACH_PATH
@EACH
def test_training_with_skipped_steps_is_that_without_them(
    kind: str, path: str, state_dtype: torch.dtype | None
) -> None:
    """No bit differs, also where the first step is skipped."""
    skipping, straight = parameters(*SHAPES), parameters(*SHAPES)
    ours, wanted = (make(OURS, kind, params, state_dtype=state_dtype) for params in (skipping, straight))
    with PATHS[path]():
        for number, skip in enumerate([True, True, False, True, False, None, False, None, True, False]):
            set_grads(skipping, number, factor=float("nan") if skip else 1.0)
            step(ours, **({} if skip is None else {"found_inf": float(skip)}))
            if not skip:
                set_grads(straight, number)
                step(wanted)
    assert all(map(same_bits, tensors(ours), tensors(wanted)))
    assert ours.state_dict()["state"].keys() == wanted.state_dict()["state"].keys()


@EACH_PATH
@EACH
def test_a_weight_saved_for_backward_and_then_stepped_is_found(kind: str, path: str) -> None:
    (weight,) = parameters((4,))
    optimizer = make(OURS, kind, [weight])
    for found_inf in (0.0, 1.0):
        set_grads([weight], 0)
        loss = (weight * weight).sum()
        with PATHS[path]():
            step(optimizer, found_inf=found_inf)
        if found_inf and path == "fused":  # on the host it is known that nothing was written
            loss.backward()  # type: ignore[no-untyped-call]
            continue
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("path", ["fused", "composition", "joined"])
def test_after_a_skipped_first_step_dampening_leaves_the_first_gradient_whole(path: str) -> None:
    """Also where it is switched on after the skip, when there was no need to know whether the buffer has started."""
    weights = []
    for library, skips in ((OURS, True), (THEIRS, False)):
        (weight,) = parameters((4,))
        optimizer = make(library, "SGD momentum", [weight])
        with PATHS[path]():
            if skips:
                set_grads([weight], 0)
                step(optimizer, found_inf=1.0)
            optimizer.param_groups[0]["dampening"] = 0.5
            for number in range(1, 3):
                set_grads([weight], number)
                step(optimizer)
        weights.append(weight)
    torch.testing.assert_close(*weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (24,), (2, 3, 4)], ids=str)
def test_a_buffer_that_no_step_has_written_is_known_in_every_type(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    weight = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
    optimizer = syncfree.SGD([weight], lr=1.0, momentum=0.5)
    weight.grad = torch.ones_like(weight)
    optimizer.step(found_inf=torch.ones(()))
    optimizer.param_groups[0]["dampening"] = 0.4
    optimizer.step()
    assert torch.equal(weight.detach(), -torch.ones_like(weight))
