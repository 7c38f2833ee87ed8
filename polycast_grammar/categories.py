"""Categories of a policy, and what of its schema a category must know."""

from dataclasses import dataclass
from enum import Enum

UNLISTED = "unlisted"
FUNCTIONAL = "functional"
VIEW = "view"
NESTED = "nested"

# What users call dtypes, as code in torch and trainers' switches do.
SPOKEN_DTYPES = {
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "float": "float32",
    "f32": "float32",
    "double": "float64",
    "fp64": "float64",
}


class Category(Enum):
    """What autocasting does to an op; named as PyTorch names them."""

    LOWER_PRECISION_FP = "lower_precision_fp"
    FP32 = "fp32"
    FP32_SET_OPT_DTYPE = "fp32_set_opt_dtype"
    FP32_APPEND_DTYPE = "fp32_append_dtype"
    PROMOTE = "promote"
    BANNED = "banned"
    FALLTHROUGH = "fallthrough"
    STOCK = "stock"


@dataclass(frozen=True)
class Signature:
    """What a category must know of an overload's schema; torchgen tells it at the build, the dispatcher at run time.

    `variant` is FUNCTIONAL, or says why no call can be cast: how the overload writes to its arguments; VIEW, where it
    can return an argument or a view of one; NESTED, where it takes tensors in deeper containers than lists. `tensors`
    is how many a call can bring, a list counting as many.
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
        """Return why a call cannot be cast, whatever the category, and a remedy; None where it can."""
        if self.variant == VIEW:  # such as squeeze, whose result may be written to, and reshape, if nothing has to move
            return "can return a view of its argument, which a cast would cut off", "leave it out"
        if self.variant == NESTED:
            return "takes tensors in dictionaries, tuples or lists of lists, which are not cast", "leave it out"
        if self.variant != FUNCTIONAL:
            return f"is the {self.variant} variant", "name functional overloads only; others do not autocast"
        return None if self.tensors else ("takes no tensor", "leave it out")

    def obstacle(self, category: Category | None) -> tuple[str, str] | None:
        """Return why a call cannot be cast as a category says, whatever other overloads there are, and a remedy.

        No category is "unlisted".
        """
        if (reason := self.uncastable()) is not None:
            return reason
        if category is Category.FP32_SET_OPT_DTYPE and not self.takes_optional_dtype:
            return "takes no optional dtype", "use fp32"
        if category is Category.PROMOTE and self.tensors < 2:
            return "takes one tensor", "use fp32 or lower_precision_fp"
        return None
