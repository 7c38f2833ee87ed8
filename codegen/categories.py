"""Categories, names of overloads, and signatures, which determine the categories that an overload can have."""

from dataclasses import dataclass
from enum import Enum

UNLISTED = "unlisted"
DEFAULT = "default"  # PyTorch calls this overload ""
FUNCTIONAL = "functional"
VIEW = "view"


class Category(Enum):
    """A way in which autocast casts an op. The first five names are PyTorch's."""

    LOWER_PRECISION_FP = "lower_precision_fp"
    FP32 = "fp32"
    FP32_SET_OPT_DTYPE = "fp32_set_opt_dtype"
    FP32_APPEND_DTYPE = "fp32_append_dtype"
    PROMOTE = "promote"
    BANNED = "banned"
    INPUT_DTYPE = "input_dtype"
    STOCK = "stock"


def join_name(op: str, overload: str | None) -> str:
    """Return the name of an overload. The name of the default overload, or of None, is the name of its op."""
    return op if overload in (None, DEFAULT) else f"{op}.{overload}"


def split_name(name: str) -> tuple[str, str | None]:
    """Return the op and the overload of a name. The overload is None if the name does not contain an overload."""
    op, _, overload = name.partition(".")
    return op, overload or None


@dataclass(frozen=True)
class Signature:
    """The properties of an overload's schema that restrict its categories. See also `csrc/autocast/obstacles.cpp`.

    `variant` is `FUNCTIONAL` if calls can be cast, or the name of a variant that writes to its arguments, such as
    "inplace". It is `VIEW` if the overload can return an argument or a view of one, and no recorded release casts the
    overload. `tensors` is the number of tensor arguments, where a list counts as two.
    """

    variant: str
    arguments: tuple[str, ...]
    tensors: int
    takes_optional_dtype: bool
    ends_with_dtype: bool

    def obstacle(self, category: Category | None) -> tuple[str, str] | None:
        """Return the reason why the overload cannot have a category (None: any category), and a remedy, or None."""
        if self.variant == VIEW:  # for example, `squeeze` returns a view, and `reshape` may return one
            return "can return a view of its argument, and a cast would break that aliasing", "remove the rule"
        if self.variant != FUNCTIONAL:
            return f"writes to an argument ({self.variant} variant)", "name an op or overload that returns a new tensor"
        if not self.tensors:
            return "accepts no tensor", "remove the rule"
        if category is Category.FP32_SET_OPT_DTYPE and not self.takes_optional_dtype:
            return "has no optional dtype argument", "use fp32"
        if category is Category.LOWER_PRECISION_FP and "running_mean" in self.arguments:
            return "updates its running statistics, and an update of cast copies would be lost", "use fp32"
        if category is Category.PROMOTE and self.tensors < 2:
            return "accepts only one tensor", "use fp32 or lower_precision_fp"
        return None
