"""Categories, and the signatures that say which ops can have them."""

from dataclasses import dataclass
from enum import Enum

from .dtypes import dtype_named

UNLISTED = "unlisted"
FUNCTIONAL = "functional"
VIEW = "view"
NESTED = "nested"


class Category(Enum):
    """What autocasting does to an op. The names are PyTorch's."""

    LOWER_PRECISION_FP = "lower_precision_fp"
    FP32 = "fp32"
    FP32_SET_OPT_DTYPE = "fp32_set_opt_dtype"
    FP32_APPEND_DTYPE = "fp32_append_dtype"
    PROMOTE = "promote"
    BANNED = "banned"
    INPUT_DTYPE = "input_dtype"
    STOCK = "stock"


def canonical(text: str) -> str:
    """Return the one spelling of a category or dtype that rules are printed and saved with; other text as it is.

    Example:
        >>> from polycast._grammar.categories import canonical
        >>> canonical("float32"), canonical("bf16"), canonical("promote")
        ('fp32', 'bfloat16', 'promote')
    """
    dtype = dtype_named(text)
    return Category.FP32.value if dtype == "float32" else dtype or text


@dataclass(frozen=True)
class Signature:
    """What a category must know of an overload's schema. The build reads it by torchgen, polycast from the dispatcher.

    `variant` is FUNCTIONAL if calls can be cast. Otherwise it is how the overload writes to its arguments, VIEW if it
    can return an argument or a view of one, or NESTED if it takes tensors in containers other than lists. `tensors` is
    how many tensors a call can have; a list counts as two.
    """

    variant: str
    arguments: tuple[str, ...]
    tensors: int
    takes_optional_dtype: bool
    ends_with_dtype: bool

    def is_followed_by_dtype(self, longer: "Signature") -> bool:
        """Return whether another overload takes the same arguments, and then a dtype."""
        return longer.ends_with_dtype and longer.arguments[:-1] == self.arguments

    def uncastable(self) -> tuple[str, str] | None:
        """Return why no category can cast the overload, and a remedy; None if one can."""
        if self.variant == VIEW:  # such as squeeze, whose result may be written to, and reshape, if nothing has to move
            return "can return a view of its argument, which a cast would cut off", "leave it out"
        if self.variant == NESTED:
            return "takes tensors in dictionaries, tuples or lists of lists, which are not cast", "leave it out"
        if self.variant != FUNCTIONAL:
            return f"is the {self.variant} variant", "name functional overloads only; others do not autocast"
        return None if self.tensors else ("takes no tensor", "leave it out")

    def obstacle(self, category: Category | None) -> tuple[str, str] | None:
        """Return why a category cannot cast the overload, and a remedy; None if it can.

        No category is "unlisted".
        """
        if (reason := self.uncastable()) is not None:
            return reason
        if category is Category.FP32_SET_OPT_DTYPE and not self.takes_optional_dtype:
            return "takes no optional dtype", "use fp32"
        if category is Category.PROMOTE and self.tensors < 2:
            return "takes one tensor", "use fp32 or lower_precision_fp"
        return None
