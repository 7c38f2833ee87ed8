"""The categories and dtypes that a rule can have as its value."""

from polycast._dtypes import dtype_named
from polycast._extension import CATEGORIES
from polycast._suggest import did_you_mean

STOCK, UNLISTED = "stock", "unlisted"
# A rule has one of these values: a category, "unlisted", or a dtype that replaces the lower precision of the region.
VALUES = (*(name for name in CATEGORIES if name != STOCK), UNLISTED, *("float16", "bfloat16", "float64"))


def canonical(text: str) -> str:
    """Return the form in which a category or a dtype is printed and saved. Any other string is unchanged.

    Example:
        >>> from polycast.policy.categories import canonical
        >>> canonical("float32"), canonical("bf16"), canonical("promote")
        ('fp32', 'bfloat16', 'promote')
    """
    dtype = dtype_named(text)
    return "fp32" if dtype == "float32" else dtype or text


def not_a_category(text: str) -> tuple[str, str]:
    """Return the problem and the remedy for a string that is not in ``VALUES``."""
    if text == STOCK:
        return f"'{text}' is for policy.yaml only, because no rule restores PyTorch's own kernel", "remove it"
    return f"expected a category, or a dtype that a rule can cast to, got '{text:.60}'", did_you_mean(text, VALUES)
