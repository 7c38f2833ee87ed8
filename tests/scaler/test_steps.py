"""A gradient scaler's calls of optimizer steps, and its records of optimizers and gradients."""

import gc
import weakref
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree

from tests.scaler.common import INF, LOOKS, NAN, OPTIMIZERS, SCALE, SHAPES, Loop, give, started
from tests.support.devices import Reads
from tests.support.optimizers import PATHS, Kernels, clones, parameters, same_bits, set_grads


@pytest.mark.parametrize(
    ("kind", "look", "named"),
    [
        ("sync-free", "step", False),
        ("sync-free", "unscale_", True),
        ("sync-free", "clip_grad_norm", True),
        ("fused", "step", True),
        ("for-loop", "clip_grad_norm", True),
    ],
)
def test_parameters_with_non_finite_gradients_are_named(kind: str, look: str, named: bool) -> None:
    params = parameters((2,), (3,), (), (2, 2))
    names = [f"param_groups[{group}]['params'][{index}]" for group in range(2) for index in range(2)]
    if named:
        names = ["body.weight", "body.bias", "head.weight", "head.bias"]
    given: list[Any] = list(zip(names, params, strict=True)) if named else params
    optimizer = OPTIMIZERS[kind]([{"params": given[:2]}, {"params": given[2:], "lr": 0.1}])
    scaler = started()
    assert scaler.non_finite(optimizer) == []
    for bad in ([1, 3], [0], [], [0, 1, 2, 3]):
        set_grads(params, 0, SCALE)
        for index in bad:
            params[index].grad = torch.full_like(params[index], (INF, NAN)[index % 2])
        if 2 not in bad:
            params[2].grad = None
        LOOKS[look](scaler, optimizer)
        for done in (lambda: scaler.step(optimizer), scaler.update, optimizer.zero_grad):
            done()  # The names remain until the next check of the gradients.
            assert scaler.non_finite(optimizer) == [names[index] for index in bad]


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_trainer_can_check_whether_step_was_called(kind: str, on_host: bool) -> None:
    """With ``skip_on_host`` or a for-loop step, the scaler syncs once and does not call a skipped step."""
    params, calls = parameters(*SHAPES), list[tuple[int, int]]()
    scaler, optimizer = started(skip_on_host=on_host), OPTIMIZERS[kind](params)
    optimizer.register_step_pre_hook(lambda *_: calls.append((number, len(reads.ops))))
    for number, bad in enumerate([None, INF, None, NAN]):
        give(params, number, bad)
        before = clones(params)
        with Reads("cpu") as reads:
            assert scaler.step(optimizer) is None
        scaler.update()
        assert all(map(same_bits, params, before)) is (bad is not None)
    assert scaler.skip_count(optimizer).item() == 2
    assert calls == ([(0, 1), (2, 1)] if on_host or kind == "for-loop" else [(0, 0), (1, 0), (2, 0), (3, 0)])


@pytest.mark.parametrize("kind", ["sync-free", "fused"])
def test_the_step_after_one_that_raised_checks_its_own_gradients(kind: str) -> None:
    (param,) = parameters((3,))
    scaler, optimizer, before = started(), OPTIMIZERS[kind]([param]), param.detach().clone()
    give([param], 0)
    optimizer.param_groups[0]["betas"] = None
    with pytest.raises(TypeError):
        scaler.step(optimizer)
    optimizer.param_groups[0]["betas"] = (0.9, 0.999)
    give([param], 0, INF)
    scaler.step(optimizer)
    assert same_bits(param, before)


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_an_optimizer_is_not_kept_alive_and_can_be_equal_to_others_and_unhashable(library: Any) -> None:
    """The scaler compares optimizers by identity. It returns the value of the optimizer's step."""

    class Equal(library.SGD):  # type: ignore[misc]
        def step(self, *args: Any, **kwargs: Any) -> float:
            super().step(*args, **kwargs)
            return 3.0

        def __eq__(self, _: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    pair = [parameters(*SHAPES, seed=seed) for seed in range(2)]
    optimizers = [Equal(params, lr=0.1) for params in pair]
    scaler = started()
    for optimizer, params, bad in zip(optimizers, pair, (INF, None), strict=True):
        give(params, 0, bad)
        assert scaler.step(optimizer) == (None if bad and library is torch.optim else 3.0)
    scaler.update()
    assert [scaler.step_was_skipped(each).item() for each in optimizers] == [True, False]
    left = weakref.ref(optimizers.pop())
    del optimizer
    gc.collect()
    assert left() is None
    assert [scaler.skip_count(each).item() for each in optimizers] == [1]


def test_an_object_with_an_optimizer_of_other_groups_is_not_its_wrapper() -> None:
    loop = Loop(started())
    holder: Any = deepcopy(loop.optimizer)
    holder.optimizer = loop.optimizer
    loop.iterate(INF)
    assert [loop.scaler.skip_count(each).item() for each in (loop.optimizer, holder)] == [1, 0]


def test_a_wrapper_that_forwards_all_attributes_clips() -> None:
    param = torch.zeros(1, requires_grad=True)
    param.grad = torch.tensor([10 * SCALE])
    optimizer, scaler = syncfree.SGD([param], lr=1.0), started()
    names = {"optimizer": optimizer, "__getattr__": lambda _, name: getattr(optimizer, name)}
    wrapper: Any = type("Forwarding", (), names)()
    scaler.clip_grad_norm(wrapper, 1.0)
    scaler.step(wrapper)
    assert param.item() == pytest.approx(-1)


def test_an_object_whose_class_has_no_weak_references_steps() -> None:
    loop = Loop(started(), lr=1.0)
    slotted: Any = type("Slotted", (), {"__slots__": ("param_groups", "step")})()
    slotted.param_groups, slotted.step = loop.optimizer.param_groups, loop.optimizer.step
    loop.optimizer = slotted
    assert [loop.iterate(INF), loop.iterate(SCALE / 2)] == [SCALE / 2, SCALE / 2]
    assert (loop.scaler.skip_count(slotted).item(), loop.param.item()) == (1, 0)


@pytest.mark.parametrize("unscales", [False, True])
def test_an_optimizer_with_parameters_on_two_devices_gets_one_flag(unscales: bool, real_device: str) -> None:
    """The flag is 1, because PyTorch's fused kernels skip only for 1. PyTorch's scaler adds the flags of devices."""
    params = [torch.ones(1, device=device, requires_grad=True) for device in ("cpu", real_device)]
    for param in params:
        param.grad = torch.full_like(param, INF)
    optimizer: Any = torch.optim.SGD(params)
    optimizer._step_supports_amp_scaling = True
    optimizer.step = lambda: optimizer.found_inf.item()
    scaler = polycast.GradScaler()
    scaler.scale(torch.ones(1, device=real_device))
    if unscales:
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == 1


CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "another gradient": lambda _, params: setattr(params[0], "grad", torch.full_like(params[0], 7.0)),
    "no gradient": lambda _, params: setattr(params[1], "grad", None),
    "a first gradient": lambda _, params: setattr(params[2], "grad", torch.ones_like(params[2])),
    "other values": lambda _, params: params[0].grad.mul_(2),
    "another group": lambda it, params: it.add_param_group({"params": [params[3]]}),
    "another parameter": lambda it, params: it.param_groups[0]["params"].__setitem__(0, params[3]),
}


@pytest.mark.parametrize("title", CHANGES)
def test_a_change_between_check_and_step_takes_effect(title: str) -> None:
    """The step uses the current gradients, not the gradients that were checked."""
    stepped = []
    for look in (True, False):
        params = parameters((3,), (2, 2), (2,), (4,))
        optimizer, scaler = syncfree.SGD(params[:3], lr=0.1, momentum=0.9), started()
        set_grads([*params[:2], params[3]], 0)
        if look:
            scaler.clip_grad_norm(optimizer, float("inf"))
        CHANGES[title](optimizer, params)
        if look:
            scaler.step(optimizer)
        else:
            optimizer.step(grad_scale=torch.tensor(scaler.get_scale()))
        stepped.append(params)
    assert all(map(same_bits, *stepped))


def failed(scaler: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["weight_decay"] = "much"
    with pytest.raises(RuntimeError, match="weight_decay"):
        scaler.step(optimizer)


# Each function uses a gradient. Some functions also call `zero_grad` within the step.
USES: dict[str, Callable[[Any, Any], object]] = {
    "dropped": lambda scaler, it: (scaler.unscale_(it), scaler.update()),
    "clipped": lambda scaler, it: (scaler.clip_grad_norm(it, 1.0), scaler.step(it)),
    "failed": failed,
    "freed within a closure": lambda scaler, it: scaler.step(it, it.zero_grad),
    "freed within a hook": lambda scaler, it: (
        it.register_step_post_hook(lambda optimizer, *_: optimizer.zero_grad()),
        scaler.step(it),
    ),
}


@pytest.mark.parametrize(
    ("use", "library"),
    [*((use, syncfree) for use in USES), ("clipped", torch.optim), ("freed within a closure", torch.optim)],
)
def test_gradients_are_not_kept_alive(use: str, library: Any) -> None:
    """``zero_grad`` frees a gradient that the scaler has checked, as with PyTorch's scaler."""
    (weight,) = parameters((3,))
    optimizer, scaler = library.SGD([weight], lr=0.1), started()
    set_grads([weight], 0)
    kept = weakref.ref(weight.grad)
    USES[use](scaler, optimizer)
    if "within" not in use:
        optimizer.zero_grad()
    assert weight.grad is None
    assert kept() is None


def test_the_rules_of_a_region_do_not_apply_to_the_arithmetic_of_a_step(kernels: Kernels) -> None:
    names = "div", "sub", "mul", "add", "reciprocal", "clamp_max", "linalg_vector_norm"
    results = []
    for policy in (None, dict.fromkeys(names, "bf16")):
        params, scaler = parameters(*SHAPES, device=kernels.device), polycast.GradScaler(kernels.device)
        optimizer = syncfree.SGD(params, lr=1e3)
        scaler.scale(torch.ones(1, device=kernels.device))
        give(params, 0)
        with polycast.install(kernels.device), polycast.autocast(kernels.device, torch.bfloat16, policy=policy):
            scaler.clip_grad_norm(optimizer, 0.0007)
            scaler.step(optimizer)
            scaler.update()
        results.append(clones(params))
    assert all(map(same_bits, *results))


def test_a_fused_step_of_pytorch_unscales_a_gradient_whose_layout_differs_only_in_dimensions_of_size_one() -> None:
    param = torch.ones(4, 2, 1, 1, requires_grad=True)
    param.grad = torch.full((4, 2, 1, 1), SCALE).to(memory_format=torch.channels_last)
    optimizer, scaler = syncfree.AdamW([param]), started()
    with PATHS["composition"]():
        scaler.step(optimizer)
    assert param.grad.flatten().tolist() == [1.0] * 8
