"""A call of an overload in a region, with arguments made from its schema, and what arrives below autocast."""

import torch
from polycast.devices import device_type_of

from tests.support.arguments import Maker
from tests.support.cases import Case
from tests.support.probe import ReachedError, reach, region, tensors_of


def call(
    case: Case, dtypes: list[torch.dtype], lower: torch.dtype, **options: object
) -> tuple[list[torch.dtype], ReachedError]:
    """Call the overload of a case in a region; return the dtypes of its tensors and what arrived below autocast."""
    overload = getattr(getattr(torch.ops.aten, case.op), case.overload)
    with tensors_of(case.device), region(case.device, lower):
        maker = Maker(device_type_of(case.device), dtypes)
        args, kwargs = maker.arguments(overload._schema)
        return maker.made, reach(lambda: overload(*args, **kwargs, **options))
