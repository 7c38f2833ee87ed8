"""Policies of regions, of modules and of the process; test_programs.py nests them at random."""

import gc
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from weakref import ref

import polycast
import pytest
import torch
from polycast import Policy
from polycast._compiled import find_policy, scope_depth
from polycast.policy.policy import digest_of
from torch import Tensor, nn
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


def test_an_inner_region_keeps_the_rules_around_it_but_those_it_changes() -> None:
    with polycast.autocast("cpu", policy=HALVES):
        with polycast.autocast("cpu"):
            assert both() == (HALF, HALF)
        with torch.autocast("cpu", enabled=False):
            assert both() == (F32, F32)
        with polycast.autocast("cpu", policy=WIDE):
            assert both() == (F32, HALF)
        assert both() == (HALF, HALF)


def test_a_policy_for_the_process_is_under_those_of_regions_and_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    polycast.assign(model, {"0": {"linear": "float64"}})
    with polycast.use({"matmul": "fp32", "linear": "fp32", "sort": "bfloat16"}):
        with polycast.autocast("cpu"):
            assert both() == (F32, BF16)
        with polycast.autocast("cpu", policy=Policy({"matmul": "float16", "linear": "float16"})):
            assert both() == (HALF, BF16)
            assert model(X).dtype == F64


def test_a_region_leaves_what_was_not_left_inside() -> None:
    with polycast.autocast("cpu", policy=WIDE):
        with polycast.autocast("cpu", policy=WIDE):
            polycast.autocast("cpu", policy=HALVES).__enter__()
        assert both() == (F32, F32)


def test_a_region_is_entered_again_while_it_is_entered_and_decorates() -> None:
    region = polycast.autocast("cpu", policy=HALVES)
    with region, region:
        assert both() == (HALF, HALF)
    assert region(both)() == (HALF, HALF)


def test_a_region_shows_its_policy_and_counts_the_rules_of_a_long_one() -> None:
    assert repr(polycast.autocast("cpu", policy=HALVES)) == (
        f"polycast.autocast('cpu', dtype=torch.bfloat16, policy={HALVES!r})"
    )
    shown = repr(polycast.autocast("cpu", policy="fp32"))
    assert re.fullmatch(r"polycast.autocast\('cpu', .*, policy=<fp32 for \d+ ops>\)", shown)


def test_a_region_is_left_by_the_thread_that_entered_it() -> None:
    region = polycast.autocast("cpu", policy=HALVES)
    with pytest.raises(RuntimeError, match=r"has not entered polycast.*; enter it before it is left"):
        region.__exit__()
    with region, ThreadPoolExecutor(1) as pool:
        text = r"this thread has not entered polycast.autocast\('cpu', .*; leave it in the thread that has"
        with pytest.raises(RuntimeError, match=text):
            pool.submit(region.__exit__).result()


def test_a_generator_with_a_plain_region_may_be_closed_by_another_thread() -> None:
    def items() -> Iterator[None]:
        with polycast.autocast("cpu"):
            yield

    program = items()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(next, program).result()
        other.submit(program.close).result()  # type: ignore[attr-defined]


def test_regions_of_two_generators_that_take_turns() -> None:
    def items(policy: Policy) -> Iterator[tuple[torch.dtype, torch.dtype]]:
        with polycast.autocast("cpu", policy=policy):
            yield both()

    pairs = zip(items(WIDE), items(Policy({"sort": "float16"})), strict=True)
    assert list(pairs) == [((F32, F32), (F32, HALF))]


def many(kinds: dict[str, torch.dtype]) -> list[tuple[AbstractContextManager[object], torch.dtype]]:
    """Return regions of more than a hundred policies, and the dtype that matmul has in each."""
    names = polycast.policy.ops("cpu", "fp32")
    rules = [({"matmul": kind, f"aten::{name}": "fp32"}, kinds[kind]) for name in names for kind in kinds]
    return [(polycast.autocast("cpu", policy=Policy(one)), dtype) for one, dtype in rules]


def test_threads_that_enter_the_regions_of_many_policies() -> None:
    regions = many({"fp32": F32, "float16": HALF, "bfloat16": BF16})

    def wrong(first: int) -> list[int]:
        found = []
        for number in range(first, 7 * 150, 7):
            region, dtype = regions[number % len(regions)]
            with region:
                found += [number] if both() != (dtype, F32) else []
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [[]] * 4


def test_hundreds_of_scopes_cost_what_ten_do() -> None:
    regions = many({"float16": HALF, "bfloat16": BF16, "fp32": F32, "float64": F64})
    assert len(regions) >= 100

    def seconds(number: int) -> float:
        start = time.perf_counter()
        for _ in range(20):
            with regions[number][0]:
                assert (X @ X).dtype == regions[number][1]
        return time.perf_counter() - start

    for number in range(len(regions)):
        seconds(number)
    times = [(seconds(8), seconds(len(regions) - 4)) for _ in range(50)]
    early, late = map(min, zip(*times, strict=True))
    assert late < 1.5 * early


@pytest.mark.parametrize("policy", [None, WIDE], ids=["no policy", "a policy"])
def test_an_interrupt_leaves_no_region_open(policy: Policy | None) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    open_after = 0
    try:
        for number in range(200):
            region = polycast.autocast("cpu", policy=policy)
            try:
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


def test_an_interrupt_leaves_the_rules_of_a_module() -> None:
    class Interrupted(nn.Module):
        def forward(self) -> None:
            raise KeyboardInterrupt

    model = Interrupted()
    polycast.assign(model, HALVES)
    with pytest.raises(KeyboardInterrupt):
        model()


def test_a_policy_is_freed_with_whoever_holds_it() -> None:
    policy = Policy({"matmul": "fp32", "tril": "float64"})
    with polycast.autocast("cpu", policy=policy):
        assert both() == (F32, F32)
    digest, alive = digest_of(policy.by_overload()), ref(policy)
    assert find_policy(digest) is not None
    del policy
    gc.collect()
    assert (alive(), find_policy(digest)) == (None, None)


def test_a_deleted_model_with_rules_is_gone_at_once() -> None:
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


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(("policy", "dtypes"), [(HALVES, (HALF, HALF)), (None, (BF16, F32))], ids=["policy", "none"])
def test_a_checkpoint_runs_again_under_the_policy_of_its_forward(
    policy: Policy | None, dtypes: tuple[torch.dtype, ...], reentrant: bool
) -> None:
    seen = []

    def segment(x: Tensor) -> Tensor:
        seen.append(both())
        return (x @ x).sin()

    x = X.clone().requires_grad_()
    with polycast.autocast("cpu", policy=policy):
        y = checkpoint(segment, x, use_reentrant=reentrant)
    with polycast.autocast("cpu", policy=WIDE):
        y.sum().backward()
    assert seen == [dtypes, dtypes]


def test_a_custom_backward_runs_under_the_policy_of_its_forward() -> None:
    seen = []

    class Multiply(torch.autograd.Function):
        @staticmethod
        @polycast.custom_fwd
        def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:  # noqa: ARG004
            return x * 1

        @staticmethod
        @polycast.custom_bwd
        def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> Tensor:  # noqa: ARG004
            seen.append(both())
            return gradient

    x = X.clone().requires_grad_()
    with polycast.autocast("cpu", policy=HALVES):
        y = Multiply.apply(x)  # type: ignore[no-untyped-call]
    y.sum().backward()
    assert seen == [(HALF, HALF)]


def test_vmap_and_grad_under_a_policy() -> None:
    batch = torch.ones(3, 4, 4)
    with polycast.autocast("cpu", policy=Policy({"matmul": "float16", "bmm": "float16"})):
        assert torch.vmap(lambda x: x @ x)(batch).dtype == HALF
        assert torch.func.grad(lambda x: (x @ x).sum())(X).dtype == F32
