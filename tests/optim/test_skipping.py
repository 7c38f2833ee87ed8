"""A step that found_inf skips changes nothing but versions; a step unscales and clips as told."""

import pytest
import torch
from torch import Tensor

from tests.optimizers import KINDS, OURS, PATHS, THEIRS, clones, make, parameters, same_bits, set_grads, step, tensors

SHAPES = ((7,), (3, 5), ())
VALUES = pytest.mark.parametrize("found_inf", [1.0, -2.0, float("inf"), float("nan")])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_skipped_step_changes_no_bit(kind: str, path: str) -> None:
    params = parameters(*SHAPES)
    optimizer = make(OURS, kind, params)
    with PATHS[path]():
        for number in range(2):
            set_grads(params, number)
            step(optimizer)
        for found_inf in (1.0, float("inf"), float("nan")):
            set_grads(params, 9, factor=float("nan"))
            written = tensors(optimizer)
            before = [(tensor.detach().clone(), tensor._version) for tensor in written]
            step(optimizer, found_inf=found_inf, grad_scale=0.5)
            assert len(written) == len(tensors(optimizer)) == len(before)
            for tensor, (value, version) in zip(tensors(optimizer), before, strict=True):
                assert same_bits(tensor, value)
                assert tensor._version > version


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_skips_leave_no_trace(kind: str, path: str) -> None:
    """Steps with some skipped, the first one too, are those steps without the skipped ones."""
    skipping, straight = parameters(*SHAPES), parameters(*SHAPES)
    ours, wanted = make(OURS, kind, skipping), make(OURS, kind, straight)
    with PATHS[path]():
        for number, skip in enumerate([True, True, False, True, False, None, False, None, True, False]):
            set_grads(skipping, number)
            step(ours, **({} if skip is None else {"found_inf": float(skip)}))
            if not skip:
                set_grads(straight, number)
                step(wanted)
    for left, right in zip(tensors(ours), tensors(wanted), strict=True):
        if left.dim() or left.numel() > 1:
            assert same_bits(left, right)
    for left, right in zip(skipping, straight, strict=True):
        assert same_bits(left, right)
        assert ours.state_dict()["state"].keys() == wanted.state_dict()["state"].keys()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_skipped_first_step_comes_torchs_first_step(kind: str, path: str) -> None:
    params = parameters(*SHAPES)
    others = clones(params)
    ours, theirs = make(OURS, kind, params), make(THEIRS, kind, others)
    with PATHS[path]():
        set_grads(params, 0, factor=float("inf"))
        step(ours, found_inf=1.0)
        for number in range(3):
            set_grads(params, number)
            set_grads(others, number)
            step(ours, found_inf=0.0)
            theirs.step()
            torch.testing.assert_close(params, others, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_unscaled_and_clipped_in_the_step(kind: str, path: str) -> None:
    """With powers of two, no bit differs from gradients that were multiplied before."""
    plain, scaled = parameters(*SHAPES), parameters(*SHAPES)
    wanted, ours = make(OURS, kind, plain), make(OURS, kind, scaled)
    with PATHS[path]():
        for number, scalars in enumerate(
            [{"grad_scale": 1024.0}, {"clip_coef": 0.25}, {"grad_scale": 64.0, "clip_coef": 0.5, "found_inf": 0.0}, {}]
        ):
            factor = scalars.get("grad_scale", 1) / scalars.get("clip_coef", 1)
            set_grads(plain, number)
            set_grads(scaled, number, factor)
            given = [param.grad.clone() for param in scaled if param.grad is not None]
            step(wanted)
            step(ours, **scalars)
            for param, grad in zip(scaled, given, strict=True):
                assert isinstance(param.grad, Tensor)
                assert same_bits(param.grad, grad)
    for left, right in zip(plain, scaled, strict=True):
        assert same_bits(left, right)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_saved_for_backward_and_then_stepped(kind: str, path: str) -> None:
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
