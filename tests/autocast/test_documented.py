"""Every row of every op list in the documents, called by its public name in a region: does it keep its promise?"""

import pytest
import torch

from tests.probe import device_type, flatten, probes, reach, region, tensors_of
from tests.samples.documented import ROWS, Row
from tests.samples.ops import Make

F32 = torch.float32


def _name(row: Row) -> str:
    return (
        f"{row.document[:3]}-{row.device}-{str(row.lower_precision).removeprefix('torch.')}-{row.category}-{row.name}"
    )


@pytest.mark.parametrize(
    ("column", "row"),
    [pytest.param(row.device, row, id=_name(row)) for row in ROWS],
    indirect=["column"],
    scope="module",
)
def test_a_documented_row_holds(column: str, row: Row) -> None:
    check(column, row)


def check(column: str, row: Row) -> None:
    """Assert that a row keeps its promise, with whatever kernels are in force."""
    lower = row.lower_precision
    with tensors_of(column), region(column, lower):
        if row.category == "banned":
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                row.call(Make(device_type(column), F32))
        elif row.category == "lower_precision_fp":
            assert types(column, row, F32) == {lower}
        elif row.category == "fp32":
            assert types(column, row, lower) <= {F32, torch.complex64}
        else:
            assert types(column, row, lower, F32) == {F32}
            assert types(column, row, lower) == {lower}


def types(column: str, row: Row, *dtypes: torch.dtype) -> set[torch.dtype]:
    """Return the types that a call gives, or where no result can be had without the device, those that it runs in."""
    make = Make(device_type(column), *dtypes)
    if row.probe is None:
        found = {tensor.dtype for tensor in flatten(row.call(make))}
    else:
        with probes(column, [row.probe]):
            found = set(reach(lambda: row.call(make)).tensors)
    found = {dtype for dtype in found if dtype.is_floating_point or dtype.is_complex}
    assert found, "a row without a floating-point result proves nothing"
    return found
