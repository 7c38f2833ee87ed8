"""Each cell of the table in docs/works_with.md is the result of a program. ``--rewrite-works-with`` writes it."""

import re
from collections.abc import Iterator

import pytest

from tests.support.snippets import ROOT, page
from tests.support.xla import NEEDS_XLA
from tests.workflows.matrix import FEATURES, WAYS, verdict

# PyTorch warns of jit.trace, of FSDP1 in one process, and of a Function that dynamo traces.
IGNORED = (".*torch.jit.trace", "FSDP is switching", "<class 'torch.autograd")
pytestmark = [
    pytest.mark.usefixtures("world_of_one", "one_thread"),
    pytest.mark.filterwarnings(*(f"ignore:{text}" for text in IGNORED), "ignore::torch.jit.TracerWarning"),
]
NAME, REWRITE = "docs/works_with.md", "rewrite_works_with"
TABLE = re.compile(r"^\| \|.*(?=\n\n- `yes`)", re.MULTILINE | re.DOTALL)
EACH_WAY = [pytest.param(way, marks=NEEDS_XLA if WAYS[way].device == "xla" else ()) for way in WAYS]
Verdicts = dict[tuple[str, str], str]


def read() -> Verdicts:
    (table,) = TABLE.findall(page(NAME))
    errors = dict(re.findall(r"^(\d+)\. `(.*)`$", table, re.MULTILINE))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    cells = {(way, feature): cell for way, *row in rows[2:] for feature, cell in zip(rows[0][1:], row, strict=True)}
    return {at: re.sub(r"raises \((\d+)\)", lambda found: f"raises: {errors[found[1]]}", cells[at]) for at in cells}


def written(verdicts: Verdicts) -> str:
    errors = list(dict.fromkeys(text for text in verdicts.values() if text.startswith("raises: ")))
    cells = {at: f"raises ({errors.index(text) + 1})" if text in errors else text for at, text in verdicts.items()}
    rows = [["", *FEATURES], ["---"] * (len(FEATURES) + 1)]
    rows += [[way, *(cells[way, feature] for feature in FEATURES)] for way in WAYS]
    notes = [f"{number}. `{text.removeprefix('raises: ')}`" for number, text in enumerate(errors, 1)]
    return "\n".join([*("| " + " | ".join(row).strip() + " |" for row in rows), "", *notes])


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> Iterator[Verdicts]:
    """The results on the page, which is rewritten at the end on request."""
    verdicts = dict.fromkeys([(way, feature) for way in WAYS for feature in FEATURES], "not measured") | read()
    yield verdicts
    if request.config.getoption(REWRITE):
        (ROOT / NAME).write_text(TABLE.sub(lambda _: written(verdicts), page(NAME)), encoding="utf-8")


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_has_the_result_in_the_table(
    feature: str, way: str, recorded: Verdicts, request: pytest.FixtureRequest
) -> None:
    """Specification 5.1, 5.2, 5.3, 6.1, 6.2, 6.3 and 7.1."""
    found = verdict(feature, WAYS[way])
    if request.config.getoption(REWRITE):
        recorded[way, feature] = found
    assert recorded[way, feature] == found
