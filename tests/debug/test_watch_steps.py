"""Findings of ``watch`` in the steps of optimizers, and in other code that writes to tensors."""

import gc
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress

import polycast
import pytest
import torch
from polycast._extension import held_count
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.scaler.common import Wrapper

F16 = torch.float16


def overflow(model: nn.Module) -> Tensor:
    """Return a loss whose last product overflows in float16."""
    with polycast.autocast("cpu", F16):
        loss: Tensor = ((model(torch.ones(2, 4)) + 300) * 300).float().mean()
        return loss


@pytest.mark.parametrize(("obeys", "order"), [(True, 1), (True, -1), (False, 1), (False, -1)])
def test_overflow_that_skips_one_of_two_optimizers_is_a_finding_only_if_weights_become_non_finite(
    obeys: bool, order: int
) -> None:
    model = nn.Sequential(nn.Embedding(4, 4, sparse=True), nn.Linear(4, 4))
    nn.init.constant_(model[0].weight, 100.0)  # type: ignore[arg-type]
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
    scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=1024.0)
    with polycast.debug.watch(model) as found:
        with polycast.autocast("cpu", F16):
            loss = model(torch.tensor([1, 2])).float().sum()
        scaler.scale(loss).backward()
        for optimizer in optimizers[::order]:
            scaler.unscale_(optimizer)
            scaler.step(optimizer) if obeys else optimizer.step()
        scaler.update()
    assert bool(found.findings) == (not obeys)
    assert all(bool(weight.isfinite().all()) for weight in model.parameters()) == obeys


def test_an_infinity_that_only_a_view_reads_is_a_finding() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Flatten(0))
    with polycast.debug.watch(model) as found, torch.no_grad(), polycast.autocast("cpu", F16):
        model(torch.full((1, 4), 1e6))
    assert [finding.op for finding in found.findings] == ["linear"]


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_dropout_and_checkpoints_leave_the_advice_as_it_is(reentrant: bool | None) -> None:
    layer = nn.Linear(4, 4)
    nn.init.constant_(layer.weight, 1.0)
    model = nn.Sequential(layer, nn.Dropout(0.5))
    for seed in range(5):
        torch.manual_seed(seed)
        with polycast.debug.watch(model) as found:
            x = torch.full((8, 4), 500.0, requires_grad=True)
            with polycast.autocast("cpu", F16):
                y = model(x) if reentrant is None else checkpoint(model, x, use_reentrant=reentrant)
                y = y * 2 * 2**7
            y.float().sum().backward()
        assert "tried, and finite" in found.findings[0].remedy and found.findings[0].op == "mul"


def test_a_checkpoint_that_a_thread_of_autograd_reruns_has_its_own_gradients(real_device: str) -> None:
    if real_device == "xla":
        pytest.skip("torch_xla has its own checkpoint, and no float16")
    layers = [nn.Linear(4, 4, bias=False) for _ in range(8)]
    for layer in layers:
        nn.init.eye_(layer.weight)
    nn.init.constant_(layers[2].weight, 3.0)
    model = nn.Sequential(layers[0], inner := nn.Sequential(*layers[1:7]), layers[7]).to(real_device)
    with polycast.debug.watch(model) as found:
        with polycast.autocast(real_device, F16):
            x = layers[0](torch.full((1, 4), 1e-3, device=real_device))
            y = layers[7](checkpoint(inner, x, use_reentrant=False))
        (y.float() * 3e4).sum().backward()
    assert found.findings[0].shows.module == "1.1"


def test_advice_that_repeated_calls_cannot_confirm_is_not_given() -> None:
    model = nn.Linear(4, 4, bias=False)
    nn.init.eye_(model.weight)
    with polycast.debug.watch(model) as found:
        with polycast.autocast("cpu", F16):
            y = model(torch.ones(2, 4)) * 3
            y.register_hook(lambda gradient: gradient * 6000)
            y = y * 1
        (y.float() * 10).sum().backward()
    assert found.findings and "tried, and finite" not in found.findings[0].remedy


def test_a_non_finite_write_has_advice_for_writes() -> None:
    model, average = nn.Linear(2, 2).half(), torch.full((2, 2), 6e4).half()
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-8)  # This `eps` underflows to zero in float16.
    with polycast.debug.watch(model, optimizer) as stepped:
        (model(torch.zeros(1, 2).half()).float().sum() * 0).backward()
        optimizer.step()
    with polycast.debug.watch(nn.Linear(2, 2)) as wrote:
        average.mul_(2)
    (step,), (write,) = stepped.findings, wrote.findings
    assert (step.op, write.op) == ("addcdiv_", "mul_")
    assert "the optimizer computes it: check eps" in step.remedy
    assert "it overwrote a tensor in float16" in write.remedy


def test_a_manual_step_counts_as_a_step_and_nans_in_returned_gradients_are_found() -> None:
    model = nn.Linear(2, 2)
    with polycast.debug.watch(model) as found:
        for number in (1.0, 0.0):
            with polycast.autocast("cpu", F16):
                loss = (model(torch.ones(1, 2)) * number).float().square().sum().sqrt()
            gradients = torch.autograd.grad(loss, [*model.parameters()])
            with torch.no_grad():
                for weight, gradient in zip(model.parameters(), gradients, strict=True):
                    weight.sub_(gradient)
    assert [(one.step, one.op, one.shows.phase) for one in found.findings] == [(1, "sqrt", "backward")]
    assert found.steps == 2


def test_consequences_of_infinite_weights_in_later_steps_are_not_findings() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with polycast.debug.watch(model, optimizer) as found:
        for scale in (1, 1e8, 1, 1):  # No scaler skips the second step.
            with polycast.autocast("cpu", F16):
                loss = model(torch.ones(2, 4)).float().sum() * scale
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert [(one.step, one.op) for one in found.findings] == [(1, "linear")]


def test_a_scaler_that_makes_no_step_leads_to_one_finding() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=2.0**40)
    with polycast.debug.watch(model, optimizer) as found:
        for _ in range(4):
            with polycast.autocast("cpu", F16):
                loss = model(torch.ones(2, 4)).float().sum()
            scaler.scale(loss).backward()
            optimizer.step()  # A correct program would call `scaler.step(optimizer)`.
    assert ([one.step for one in found.findings], found.steps) == ([0], 4)


@pytest.mark.parametrize("step", ["with a closure", "after a step that raised"])
def test_the_loss_around_a_step_is_not_the_optimizers(step: str) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def closure() -> Tensor:
        loss = overflow(model)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def failing() -> float:
        raise ZeroDivisionError

    with polycast.debug.watch(model) as found:
        if step == "with a closure":
            optimizer.step(closure)
        else:
            with suppress(ZeroDivisionError):
                optimizer.step(failing)
            closure()
            optimizer.step()
    assert [(one.op, one.shows.phase) for one in found.findings] == [("mul", "forward")]
    assert 'polycast.Policy({"mul": "fp32"})' in found.findings[0].remedy


def test_a_watch_releases_its_model_and_its_recording_even_if_its_search_raises() -> None:
    model = nn.Linear(4, 4)
    reference = weakref.ref(model)
    watch = polycast.debug.watch(model)
    watch._end_step = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError), watch:
        model(torch.ones(1, 4))
    with polycast.debug.trace():
        pass
    del model, watch
    gc.collect()
    assert reference() is None


def test_a_fork_drops_the_calls_without_the_gil() -> None:
    """A forked child drops the recorded calls, but does not free the watch, because it may never acquire the GIL."""
    with polycast.debug.watch(nn.Linear(2, 2)) as watch:
        count = sys.getrefcount(watch)
        if (child := os.fork()) == 0:
            torch.ones(2) + 1
            os._exit(held_count() or sys.getrefcount(watch) != count)
        assert os.waitpid(child, 0)[1] == 0


def test_steps_of_a_frozen_model_and_of_a_wrapped_optimizer_end() -> None:
    model = nn.Linear(4, 4)
    with polycast.debug.watch(model.requires_grad_(False)) as found:
        for _ in range(3):
            model(torch.ones(1, 4))
    assert found.steps == 3
    inner = torch.optim.SGD(model.requires_grad_().parameters(), lr=0.1)
    with polycast.debug.watch(model, Wrapper(inner)) as found:
        for _ in range(3):
            model(torch.ones(1, 4)).sum().backward()
            inner.step()
    assert found.steps == 3


def test_results_that_are_complex_or_overwritten_in_inference_mode_are_findings() -> None:
    model = nn.Linear(4, 4, bias=False)
    nn.init.zeros_(model.weight)
    with polycast.debug.watch(model) as found, polycast.autocast("cpu", F16):
        values = model(torch.ones(2, 4)).float()
        torch.fft.rfft(values) / values.sum()
    assert [one.op for one in found.findings] == ["div"]
    nn.init.constant_(model.weight, 75.0)
    with polycast.debug.watch(model) as found, torch.inference_mode(), polycast.autocast("cpu", F16):
        values = model(torch.ones(1, 4))
        values *= 300
        1 / values
    assert [one.op for one in found.findings] == ["linear"]  # No rule changes the in-place op that overflows.


def test_the_search_for_an_overflow_leaves_random_numbers_unchanged() -> None:
    numbers = []
    for is_watched in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=2.0**40)
        with polycast.debug.watch(model) if is_watched else nullcontext():
            for _ in range(17):
                with polycast.autocast("cpu", F16):
                    loss = (model(torch.ones(2, 4)) * 100).float().sum()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        numbers.append(torch.rand(1))
    assert torch.equal(*numbers)


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the allowed actions. The gradient multiplies the logarithm of 0, which is -3.4e38."""
    allowed = logits.float().masked_fill(torch.tensor([True, False, False]), -torch.inf)
    return torch.distributions.Categorical(logits=allowed).entropy()  # type: ignore[no-untyped-call, no-any-return]


@pytest.mark.parametrize("function", [Tensor.float, entropy], ids=["sparse gradients", "an overflow in float32"])
def test_a_skipped_step_has_no_finding(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(4, 4, sparse=True), nn.Linear(4, 4), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=2.0**24)
    with polycast.debug.watch(model) as found:
        with polycast.autocast("cpu", F16):
            loss = function(model(torch.tensor([[1, 2]]))).sum()
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() < 2.0**24 and not found.findings


def test_gradients_that_clipping_zeroes_after_an_overflow_did_not_underflow() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.init.constant_(model[1].weight, 100.0)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)  # A scaler calls a fused `step` even to skip.
    scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=2.0**14)
    with polycast.debug.watch(model) as found:
        for _ in range(3):
            with polycast.autocast("cpu", F16):
                loss = model(torch.ones(2, 4)).float().sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert scaler.get_scale() == 2.0**11 and str(found).startswith("no finding") and not found.flushed


def test_a_bias_whose_weight_has_a_gradient_did_not_underflow() -> None:
    """A bias whose gradient cancels to zero, like the key bias of attention, is not reported as underflow."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    signs = torch.tensor([[1.0], [-1.00001]])
    with polycast.debug.watch(model, optimizer) as found:
        for _ in range(4):
            optimizer.zero_grad()
            with polycast.autocast("cpu", F16):
                loss = (model(torch.tensor([[1.0], [2.0]]).expand(2, 4)).float() * signs).sum()
            loss.backward()
            optimizer.step()
    assert model.bias.grad is not None and not model.bias.grad.any() and not found.flushed


def test_a_weight_underflows_although_another_weight_of_its_module_has_a_gradient() -> None:
    model = nn.ParameterList([torch.ones(4, 4), torch.full((4, 64), 1e-6)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with polycast.debug.watch(model, optimizer) as found:
        for _ in range(4):
            optimizer.zero_grad()
            with polycast.autocast("cpu", F16):
                loss = (torch.ones(1, 4) @ model[0] @ model[1]).float().sum() * 1e-4
            loss.backward()
            optimizer.step()
    assert [one.name for one in found.flushed] == ["0"]
