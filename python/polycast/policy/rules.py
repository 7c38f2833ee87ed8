"""What a policy says of one overload of an op on one device."""

from typing import NamedTuple

from polycast._compiled import built_in_rules
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.errors import did_you_mean
from polycast._grammar.names import join_name

ATEN = "aten::"
# What a rule can give an op: a category, a dtype that replaces the region's, or "unlisted".
VALUES: dict[str, tuple[Category | None, str | None]] = {
    **{category.value: (category, None) for category in Category if category is not Category.STOCK},
    UNLISTED: (None, None),
    **{dtype: (Category.LOWER_PRECISION_FP, dtype) for dtype in ("float16", "bfloat16", "float64")},
}


def not_a_category(text: str) -> tuple[str, str]:
    """Return the problem and the remedy of a text that is none of VALUES."""
    if text == Category.STOCK.value:
        return f"'{text}' is for policy.yaml alone, since no rule brings torch's own kernel back", "leave it out"
    return f"unknown category '{text:.60}'", did_you_mean(text, VALUES)


class Rule(NamedTuple):
    """What a policy says of one overload of an op on one device.

    Fields:
        op: The op, without the namespace of ATen: "softmax", "mylib::attention".
        overload: The overload, as in "int"; "default" for the one without a name.
        device: A device of the policy.
        category: A category, or a dtype, which replaces the region's, or "unlisted".
        note: Why, in a sentence; empty where nothing is said. A built-in rule has one where it differs from torch's.
        source: "policy.yaml", or a place in a file, or a path in a dict.
    """

    op: str
    overload: str
    device: str
    category: str
    note: str = ""
    source: str = "policy.yaml"

    @property
    def name(self) -> str:
        """The overload as people write it: "softmax.int"; the default overload has the name of its op."""
        return join_name(self.op, self.overload)

    @property
    def key(self) -> tuple[str, str, str]:
        """What the rule is about: op, overload and device."""
        return self.op, self.overload, self.device


# The rules of policy.yaml.
BUILT_IN: tuple[Rule, ...] = tuple(Rule(*row) for row in built_in_rules())
