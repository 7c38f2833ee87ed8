"""A scaler over two ranks: training of FSDP1 and FSDP2 models, and the reductions of ``found_inf`` and the norm."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import polycast
import pytest
import torch
from polycast import syncfree
from polycast.scaler.meshes import GradientCheck, Shards, agree
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor.debug import CommDebugMode

from tests.scaler.common import INF, OPTIMIZERS, SCALE, started
from tests.support.optimizers import clip
from tests.support.sharded.models import assert_same, backward, give, leaves, loss, model, partial, placed
from tests.support.sharded.world import distributed, rank, size

on_both_ranks = pytest.mark.usefixtures("on_both_ranks")


def poison(layers: nn.Module) -> None:
    """Set one element of a gradient on the last rank to infinity, if that rank has elements."""
    grads = [param.grad for param in layers.parameters() if param.grad is not None]
    shards = [shard for grad in grads if (shard := getattr(grad, "_local_tensor", grad)).numel()]
    if rank() == size() - 1 and shards:
        shards[-1].view(-1)[0] = INF


@on_both_ranks
@pytest.mark.parametrize(
    ("kind", "look", "skip_on_host"),
    [
        ("sync-free", "step", False),
        ("sync-free", "clip_grad_norm", False),
        ("sync-free", "clip_grad_norm", True),
        ("fused", "clip_grad_norm", False),
        ("fused", "step", True),
        ("for-loop", "clip_grad_norm", False),
    ],
)
def test_a_fully_sharded_model_trains_as_with_stock_pytorch(kind: str, look: str, skip_on_host: bool) -> None:
    layers, reference, called = model(), model(), list[int]()
    optimizer, theirs = OPTIMIZERS[kind](layers.parameters()), OPTIMIZERS["for-loop"](reference.parameters())
    if skip_on_host:  # A hook could read the gradients, so the scaler unscales them.
        optimizer.register_step_post_hook(lambda *_: called.append(1))
    scaler, stock = started(skip_on_host=skip_on_host), started(Scaler("cpu", init_scale=SCALE))
    schedule = polycast.SkipAwareLR(optimizer, lambda taken: torch.ones_like(taken), scaler)
    for number in range(4):
        for each, trained in ((scaler, layers), (stock, reference)):
            each.scale(loss(trained, number)).backward()
            if number == 1:
                poison(trained)
        for each, stepped in ((scaler, optimizer), (stock, theirs)):
            if look == "clip_grad_norm":
                clip(each, stepped, 0.1)
            each.step(stepped)
            each.update()
            stepped.zero_grad()
        schedule.step()
        assert scaler.step_was_skipped(optimizer).item() is (number == 1)
        assert_same(layers.parameters(), reference.parameters(), tolerance=1e-5)
    assert scaler.get_scale() == stock.get_scale() == SCALE / 2
    assert (schedule.state_dict()["steps_taken"], len(called)) == (3, 3 * skip_on_host)


def collectives(call: Callable[[], object]) -> list[str]:
    """Return the operation of each reduction in a call, and assert that the call makes no other collective."""
    reductions = mock.Mock(wraps=distributed.all_reduce)
    with CommDebugMode() as mode, mock.patch.object(distributed, "all_reduce", reductions):  # type: ignore[no-untyped-call]
        call()
    assert mode.get_total_counts() == reductions.call_count
    return [call.args[1].name for call in reductions.call_args_list]


def given() -> list[Any]:
    params = leaves()
    give(params, 0)
    return params


SUBJECTS: dict[str, tuple[Callable[[], Any], int]] = {
    "a fully sharded model": (lambda: backward(model()), 1),
    "parameters on meshes of three shapes": (given, 3),
    "replicas": (lambda: backward(nn.parallel.DistributedDataParallel(nn.Linear(8, 4))), 0),
}


@on_both_ranks
@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("clipping", [None, (1.0, 2.0), (1.0, INF)], ids=str)
def test_an_iteration_has_one_reduction_for_each_mesh(subject: str, clipping: tuple[float, float] | None) -> None:
    """One reduction combines ``found_inf`` and the norm. Replicas need no reduction."""
    params, count = SUBJECTS[subject]
    optimizer, scaler = syncfree.AdamW(params(), lr=0.05), started()

    def iterate() -> None:
        if clipping:
            scaler.clip_grad_norm(optimizer, *clipping)
        scaler.step(optimizer)
        scaler.update()

    assert collectives(iterate) == ["SUM"] * count


@on_both_ranks
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("second", ["a plain one", "another of the mesh"])
def test_another_optimizer_adds_one_reduction(second: str, together: bool) -> None:
    models = (model(), nn.Linear(8, 1) if second == "a plain one" else model(1))
    optimizers, scaler = [syncfree.AdamW(backward(layers)) for layers in models], started()

    def iterate() -> None:
        if together:
            scaler.step_together(*optimizers)
        else:
            list(map(scaler.step, optimizers))
        scaler.update()

    assert collectives(iterate) == ["SUM"] * 2


@on_both_ranks
def test_a_sum_that_overflows_is_found() -> None:
    """Each rank's part of a pending sum is finite, but the sum is not."""
    param = placed(torch.ones(4, 3), "R").requires_grad_()
    optimizer, scaler = syncfree.SGD([param]), started()
    param.grad = partial(torch.full((4, 3), 3e38))
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert scaler.step_was_skipped(optimizer).item()


@on_both_ranks
@pytest.mark.parametrize("look", [(), ("unscale_",), ("clip_grad_norm", 1.0)], ids=str)
def test_without_a_gradient_on_any_rank_a_step_raises_as_in_stock_pytorch(look: tuple[Any, ...]) -> None:
    optimizer, scaler = syncfree.SGD([placed(torch.ones(4, 3), "0").requires_grad_()]), started()
    if look:
        getattr(scaler, look[0])(optimizer, *look[1:])
    with pytest.raises(AssertionError, match=r"^No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)


def fsdp1(use_orig_params: bool = True) -> Any:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    return distributed.fsdp.FullyShardedDataParallel(layers, device_id="cpu", use_orig_params=use_orig_params)


@pytest.mark.parametrize(
    ("kind", "clip", "use_orig_params"),
    [("sync-free", True, False), ("sync-free", False, True), ("fused", True, True), ("for-loop", False, False)],
)
@pytest.mark.usefixtures("freed", "on_both_ranks")
@pytest.mark.filterwarnings("ignore")
def test_ranks_of_a_process_group_skip_together_as_with_pytorchs_sharded_scaler(
    kind: str, clip: bool, use_orig_params: bool
) -> None:
    """All ranks of FSDP1 skip together, with and without ``process_group`` (specification 8.4)."""
    results, process_group = [], distributed.group.WORLD if clip else None
    for scaler, kind_here in (
        (polycast.GradScaler(init_scale=SCALE, process_group=process_group), kind),
        (ShardedGradScaler("cpu", init_scale=SCALE), "for-loop"),
    ):
        layers, scales = fsdp1(use_orig_params), []
        optimizer = OPTIMIZERS[kind_here](layers.parameters())
        for number in range(4):
            scaler.scale(layers(torch.full((2, 8), number + 1.0)).square().mean()).backward()
            if number == 1:
                poison(layers)
            if clip:
                scaler.unscale_(optimizer)
                layers.clip_grad_norm_(0.1)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scales.append(scaler.get_scale())
        results.append([torch.tensor(scales), *(param.detach() for param in layers.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-6)
    assert results[0][0].tolist() == [SCALE, SCALE / 2, SCALE / 2, SCALE / 2]


@pytest.mark.usefixtures("freed", "on_both_ranks")
@pytest.mark.filterwarnings("ignore")
def test_the_scaler_does_not_clip_shards_of_fsdp1() -> None:
    optimizer = syncfree.AdamW(fsdp1().parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match=r"^clip_grad_norm\(\) is not supported with FSDP1 or a process_group"):
        started().clip_grad_norm(optimizer, 1.0)


@on_both_ranks
@pytest.mark.parametrize("is_group", [True, False])
def test_stages_of_a_pipeline_skip_together_with_a_process_group_and_separately_without(is_group: bool) -> None:
    stage = torch.ones(2, requires_grad=True)
    stage.grad = torch.full((2,), INF if rank() == 0 else 1.0)
    optimizer = syncfree.SGD([stage], lr=1.0)
    scaler = started(process_group=distributed.group.WORLD if is_group else None)
    scaler.step(optimizer)
    scaler.update()
    skips = is_group or rank() == 0
    assert (scaler.step_was_skipped(optimizer).item(), scaler.get_scale()) == (skips, SCALE / 2 if skips else SCALE)
    assert stage.equal(torch.ones(2)) is skips


class Mesh:
    """A fake mesh of two ranks, with the attributes that the reductions use."""

    ndim = 1
    size = staticmethod(lambda _dim=0: 2)
    get_coordinate = staticmethod(lambda: [1])
    get_group = staticmethod(lambda _dim: None)


@pytest.mark.parametrize("device", ["cuda:0", "xpu:0"])
def test_found_inf_is_reduced_without_a_sync(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On fake tensors, any device sync raises. This rank has sharded and plain gradients."""
    reductions: list[torch.Size] = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, *_, **__: reductions.append(tensor.shape))
    place, mesh, params = torch.device(device), Mesh(), [torch.ones(1) for _ in range(3)]
    with FakeTensorMode():
        zero, flags = torch.zeros((), device=place), torch.zeros(3, device=place)
        checks = [GradientCheck(params, where, (0,), zero, flags, zero) for where in (mesh, None)]
        found_infs, norms = agree(checks, {mesh: Shards(place, split_dims={(0,): None})}, place, with_norms=True)
    assert [tensor.device for tensor in (*found_infs.values(), *norms)] == [place] * 3
    assert reductions == [(2 + 2,)]  # The sum has two flags (non-finite, present) and a norm for each rank.
