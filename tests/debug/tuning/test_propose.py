"""Plans give float32 to what is in danger, and else the faster precision to neighbours together."""

import math
from random import Random

import pytest
import torch
from polycast.debug.tuning.choices import Key, category
from polycast.debug.tuning.evidence import FP32, LOWER_PRECISION, Evidence
from polycast.debug.tuning.propose import Candidate, propose
from polycast.policy.plan import Plan

BF16 = torch.bfloat16


def op(
    name: str,
    module: str,
    wide: float,
    lower: float,
    casts: dict[int, float] | None = None,
    *,
    error: float = 0.0,
    rounding: float = 0.0,
    overflow: float = 0.0,
) -> Evidence:
    """Return the evidence of one call; `lower` are its seconds without casts."""
    casts = casts or {}
    seconds = {FP32: wide, LOWER_PRECISION: lower + sum(casts.values())}
    return Evidence("Net", module, name, "cpu", 1, 1.0, 1.0, overflow, 0.0, error, rounding, seconds, casts)


def categories(candidate: Candidate, evidence: list[Evidence]) -> list[str]:
    return [category(candidate.plan, Key(one.model, one.module, one.op, one.device)) for one in evidence]


LOW, FOLLOWS = "lower_precision_fp", "unlisted"
TABLE: dict[str, tuple[list[Evidence], list[str]]] = {
    "faster": ([op("linear", "0", 2.0, 1.0)], [LOW]),
    "slower": ([op("linear", "0", 1.0, 2.0)], [FP32]),
    "as fast, so that the built-in policy stays": ([op("linear", "0", 1.0, 1.02)], [LOW]),
    "slower by its casts": (
        [op("linear", "0", 1.0, 2.0), op("conv2d", "1", 2.0, 1.5, {0: 1.0}), op("relu", "2", 1.0, 1.0, {1: 1.0})],
        [FP32, FP32, FOLLOWS],
    ),
    "neighbours that gain together": (
        [op("linear", "0", 2.0, 1.5), op("relu", "1", 1.0, 1.2, {0: 1.0}), op("conv2d", "2", 2.0, 1.5, {1: 1.0})],
        [LOW, FOLLOWS, LOW],
    ),
    "an unlisted op that is slow": ([op("linear", "0", 2.0, 1.0), op("gelu", "1", 1.0, 4.0, {0: 0.5})], [LOW, FP32]),
    "a loss that is fast": (
        [op("linear", "0", 2.0, 1.0), op("mse_loss", "", 2.0, 0.5, {0: 0.5})],
        [LOW, "input_dtype"],
    ),
    "an error": ([op("linear", "0", 2.0, 1.0, error=0.5)], [FP32]),
    "an infinite error": (
        [op("linear", "0", 2.0, 1.0), op("pow", "1", 1.0, 1.0, {0: 0.1}, error=math.inf)],
        [LOW, FP32],
    ),
    "an overflow that does no harm": (
        [op("linear", "0", 2.0, 1.0, overflow=0.5), op("gelu", "1", 1.0, 4.0, {0: 0.5})],
        [LOW, FP32],
    ),
    "a norm of large mean": (
        [op("conv2d", "0", 2.0, 1.0), op("batch_norm", "1", 1.0, 1.0, {0: 0.1}, rounding=1.0)],
        [FP32, FOLLOWS],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_boldest_plan(name: str) -> None:
    evidence, expected = TABLE[name]
    assert categories(propose(evidence, BF16)[0], evidence) == expected


def test_the_last_is_the_built_in_policy_and_each_is_another_one() -> None:
    for evidence, _ in TABLE.values():
        plans = [one.plan for one in propose(evidence, BF16)]
        assert plans[-1] == Plan() and Plan(FP32) not in plans
        assert len({*plans}) == len(plans)


def test_where_ops_have_no_times_all_that_is_safe_has_the_lower_precision() -> None:
    """As on a device that compiles a step as a whole."""
    chain = [op("linear", "0", 0, 0), op("relu", "1", 0, 0, {0: 0.0}), op("linear", "2", 0, 0, {1: 0.0}, error=0.5)]
    untimed = [one._replace(seconds={}) for one in chain]
    assert categories(propose(untimed, BF16)[0], untimed) == [LOW, FOLLOWS, FP32]


def test_a_careful_plan_widens_what_overflows_and_all_that_is_before_a_difference() -> None:
    chain = [op("conv2d", "0", 2.0, 1.0), op("relu", "1", 1.0, 0.5, {0: 0.1})]
    norm = op("batch_norm", "2", 1.0, 1.0, {1: 0.1}, rounding=1.0)
    bold, *_, careful, _ = propose([*chain, norm, op("linear", "3", 2.0, 1.0, overflow=0.1)], BF16)
    evidence = [*chain, norm, op("linear", "3", 2.0, 1.0)]
    assert categories(bold, evidence) == [LOW, FP32, FOLLOWS, LOW]
    assert categories(careful, evidence) == [FP32, FOLLOWS, FOLLOWS, FP32]


def test_rules_are_those_of_ops_where_all_modules_agree() -> None:
    alike = [op("linear", str(place), 1.0, 2.0) for place in range(3)]
    assert propose(alike, BF16)[0].plan == Plan({"linear": {"cpu": FP32}})
    apart = [
        op("linear", str(place), 2.0, 1.0, error=math.inf * (place == 1) if place == 1 else 0) for place in range(3)
    ]
    assert propose(apart, BF16)[0].plan == Plan(None, {"Net": {"1": {"linear": {"cpu": FP32}}}})


@pytest.mark.parametrize("is_timed", [True, False])
def test_random_networks_have_plans_that_no_op_refuses(is_timed: bool) -> None:
    """In-place ops take no rule."""
    random = Random(0)
    for _ in range(100):
        evidence: list[Evidence] = []
        for place in range(12):
            name = random.choice(["linear", "conv2d", "relu", "relu_", "add_", "batch_norm", "softmax"])
            # An op that is called again is also given what comes after it.
            others = random.sample([other for other in range(12) if other != place], random.randint(0, 2))
            casts = {other: random.random() for other in others}
            dangers = {"error": random.random() < 0.2, "overflow": random.random() < 0.2}
            made = op(name, f"{place % 3}.{place}", random.random(), random.random(), casts, **dangers)
            evidence.append(made._replace(rounding=float(random.random() < 0.1)))
        evidence = [one if is_timed else one._replace(seconds={}) for one in evidence]
        for candidate in propose(evidence, BF16)[:-1]:
            held = categories(candidate, evidence)
            assert all(category != LOW for one, category in zip(evidence, held, strict=True) if one.error), (
                candidate.plan
            )
