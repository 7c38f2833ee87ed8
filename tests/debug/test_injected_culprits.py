"""``bisect`` on programs with injected culprits: it finds the culprits and the smallest fix in few runs."""

import multiprocessing
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast.debug import bisect
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from tests.debug.test_bisect import GOOD, LOWER, MODEL, ONES, OPS, Node, failing, lower, net
from tests.support.process import run_python

pytestmark = pytest.mark.usefixtures("one_thread")

Places = list[tuple[str, str]]
ENDS = {**GOOD, "einsum": "fp32", "mm": "fp32"}, {"softmax": LOWER}

WITH_RULES, SHARED = net(), net(c="b")
polycast.assign(WITH_RULES, {"a": {"linear": LOWER}})
COMPILED, SUM = torch.compile(OPS["bmm"], backend="eager"), partial(torch.sum, ONES.bfloat16())


class Square(torch.autograd.Function):
    """A function whose backward multiplies matrices in the region of its forward."""

    @staticmethod
    @polycast.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    @polycast.custom_bwd(device_type="cpu")
    def backward(_: Any, grad: Tensor) -> Tensor:
        return torch.mm(grad, torch.full((2, 2), 257.0)).float()


def is_float(call: Callable[[], Tensor]) -> bool:
    with polycast.autocast("cpu"):
        next(MODEL.children())()  # This module calls the same ops, but is not the culprit.
        return call().dtype is torch.float32


class Layers(nn.Module):
    """Linear layers. The input overflows float16, so the loss is finite only if the rule of the first layer is fp32."""

    def __init__(self, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.is_checkpointed = nn.Linear(4, 4), nn.Linear(4, 4), is_checkpointed
        for weight in self.parameters():
            nn.init.constant_(weight, 1e-3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = checkpoint(self.first, x, use_reentrant=False) if self.is_checkpointed else self.first(x)
        return self.second(hidden).float().mean()  # type: ignore[no-any-return]

    def is_finite(self, value: float = 1e6, is_trained: bool = False) -> bool:
        self.zero_grad()
        with polycast.autocast("cpu", torch.float16):
            loss = self(torch.full((1, 4), value))
        if is_trained:
            loss.backward()
        grads = [param.grad for param in self.parameters() if param.grad is not None]
        return all(bool(tensor.isfinite().all()) for tensor in (loss, *grads))


WRAPPED = nn.Sequential(nn.Sequential(Layers().first), Layers().second)
polycast.assign(WRAPPED, {"0": "fp32"})


def ends_in_float() -> bool:
    with polycast.autocast("cpu", torch.float16):
        found = WRAPPED(torch.full((1, 4), 1e6))
    return found.dtype is torch.float32 and bool(found.isfinite().all())


def gradient_survives(value: float = 1e-9) -> bool:
    """Return whether the gradient, which is too small for float16, is nonzero."""
    weight = torch.ones(2, 2, requires_grad=True)
    with polycast.autocast("cpu", torch.float16):
        loss = torch.bmm(ONES, weight[None]).float().sum() * value
    loss.backward()  # type: ignore[no-untyped-call]
    return bool(weight.grad.any())  # type: ignore[union-attr]


def backward_is_exact() -> bool:
    x = torch.eye(2, requires_grad=True)
    with polycast.autocast("cpu"):
        y = Square.apply(x)  # type: ignore[no-untyped-call]
    y.backward(torch.eye(2))
    return x.grad[0, 0].item() == 257  # type: ignore[index]


def in_a_region_with_rules(model: Node = MODEL) -> bool:
    with polycast.autocast("cpu", policy={"linear": "bfloat16"}):
        model()
    return "linear" not in model.a.inner.lower  # type: ignore[operator, union-attr]


def in_a_thread(call: Callable[[], bool]) -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def in_a_worker() -> bool:
    process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(not is_float(OPS["bmm"])))
    process.start()
    process.join()
    return process.exitcode == 0


class Rows(list[int]):
    """A dataset that computes its items with an op in a region."""

    def __getitem__(self, _: Any) -> bool:  # type: ignore[override]
        return is_float(OPS["bmm"])


def in_a_loader() -> bool:
    return all(bool(row) for row in DataLoader(Rows([0]), num_workers=1, multiprocessing_context="fork"))  # type: ignore[arg-type]


def in_a_child_process() -> bool:
    """Compute the result of a child process in this process, because a child takes seconds to import polycast."""
    return polycast.Policy(os.environ["POLYCAST_POLICY"]).category("bmm", "cpu") == "fp32"


def in_a_real_child_process() -> bool:
    program = "import polycast, torch\nwith polycast.autocast('cpu'): y = torch.ones(1, 2, 2) @ torch.ones(1, 2, 2)\n"
    return run_python("-c", program + "assert y.dtype is torch.float32").returncode == 0


def einsum_is_exact(*, also_bmm: bool = False) -> bool:
    with polycast.autocast("cpu"):
        next(MODEL.children())()
        exact = torch.einsum("bi,bi->b", 257 * ONES[0], ONES[0] / 2)[0].item() == 257
        return exact and not (also_bmm and torch.bmm(ONES, ONES).dtype is torch.bfloat16)


def bmm_is_exact_next_to_einsum() -> bool:
    with polycast.autocast("cpu"):
        torch.einsum("bi,bi->b", ONES[0], ONES[0])
        return torch.bmm(ONES, ONES).dtype is torch.float32


def needs_fewer_rules_later() -> bool:
    """Return whether the program is good. A fix needs a rule for ``AT_B`` only if it has a rule for ``IN``."""
    found = lower(MODEL)
    wrong = {AT_B, IN, DEEP} & found
    return wrong in (set(), {IN}, {AT_B, IN}) if ("matmul", "") in found else len(wrong) < 3


class Injected(NamedTuple):
    """A program, the culprits to find, and the fix if it has fewer rules than the culprits."""

    check: Callable[[], bool]
    model: nn.Module | None
    culprits: Places
    fix: Places | None = None
    is_unseen: bool = False
    ends: tuple[Any, Any] = ENDS


OTHER, LAYERS, AGAIN = net(), Layers(), Layers(is_checkpointed=True)
IN, AT_B, BMM, EINSUM = ("linear", "a.inner"), ("bmm", "b"), ("bmm", ""), ("einsum", "")
LINEAR, LINEAR_B, DEEP = ("linear", ""), ("linear", "b"), ("linear", "a.inner.deep")
FIRST = ("linear", "first")
MOST = 40  # Each search may need at most this many runs.
FP32 = ("fp32", "built-in")
INJECTED = {
    "an op in a module": Injected(failing({IN}), MODEL, [IN]),
    **{f"{op} in b": Injected(failing({(op, "b")}), MODEL, [(op, "b")]) for op in OPS},
    "an op in the model itself": Injected(failing({("matmul", "")}), MODEL, [("matmul", "")]),
    "an op deep inside": Injected(failing({DEEP}), MODEL, [DEEP]),
    "an op, without a model": Injected(failing({IN}), None, [LINEAR]),
    "an op, of all in float32": Injected(failing({IN}), MODEL, [IN], ends=FP32),
    "two together": Injected(failing({IN, AT_B}), MODEL, [IN, AT_B], [IN]),
    "two ops of a module together": Injected(failing({AT_B, LINEAR_B}), MODEL, [AT_B, LINEAR_B], [LINEAR_B]),
    "an op in two modules together": Injected(failing({IN, LINEAR_B}), MODEL, [IN, LINEAR_B], [LINEAR_B]),
    "a module and its submodule": Injected(failing({IN, DEEP}), MODEL, [IN, DEEP], [DEEP]),
    "three together": Injected(failing({IN, AT_B, DEEP}), MODEL, [IN, AT_B, DEEP], [DEEP]),
    "two together, without a model": Injected(failing({IN, AT_B}), None, [LINEAR, BMM], [LINEAR]),
    "either of two": Injected(failing({IN}, {AT_B}), MODEL, [IN, AT_B]),
    "either of two ops of a module": Injected(failing({AT_B}, {LINEAR_B}), MODEL, [AT_B, LINEAR_B]),
    "either of three": Injected(failing({IN}, {AT_B}, {LINEAR_B}), MODEL, [IN, AT_B, LINEAR_B]),
    "one, or two together": Injected(failing({IN}, {AT_B, DEEP}), MODEL, [IN, AT_B, DEEP], [IN]),
    "backward: a gradient underflows": Injected(gradient_survives, MODEL, [BMM]),
    "backward: a function's own op": Injected(backward_is_exact, None, [("mm", "")]),
    "forward in a training step": Injected(partial(LAYERS.is_finite, is_trained=True), LAYERS, [FIRST]),
    "a checkpointed layer": Injected(partial(AGAIN.is_finite, is_trained=True), AGAIN, [FIRST]),
    "an inference": Injected(LAYERS.is_finite, LAYERS, [FIRST], ends=FP32),
    "the loss": Injected(partial(is_float, OPS["bmm"]), MODEL, [BMM]),
    "a loss of another module": Injected(lambda: failing({AT_B}, model=OTHER)(), MODEL, [BMM]),
    "a shared module": Injected(failing({AT_B}, model=SHARED), SHARED, [AT_B]),
    "a compiled part": Injected(partial(is_float, COMPILED), MODEL, [BMM]),
    "a compiled part, without a model": Injected(partial(is_float, COMPILED), None, [BMM]),
    "a thread": Injected(lambda: in_a_thread(partial(is_float, OPS["bmm"])), MODEL, [BMM], is_unseen=True),
    "a module in a thread": Injected(lambda: in_a_thread(failing({IN})), MODEL, [IN], is_unseen=True),
    "a worker": Injected(in_a_worker, MODEL, [BMM], is_unseen=True),
    "a worker of a loader": Injected(in_a_loader, MODEL, [BMM], is_unseen=True),
    "a child process": Injected(in_a_child_process, MODEL, [BMM], is_unseen=True),
    "a region with rules": Injected(in_a_region_with_rules, MODEL, [IN]),
    "a module with rules": Injected(failing({IN}, model=WITH_RULES), WITH_RULES, [IN]),
    "a module and a region with rules": Injected(partial(in_a_region_with_rules, WITH_RULES), WITH_RULES, [IN]),
    "the module of the rules": Injected(failing({("linear", "a")}, model=WITH_RULES), WITH_RULES, [("linear", "a")]),
    "a layer next to one whose outer module has rules": Injected(ends_in_float, WRAPPED, [("linear", "1")]),
    "an op and the op that it runs": Injected(einsum_is_exact, None, [EINSUM]),
    "an op and the op that it runs, next to a model": Injected(einsum_is_exact, MODEL, [EINSUM]),
    "an op, and another that it does not run": Injected(
        lambda: einsum_is_exact() or is_float(OPS["linear"]), None, [EINSUM, LINEAR], [EINSUM]
    ),
    "an op, and the op that it runs in another module": Injected(
        lambda: einsum_is_exact() or failing({AT_B})(), MODEL, [AT_B, EINSUM], [EINSUM]
    ),
    "an op with an overload that runs the other": Injected(partial(is_float, SUM), None, [("sum", "")], ends=FP32),
    "rules that one pass over the fix keeps": Injected(needs_fewer_rules_later, MODEL, [AT_B, IN, DEEP], [DEEP]),
    "an op that another runs, and the other": Injected(partial(einsum_is_exact, also_bmm=True), None, [BMM]),
    "an op next to one that runs it": Injected(bmm_is_exact_next_to_einsum, None, [BMM]),
    "softmax and the op that it runs": Injected(
        partial(is_float, OPS["softmax"]), MODEL, [("softmax", "")], ends=("fp32", {"_softmax": LOWER})
    ),
    "softmax": Injected(
        partial(is_float, OPS["softmax"]), None, [("softmax", "")], ends=({"softmax": "fp32"}, {"softmax": LOWER})
    ),
}

# These programs have no culprit. The last value is a part of the error.
NOTHING = {
    "nothing wrong": (lambda: True, MODEL, "which it is good; check that it runs ops in"),
    "nothing wrong, without a model": (lambda: True, None, "which it is good; check that it runs ops in"),
    "float32 fails too": (lambda: False, MODEL, "mixed precision, because the program also fails in float32"),
    "float32 raises too": (lambda: 1 / 0, None, "mixed precision, because the program also fails in float32"),
    "a region with rules, without a model": (in_a_region_with_rules, None, "remove its regions' rules for linear"),
}


@pytest.mark.parametrize("name", INJECTED)
def test_injected_culprits_are_found_with_the_smallest_fix(name: str) -> None:
    injected = INJECTED[name]
    found = bisect(injected.check, *injected.ends, model=injected.model)
    print(found)
    assert sorted(one[:2] for one in found.culprits) == sorted(injected.culprits)
    rules = {"": found.policy, **found.modules}
    fix = {
        (str(op).partition(".")[0], module)
        for module, policy in rules.items()
        for op in policy
        if "fp32" in str(policy.rules[op])
    }
    assert found.proved and sorted(fix) == sorted(injected.culprits if injected.fix is None else injected.fix)
    assert found.runs <= MOST
    assert ("was not recorded: a compiled part, another thread" in str(found)) is injected.is_unseen
    together = len(injected.culprits) > len(fix)
    assert ("fail only together, so one of their rules is enough for a fix." in str(found)) is together


@pytest.mark.parametrize("name", NOTHING)
def test_a_search_with_nothing_to_find_states_the_reason(name: str) -> None:
    check, model, text = NOTHING[name]
    with pytest.raises(
        ValueError, match=r"^(good|bad): expected a policy under which the program is (good|bad)"
    ) as caught:
        bisect(check, "fp32", model=model)
    assert text in str(caught.value)


@pytest.mark.slow
def test_a_child_process_that_imports_polycast_follows_the_rules() -> None:
    found = bisect(in_a_real_child_process, *ENDS)
    assert [one.op for one in found.culprits] == ["matmul"]


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("culprits", [({IN},), ({IN, AT_B},), ({IN}, {AT_B})], ids=["one", "two together", "either"])
@pytest.mark.parametrize(("of_good", "of_bad"), [(0.1, 0.0), (0.0, 0.1), (0.1, 0.1), (0.0, 0.3)])
def test_a_program_that_fails_at_random_rarely_yields_a_wrong_culprit(
    of_good: float, of_bad: float, culprits: tuple[set[tuple[str, str]], ...], count: int
) -> None:
    """With wrong results at the rates ``of_good`` and ``of_bad``, at most 1.6 % of searches name a wrong culprit."""
    answers, right = Counter[str](), sorted(one for culprit in culprits for one in culprit)
    for seed in range(count):
        draw = random.Random(seed)

        def check(draw: random.Random = draw) -> bool:
            return failing(*culprits)() is (draw.random() >= (of_good if failing(*culprits)() else of_bad))

        try:
            found = bisect(check, GOOD, model=MODEL)
            answers["right" if sorted(one[:2] for one in found.culprits) == right else "wrong"] += 1
            assert "at most 1.6% of searches" in found.notes[-1]
        except ValueError as error:
            assert "it fails at random" in str(error) or str(error).startswith(("good: expected", "bad: expected"))
    assert answers["wrong"] <= 0.016 * count
