"""Categories, and the values that a rule can have."""

from enum import Enum

from polycast._dtypes import dtype_named
from polycast._suggest import did_you_mean

UNLISTED = "unlisted"


class Category(Enum):
    """A way in which autocast casts an op. The names are PyTorch's."""

    LOWER_PRECISION_FP = "lower_precision_fp"
    FP32 = "fp32"
    FP32_SET_OPT_DTYPE = "fp32_set_opt_dtype"
    FP32_APPEND_DTYPE = "fp32_append_dtype"
    PROMOTE = "promote"
    BANNED = "banned"
    INPUT_DTYPE = "input_dtype"
    STOCK = "stock"


STOCK = Category.STOCK.value
# The values of a rule: a category, "unlisted", or a dtype that replaces the lower precision of the region.
VALUES = (
    *(category.value for category in Category if category is not Category.STOCK),
    UNLISTED,
    *("float16", "bfloat16", "float64"),
)


def canonical(text: str) -> str:
    """Return the spelling with which a category or a dtype is printed and saved. Any other text stays unchanged.

    Example:
        >>> from polycast.policy.categories import canonical
        >>> canonical("float32"), canonical("bf16"), canonical("promote")
        ('fp32', 'bfloat16', 'promote')
    """
    dtype = dtype_named(text)
    return Category.FP32.value if dtype == "float32" else dtype or text


def not_a_category(text: str) -> tuple[str, str]:
    """Return the problem and the remedy of a text that is not one of VALUES."""
    if text == STOCK:
        return f"'{text}' is for policy.yaml only, because no rule restores PyTorch's own kernel", "remove it"
    return f"unknown category '{text:.60}'", did_you_mean(text, VALUES)
