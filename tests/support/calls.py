"""Calls of overloads in a region, with arguments from their schemas, and the dtypes below autocast."""

import torch
from polycast.cast_by_hand import expected
from polycast.devices import device_type_of

from tests.support.below import Maker, overload_of
from tests.support.cases import Case
from tests.support.probe import ReachedError, reach, region, tensors_of

F32, HALF, BF16 = torch.float32, torch.float16, torch.bfloat16
EXPLICIT = {"float16": HALF, "bfloat16": BF16, "float64": torch.float64}
SETS_A_DTYPE = ("fp32_set_opt_dtype", "fp32_append_dtype")


def call(
    case: Case, dtypes: list[torch.dtype], lower: torch.dtype, **options: object
) -> tuple[list[torch.dtype], ReachedError]:
    """Call the overload of a case in a region, and return the dtypes of its tensors and the call below autocast."""
    overload = overload_of(case.name)
    with tensors_of(case.device), region(case.device, lower):
        maker = Maker(device_type_of(case.device), dtypes)
        args, kwargs = maker.arguments(overload._schema)
        return maker.made, reach(lambda: overload(*args, **kwargs, **options))


def check_call(case: Case, given: list[torch.dtype], lower: torch.dtype) -> None:
    """Assert that a call reaches the case's overload below autocast, in the dtypes that the category requires."""
    made, reached = call(case, given, lower)
    tensors, dtypes = made, reached.dtypes
    if case.category in SETS_A_DTYPE:
        appended = [made[0]] if case.category == "fp32_append_dtype" else []
        dtypes = [F32] if made[0] in (F32, HALF, BF16) else appended
    else:
        category = "lower_precision_fp" if case.category in EXPLICIT else case.category
        tensors = expected(category, made, EXPLICIT.get(case.category, lower))
    assert (reached.name, reached.tensors, reached.dtypes) == (case.reaches, tensors, dtypes), (made, lower)
