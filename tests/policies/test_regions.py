"""Policies of regions, of modules and of the process: which rules hold where in one."""

import copy
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy
from polycast._compiled import scope_depth
from torch import nn
from torch.utils.checkpoint import checkpoint

F32, F64, HALF, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
X = torch.eye(4)
HALVES = Policy({"matmul": "float16", "sort": "float16"})
WIDE = Policy({"matmul": "fp32"})


def matmul() -> torch.dtype:
    return (X @ X).dtype


def sort() -> torch.dtype:
    return torch.sort(X).values.dtype


def both() -> tuple[torch.dtype, torch.dtype]:
    return matmul(), sort()


def test_a_policy_holds_in_its_region_only() -> None:
    with polycast.autocast("cpu"):
        assert both() == (BF16, F32)
        with polycast.autocast("cpu", policy=HALVES):
            assert both() == (HALF, HALF)
        assert both() == (BF16, F32)
    assert both() == (F32, F32)


def test_an_inner_region_keeps_the_rules_around_it_but_those_it_changes() -> None:
    with polycast.autocast("cpu", policy=HALVES):
        with polycast.autocast("cpu"):
            assert both() == (HALF, HALF)
        with torch.autocast("cpu", enabled=False):
            assert both() == (F32, F32)
        with polycast.autocast("cpu", policy=WIDE):
            assert both() == (F32, HALF)
        assert both() == (HALF, HALF)


def test_what_an_op_runs_below_autocasts_where_it_is_unlisted() -> None:
    def product() -> torch.dtype:
        return torch.einsum("ij,jk->ik", X, X).dtype

    with polycast.autocast("cpu", policy=Policy({"einsum": "fp32"})):
        assert product() == F32
        with polycast.autocast("cpu", policy=Policy({"einsum": "unlisted", "matmul": "unlisted"})):
            assert (product(), matmul()) == (BF16, BF16)
    with torch.autocast("cpu"):
        assert product() == BF16  # its kernel may still be registered, and does nothing


def test_a_region_leaves_what_was_not_left_inside() -> None:
    with polycast.autocast("cpu", policy=WIDE):
        with polycast.autocast("cpu", policy=WIDE):
            polycast.autocast("cpu", policy=HALVES).__enter__()
        assert matmul() == F32
    assert scope_depth() == 0


def test_an_error_leaves_the_region() -> None:
    with pytest.raises(ZeroDivisionError), polycast.autocast("cpu", policy=HALVES):
        _ = 1 / 0
    with polycast.autocast("cpu"):
        assert both() == (BF16, F32)
    assert scope_depth() == 0


def test_a_region_is_entered_again_while_it_is_entered_and_decorates() -> None:
    region = polycast.autocast("cpu", policy=HALVES)

    @region
    def decorated() -> tuple[torch.dtype, torch.dtype]:
        return both()

    with region, region:
        assert both() == (HALF, HALF)
    assert decorated() == (HALF, HALF)
    assert both() == (F32, F32)
    assert repr(region) == f"polycast.autocast('cpu', dtype=torch.bfloat16, policy={HALVES!r})"


def test_a_region_counts_the_rules_of_a_long_policy() -> None:
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
    assert scope_depth() == 0


def test_threads_have_policies_of_their_own() -> None:
    meet = threading.Barrier(3)

    def run(policy: Policy | None) -> list[torch.dtype]:
        found = []
        for _ in range(50):
            with polycast.autocast("cpu", policy=policy) if policy else polycast.autocast("cpu"):
                meet.wait()
                found.append(matmul())
        return found

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(run, (HALVES, WIDE, None)))
    assert found == [[HALF] * 50, [F32] * 50, [BF16] * 50]


def test_threads_that_share_the_numbers() -> None:
    names = polycast.policy.ops("cpu", "fp32")[:40]
    kinds = [("fp32", F32), ("float16", HALF), ("bfloat16", BF16)]
    regions = [
        (polycast.autocast("cpu", policy=Policy({"matmul": kind, f"aten::{name}": "fp32"})), dtype)
        for name in names
        for kind, dtype in kinds
    ]

    def run(first: int) -> list[tuple[torch.dtype, torch.dtype]]:
        found = []
        for number in range(150):
            region, wanted = regions[(first + 7 * number) % len(regions)]
            with region:
                found.append((matmul(), wanted))
        return found

    with ThreadPoolExecutor(4) as pool:
        assert [pair for found in pool.map(run, range(4)) for pair in found if pair[0] != pair[1]] == []


def test_more_policies_than_numbers() -> None:
    with polycast.autocast("cpu", policy=HALVES):
        for count in range(100):
            policy = Policy({"sort": "bfloat16", "gelu": ("fp32", "float64")[count % 2], f"aten::{OPS[count]}": "fp32"})
            with polycast.autocast("cpu", policy=policy):
                assert both() == (HALF, BF16)
        assert both() == (HALF, HALF)


OPS = [op for op in polycast.policy.ops("cpu", "fp32")[:60] if op != "sort"] * 2


def test_a_policy_for_the_process_is_under_those_of_regions_and_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    polycast.assign(model, {"0": {"linear": "float64"}})
    try:
        polycast.use(Policy({"matmul": "fp32", "linear": "fp32", "sort": "bfloat16"}))
        with polycast.autocast("cpu"):
            assert both() == (F32, BF16)
        with polycast.autocast("cpu", policy=Policy({"matmul": "float16", "linear": "float16"})):
            assert both() == (HALF, BF16)
            assert model(X).dtype == F64
        polycast.use(WIDE)
        with polycast.autocast("cpu"):
            assert both() == (F32, F32)
    finally:
        polycast.use(None)
    with polycast.autocast("cpu"):
        assert both() == (BF16, F32)


MODULE_RULES: list[tuple[dict[Any, Any], list[torch.dtype]]] = [
    ({}, [BF16, BF16, BF16]),
    ({"a": "fp32"}, [F32, BF16, BF16]),
    ({"a": torch.float16}, [HALF, BF16, BF16]),
    ({"re:.": {"linear": "float16"}}, [HALF, HALF, HALF]),
    ({"re:.": {"linear": "float16"}, "b": {"linear": "fp32"}}, [HALF, F32, HALF]),
    ({"re:[ab]": {"linear": "float16"}, "re:[bc]": {"matmul": "fp32"}}, [HALF, BF16, BF16]),
    ({"[ab]": {"linear": "float16"}, "[bc]": {"linear": "fp32"}, "b": {"linear": "float64"}}, [HALF, F64, F32]),
    ({nn.Linear: {"linear": "float16"}, "[bc]": {"linear": "fp32"}, "b": None, "c": "fp32"}, [HALF, BF16, F32]),
    ({"": {"linear": "fp32"}}, [F32, F32, F32]),
    ({"": {"linear": "fp32"}, "c": {"linear": "float16"}}, [F32, F32, HALF]),
    ({"": {"linear": "float16"}, "c": Policy({"linear": "fp32"})}, [HALF, HALF, F32]),
]


class Three(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.a(x), self.b(x), self.c(x)]


@pytest.mark.parametrize(("rules", "types"), MODULE_RULES)
def test_rules_of_modules(rules: dict[Any, Any], types: list[torch.dtype]) -> None:
    model = Three()
    polycast.assign(model, rules)
    with polycast.autocast("cpu"):
        assert [tensor.dtype for tensor in model(X)] == types
    with polycast.autocast("cpu", policy=Policy({"linear": "float64"})):
        over = [tensor.dtype for tensor in model(X)]
    assert over == [F64 if type_ == BF16 else type_ for type_ in types]


def test_modules_with_rules_are_copied_pickled_and_freed_of_them() -> None:
    model = Three()
    polycast.assign(model, {"a": {"linear": "float16"}})
    assert list(signature(model.a.forward).parameters) == ["input"]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with polycast.autocast("cpu"):
            assert [tensor.dtype for tensor in twin(X)] == [HALF, BF16, BF16]
    assert list(polycast.assign(model, {"a": {"linear": "fp32"}})) == ["a"]
    with polycast.autocast("cpu"):
        assert model(X)[0].dtype == F32
    polycast.assign(model, {"a": None})
    assert type(model.a) is nn.Linear


def test_an_interrupt_leaves_the_rules_of_a_module() -> None:
    class Interrupted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
            raise KeyboardInterrupt

    model = Interrupted()
    polycast.assign(model, {"": {"sort": "float16"}})
    with pytest.raises(KeyboardInterrupt):
        model(X)
    assert scope_depth() == 0


BAD_ASSIGNMENTS: list[tuple[object, str]] = [
    ({"d": "fp32"}, "the model has no module 'd'; a glob has '*', and a pattern begins with 're:'"),
    ({"lm_head": "fp32"}, "assign: lm_head: error: the model has no module 'lm_head'"),
    ({"re:x.*": "fp32"}, "assign: re:x.*: error: matches no module of the model; a pattern has to match a whole name"),
    ({"re:(": "fp32"}, "assign: re:(: error: no pattern: missing ), unterminated subpattern at position 0; write a"),
    ({"a": "fp23"}, "assign: a: error: unknown category, release or file 'fp23'; did you mean 'fp32'?"),
    (
        {"a": "haf", "b": "stock"},
        "assign: b: error: 'stock' is for policy.yaml alone, since no rule brings torch's own",
    ),
    ({"a": {"linera": "fp32"}}, "assign: a.linera: error: unknown op 'linera'; did you mean 'linear'?"),
    (
        {"re:[ab]": {"linear": "fp32"}, "re:[bc]": {"linear": "float16"}},
        "module 'b' is matched by 're:[ab]', which gives linear fp32 on cuda, and by 're:[bc]', which gives linear "
        "float16 on cuda; name the module itself, or make the patterns narrower",
    ),
    (
        {"d": {"linera": "fp32", "relu": "fp23"}, "a": 3, 3: "fp32", "re:[ab]": None},
        """\
assign: d: error: the model has no module 'd'; a glob has '*', and a pattern begins with 're:'
assign: d.linera: error: unknown op 'linera'; did you mean 'linear'?
assign: d.relu: error: unknown category 'fp23'; did you mean 'fp32'?
assign: a: error: the policy is 3; give a dict of rules, as in {'softmax': 'fp32'}, the name of a file or of a \
release, or a category or dtype for every op
assign: <int>: error: a key of type int; use the name of a module, a glob such as 'layers.*', 're:' and a pattern, a \
module class, or a module""",
    ),
    (["a"], "the rules are ['a']; give a mapping, as in {'lm_head': 'fp32'}"),
]


@pytest.mark.parametrize(("rules", "message"), BAD_ASSIGNMENTS)
def test_bad_assignments_change_nothing(rules: object, message: str) -> None:
    model = Three()
    with pytest.raises((ValueError, TypeError)) as error:
        polycast.assign(model, rules)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert len(polycast.assigned(model)) == 0


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_runs_again_under_the_policy_of_its_forward(reentrant: bool) -> None:
    seen: list[torch.dtype] = []

    def segment(x: torch.Tensor) -> torch.Tensor:
        seen.append(matmul())
        return (x @ x).sin()

    x = X.clone().requires_grad_()
    with polycast.autocast("cpu", policy=HALVES):
        y = checkpoint(segment, x, use_reentrant=reentrant)
    with polycast.autocast("cpu", policy=WIDE):
        y.sum().backward()
    assert seen == [HALF, HALF]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_of_no_policy_runs_again_under_none(reentrant: bool) -> None:
    seen: list[torch.dtype] = []

    def segment(x: torch.Tensor) -> torch.Tensor:
        seen.append(matmul())
        return (x @ x).sin()

    x = X.clone().requires_grad_()
    with polycast.autocast("cpu"):
        y = checkpoint(segment, x, use_reentrant=reentrant)
    with polycast.autocast("cpu", policy=WIDE):
        y.sum().backward()
    assert seen == [BF16, BF16]


def test_a_module_with_two_names_has_both() -> None:
    shared = nn.Linear(4, 4)
    model = nn.ModuleDict({"one": shared, "two": shared})
    assert list(polycast.assign(model, {"two": {"linear": "fp32"}})) == ["one", "two"]
    with pytest.raises(ValueError, match="module 'two' is matched by 'one'"):
        polycast.assign(model, {"one": {"linear": "fp32"}, "two": {"linear": "float16"}})


def test_a_custom_backward_runs_under_the_policy_of_its_forward() -> None:
    seen: list[torch.dtype] = []

    class Multiply(torch.autograd.Function):
        @staticmethod
        @polycast.custom_fwd
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
            return x * 1

        @staticmethod
        @polycast.custom_bwd
        def backward(ctx: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
            seen.append(matmul())
            return gradient

    x = X.clone().requires_grad_()
    with polycast.autocast("cpu", policy=HALVES):
        y = Multiply.apply(x)  # type: ignore[no-untyped-call]
    y.sum().backward()
    assert seen == [HALF]


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_traced_module_holds_the_casts_of_its_policy() -> None:
    model = Three().requires_grad_(False)
    polycast.assign(model, {"a": {"linear": "float16"}})

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(model(x))

    region = polycast.autocast("cpu", cache_enabled=False, policy=Policy({"linear": "fp32"}))
    with region, pytest.warns(UserWarning, match="outside of regions"):
        traced = torch.jit.trace(forward, X, check_trace=False)  # type: ignore[no-untyped-call]
    assert [tensor.dtype for tensor in traced(X)] == [HALF, F32, F32]


def test_vmap_and_grad_under_a_policy() -> None:
    batch = torch.ones(3, 4, 4)
    with polycast.autocast("cpu", policy=Policy({"matmul": "float16", "bmm": "float16"})):
        assert torch.vmap(lambda x: x @ x)(batch).dtype == HALF
        assert torch.func.grad(lambda x: (x @ x).sum())(X).dtype == F32
