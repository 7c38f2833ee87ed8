"""What a policy says of one overload on one device."""

from typing import NamedTuple

from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.errors import did_you_mean
from polycast.policy.operators import shown

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
    """A rule, which replaces what policy.yaml says of the overload on the device.

    With a dtype the category is lower_precision_fp, and the dtype replaces the region's. The source is a place in a
    file, or a path in a dict.
    """

    name: str
    overload: str
    column: str
    category: str
    dtype: str | None
    message: str
    source: str
    note: str = ""

    @property
    def value(self) -> str:
        """The category as rules write it."""
        return self.dtype or self.category

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name, self.overload, self.column

    @property
    def op(self) -> str:
        return shown(self.name, self.overload)


def make_rule(name: str, overload: str, column: str, value: str, source: str, note: str = "") -> Rule:
    """Return the rule with one of VALUES."""
    category, dtype = VALUES[value]
    text = UNLISTED if category is None else category.value
    rule = Rule(name, overload, column, text, dtype, "", source, note)
    if category is Category.BANNED:
        return rule._replace(message=f"'{rule.op}' is banned on {column} by {source}")
    return rule
