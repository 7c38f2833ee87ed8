"""Plans of few rules, from the category of each op in each module."""

import pytest
from polycast.debug.tuning.choices import Key, category, plan_of
from polycast.policy.plan import Plan

LOWER = "lower_precision_fp"


def key(name: str, op: str = "linear") -> Key:
    model, _, module = name.partition(".")
    return Key(model, module, op, "cpu")


@pytest.mark.parametrize(
    ("categories", "plan"),
    [
        ({"Net.a": LOWER, "Net.b": LOWER}, Plan()),  # as the built-in policy has it
        ({"Net.a": "fp32", "Net.b": "fp32"}, Plan({"linear": {"cpu": "fp32"}})),
        ({"Net.a": "fp32", "Net.b": LOWER, "Net.c": LOWER}, Plan({}, {"Net": {"a": {"linear": {"cpu": "fp32"}}}})),
        (
            {"Net.a": "fp32", "Net.b": LOWER, "Net.c": "fp32"},
            Plan({"linear": {"cpu": "fp32"}}, {"Net": {"b": {"linear": {"cpu": LOWER}}}}),
        ),
        # A rule of a module also holds in the modules inside.
        (
            {"Net.a": "fp32", "Net.a.b": LOWER, "Net.c": LOWER},
            Plan({}, {"Net": {"a": {"linear": {"cpu": "fp32"}}, "a.b": {"linear": {"cpu": LOWER}}}}),
        ),
        (
            {"Net.a": "fp32", "Net.a.b": "fp32", "Net.c": LOWER, "Net.d": LOWER},
            Plan({}, {"Net": {"a": {"linear": {"cpu": "fp32"}}}}),
        ),
        (
            {"Net": "fp32", "Net.a": LOWER, "Net.b": LOWER},
            Plan(
                {},
                {
                    "Net": {
                        "": {"linear": {"cpu": "fp32"}},
                        "a": {"linear": {"cpu": LOWER}},
                        "b": {"linear": {"cpu": LOWER}},
                    }
                },
            ),
        ),
        # Outside of modules only rules under `ops` hold.
        (
            {"": "fp32", "Net.a": LOWER, "Net.b": LOWER},
            Plan(
                {"linear": {"cpu": "fp32"}}, {"Net": {"a": {"linear": {"cpu": LOWER}}, "b": {"linear": {"cpu": LOWER}}}}
            ),
        ),
    ],
)
def test_the_plan_of_categories(categories: dict[str, str], plan: Plan) -> None:
    keys = {key(name): value for name, value in categories.items()}
    made = plan_of(keys)
    assert made == plan, str(made)
    assert {one: category(made, one) for one in keys} == keys


def test_the_note_of_a_rule_is_of_all_that_it_decides() -> None:
    keys = {key("Net.a"): "fp32", key("Net.a.b"): "fp32", key("Net.c"): LOWER, key("Net.d"): LOWER}
    plan = plan_of(keys, lambda decided: " ".join(one.module for one in decided))
    assert plan.models["Net"]["a"].rules == {"linear": {"cpu": {"as": "fp32", "note": "a a.b"}}}
