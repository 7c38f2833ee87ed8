"""Every row of every op list in the documents, called by its public names in a region: does it keep its promise?"""

import pytest

from testing.samples.documented import ROWS, Row, check


@pytest.mark.parametrize(
    ("column", "row"),
    [pytest.param(row.device, row, id=str(row)) for row in ROWS],
    indirect=["column"],
    scope="module",
)
@pytest.mark.usefixtures("column")
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_a_documented_row_holds(row: Row) -> None:
    check(row)
