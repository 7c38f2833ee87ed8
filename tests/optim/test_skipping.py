"""A step unscales and clips as told, in registers, and one that found_inf skips leaves no trace in training."""

import pytest
from torch import Tensor

from tests.optimizers import KINDS, OURS, PATHS, SHAPES, make, parameters, same_bits, set_grads, step, tensors

EACH = pytest.mark.parametrize("kind", KINDS)
EACH_PATH = pytest.mark.parametrize("path", PATHS)


@EACH_PATH
@EACH
def test_training_with_skipped_steps_is_that_without_them(kind: str, path: str) -> None:
    """No bit differs, also where the first step is skipped."""
    skipping, straight = parameters(*SHAPES), parameters(*SHAPES)
    ours, wanted = make(OURS, kind, skipping), make(OURS, kind, straight)
    with PATHS[path]():
        for number, skip in enumerate([True, True, False, True, False, None, False, None, True, False]):
            set_grads(skipping, number, factor=float("nan") if skip else 1.0)
            step(ours, **({} if skip is None else {"found_inf": float(skip)}))
            if not skip:
                set_grads(straight, number)
                step(wanted)
    assert all(map(same_bits, skipping, straight))
    assert ours.state_dict()["state"].keys() == wanted.state_dict()["state"].keys()


@EACH_PATH
@EACH
def test_gradients_are_unscaled_and_clipped_in_the_step(kind: str, path: str) -> None:
    """With powers of two, no bit differs from gradients that were multiplied before."""
    plain, scaled = parameters(*SHAPES), parameters(*SHAPES)
    wanted, ours = make(OURS, kind, plain), make(OURS, kind, scaled)
    with PATHS[path]():
        for number, scalars in enumerate(
            [{"grad_scale": 1024.0}, {"clip_coef": 0.25}, {"grad_scale": 64.0, "clip_coef": 0.5, "found_inf": 0.0}, {}]
        ):
            set_grads(plain, number)
            set_grads(scaled, number, scalars.get("grad_scale", 1) / scalars.get("clip_coef", 1))
            given = [param.grad.clone() for param in scaled if param.grad is not None]
            step(wanted)
            step(ours, **scalars)
            for param, grad in zip(scaled, given, strict=True):
                assert isinstance(param.grad, Tensor)
                assert same_bits(param.grad, grad)
    assert all(map(same_bits, plain, scaled))


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
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()  # type: ignore[no-untyped-call]
    assert all(tensor._version > 0 for tensor in tensors(optimizer))
