"""Regions and modules with policies: state, threads, interrupts and lifetimes. ``test_programs.py`` tests nesting."""

import gc
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any
from weakref import ref

import polycast
import pytest
import torch
from polycast import Policy
from polycast._extension import kernel_policy, scope_depth
from polycast.policy.policy import key_of
from torch import nn
from torch.utils.checkpoint import checkpoint

F32, F64, HALF, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
X = torch.eye(4)
HALVES = Policy({"matmul": "float16", "sort": "float16"})
WIDE = Policy({"matmul": "fp32"})


def both() -> tuple[torch.dtype, torch.dtype]:
    return (X @ X).dtype, torch.sort(X).values.dtype


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert (scope_depth(), both()) == (0, (F32, F32))


def test_leaving_a_region_leaves_the_regions_inside_it() -> None:
    with polycast.autocast("cpu", policy=WIDE):
        with polycast.autocast("cpu", policy=WIDE):
            polycast.autocast("cpu", policy=HALVES).__enter__()
        assert both() == (F32, F32)


def test_leaving_a_region_that_this_thread_did_not_enter_does_nothing() -> None:
    region = polycast.autocast("cpu", policy=HALVES)
    with region, ThreadPoolExecutor(1) as pool:
        pool.submit(region.__exit__).result()
        assert both() == (HALF, HALF)


@pytest.mark.parametrize("policy", [HALVES, Policy._with({"unknown::op": Policy("fp16")._rows["*"]}) | HALVES])
def test_a_region_applies_after_another_thread_has_installed_kernels_again(policy: Policy) -> None:
    with polycast.autocast("cpu", policy=policy), ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: polycast.uninstall().remove()).result()
        assert both() == (HALF, HALF)


def test_regions_of_generators_that_are_interleaved_or_suspended() -> None:
    def items(policy: Policy | None) -> Iterator[tuple[torch.dtype, torch.dtype]]:
        with polycast.autocast("cpu", policy=policy):
            yield both()

    pairs = zip(items(WIDE), items(Policy({"sort": "float16"})), strict=True)
    assert list(pairs) == [((F32, F32), (F32, HALF))]
    suspended = items(None)
    with polycast.autocast("cpu"):  # This region equals the generator's region.
        next(suspended)
    assert both() == (F32, F32)


@pytest.mark.parametrize("around", [nullcontext, lambda: torch.device("cpu")], ids=["no mode", "a mode"])
@pytest.mark.parametrize("policy", [None, WIDE], ids=["no policy", "a policy"])
def test_an_interrupt_leaves_no_region_open(policy: Policy | None, around: Callable[[], Any]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    open_after = 0
    try:
        for number in range(200):
            region = polycast.autocast("cpu", policy=policy)
            try:
                with around():
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 + number * 1e-6)
                    while True:
                        with region:
                            pass
            except KeyboardInterrupt:
                open_after += scope_depth() != 0 or torch.is_autocast_enabled("cpu")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert open_after == 0


def test_a_policy_is_freed_with_its_last_reference() -> None:
    policy = Policy({"matmul": "fp32", "tril": "float64"})
    with polycast.autocast("cpu", policy=policy):
        assert both() == (F32, F32)
    key, alive = key_of(policy), ref(policy)
    assert kernel_policy(key, {}).rows
    del policy
    gc.collect()
    assert (alive(), kernel_policy(key, {}).rows) == (None, {})


def test_a_deleted_model_with_rules_is_freed_at_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    polycast.assign(model, {"": "fp32", "0": "float16"})
    model(X)
    alive = ref(model), ref(model[0])
    gc.disable()
    try:
        del model
        assert [one() for one in alive] == [None, None]
    finally:
        gc.enable()


def state() -> tuple[object, ...]:
    """Return the autocast state: the switches of any device and of the CPU, the dtype, the cache and the nesting."""
    torch.autocast_increment_nesting()
    switches = torch._C._is_any_autocast_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    return (*switches, torch.is_autocast_cache_enabled(), torch.autocast_decrement_nesting())


def states(rules: dict[str, str] | None, reentrant: bool) -> list[tuple[object, ...]]:
    """Return the autocast states in a module outside of regions, in its checkpoint, and in the checkpoint's rerun."""
    found = []

    def segment(x: torch.Tensor) -> torch.Tensor:
        found.append(state())
        return x.sin()

    class Runs(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found.append(state())
            y: torch.Tensor = checkpoint(segment, x, use_reentrant=reentrant)
            return y

    module = Runs()
    polycast.assign(module, {"": rules})
    module(torch.eye(4, requires_grad=True)).sum().backward()
    return found


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_module_with_rules_outside_of_regions_behaves_like_any_other(reentrant: bool) -> None:
    """Outside of regions, rules change no autocast state, even in a checkpoint (specification 3.7)."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    ours, stock = states({"matmul": "fp32"}, reentrant), states(None, reentrant)
    assert len(ours) == 3 and ours == stock


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_policy_that_a_checkpointed_function_uses_applies_in_both_runs(reentrant: bool) -> None:
    """The rerun also follows the policy around the checkpoint (specification 7.1)."""
    found = []

    def segment(x: torch.Tensor) -> torch.Tensor:
        with polycast.use(HALVES):
            found.append((x @ x).dtype)
        found.append((x @ x).dtype)
        return x.sin()

    with polycast.autocast("cpu"):
        with polycast.use(WIDE):
            y = checkpoint(segment, torch.eye(4, requires_grad=True), use_reentrant=reentrant)
        y.sum().backward()
    assert found == [HALF, F32, HALF, F32]
