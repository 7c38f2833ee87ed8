"""Categories, and the values that a rule can have."""

from polycast._dtypes import dtype_named
from polycast._extension import CATEGORIES
from polycast._suggest import did_you_mean

STOCK, UNLISTED = "stock", "unlisted"
# The values of a rule: a category, "unlisted", or a dtype that replaces the lower precision of the region.
VALUES = (*(name for name in CATEGORIES if name != STOCK), UNLISTED, *("float16", "bfloat16", "float64"))


def canonical(text: str) -> str:
    """Return a category or a dtype as it is printed and saved. Return any other string unchanged.

    Example:
        >>> from polycast.policy.categories import canonical
        >>> canonical("float32"), canonical("bf16"), canonical("promote")
        ('fp32', 'bfloat16', 'promote')
    """
    dtype = dtype_named(text)
    return "fp32" if dtype == "float32" else dtype or text


def not_a_category(text: str) -> tuple[str, str]:
    """Return the problem and the remedy for a string that is not one of VALUES."""
    if text == STOCK:
        return f"'{text}' is for policy.yaml only, because no rule restores PyTorch's own kernel", "remove it"
    return f"unknown category '{text:.60}'", did_you_mean(text, VALUES)
