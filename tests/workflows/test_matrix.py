"""The tables in ``docs/works_with.md``: a program computes each cell. ``--rewrite-works-with`` writes the tables."""

import re
from collections.abc import Iterator

import pytest

from tests.support.devices import NEEDS_XLA
from tests.support.snippets import ROOT, page
from tests.workflows.matrix import FEATURES, OTHERS, POLICIES, WAYS, verdict

# PyTorch warns about `jit.trace`, about FSDP1 in one process, and about a `Function` that dynamo traces.
IGNORED = (".*torch.jit.trace", "FSDP is switching", "<class 'torch.autograd")
pytestmark = [
    pytest.mark.usefixtures("world_of_one", "one_thread"),
    pytest.mark.filterwarnings(*(f"ignore:{text}" for text in IGNORED), "ignore::torch.jit.TracerWarning"),
]
NAME, REWRITE = "docs/works_with.md", "rewrite_works_with"
TABLE = re.compile(r"^\| \|(?:.+\n)+", re.MULTILINE)
ERRORS = re.compile(r"^(?:\d+\. `.+`\n)+", re.MULTILINE)
EACH_WAY = [pytest.param(way, marks=NEEDS_XLA if WAYS[way].device == "xla" else ()) for way in WAYS]
Verdicts = dict[tuple[str, str], str]


def read() -> Verdicts:
    text, cells = page(NAME), Verdicts()
    errors = dict(re.findall(r"^(\d+)\. `(.*)`$", text, re.MULTILINE))
    for table in TABLE.findall(text):
        (_, *features), _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        cells |= {(way, feature): cell for way, *row in rows for feature, cell in zip(features, row, strict=True)}
    return {at: f"raises: {errors[cell[1:-1]]}" if cell[0] == "(" else cell for at, cell in cells.items()}


def written(verdicts: Verdicts) -> str:
    """Return the page with new tables and a new list of errors."""
    errors = list(dict.fromkeys(text for text in verdicts.values() if text.startswith("raises: ")))
    cells = {at: f"({errors.index(text) + 1})" if text in errors else text for at, text in verdicts.items()}
    tables = []
    for features in (POLICIES, OTHERS):
        rows = [["", *features], ["---"] * (len(features) + 1)]
        rows += [[way, *(cells[way, feature] for feature in features)] for way in WAYS]
        tables.append("".join(f"| {' | '.join(row).strip()} |\n" for row in rows))
    notes = "".join(f"{number}. `{text.removeprefix('raises: ')}`\n" for number, text in enumerate(errors, 1))
    return ERRORS.sub(lambda _: notes, TABLE.sub(lambda _: tables.pop(0), page(NAME)))


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> Iterator[Verdicts]:
    """Return the results on the page, and write new results after the tests on request."""
    verdicts = dict.fromkeys([(way, feature) for way in WAYS for feature in FEATURES], "not measured") | read()
    yield verdicts
    if request.config.getoption(REWRITE):
        (ROOT / NAME).write_text(written(verdicts), encoding="utf-8")


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_has_the_result_in_the_table(
    feature: str, way: str, recorded: Verdicts, request: pytest.FixtureRequest
) -> None:
    """The table shows where a policy applies (specification 5.1, 5.2, 5.3, 6.1, 6.2, 6.3 and 7.1)."""
    found = verdict(feature, WAYS[way])
    if request.config.getoption(REWRITE):
        recorded[way, feature] = found
    assert recorded[way, feature] == found
