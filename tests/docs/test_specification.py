"""The specification: tests cite each of its numbered sentences, and each citation names an existing sentence."""

import re
from pathlib import Path

from tests.support.snippets import PAGES, ROOT, page

SENTENCE = re.compile(r"^- \*\*(\d)\.(\d)\*\* ", re.MULTILINE)
# A citation, such as "Specification 3.1" or "specification 3.1, 3.2 and 4.1", can span two lines or be a link.
CITATION = re.compile(r"\bspecification\s+(\d\.\d(?:(?:,|\s|and)+\d\.\d)*)", re.IGNORECASE)


def cited(text: str) -> set[str]:
    return {number for numbers in CITATION.findall(text) for number in re.findall(r"\d\.\d", numbers)}


def sentences() -> list[str]:
    return [f"{section}.{number}" for section, number in SENTENCE.findall(page("docs/specification.md"))]


def test_the_sentences_are_numbered_in_order() -> None:
    found = sentences()
    assert found == sorted({*found})
    for number in found:
        section, last = number.split(".")
        assert last == "1" or f"{section}.{int(last) - 1}" in found
    assert sorted({number[0] for number in found}) == re.findall(r"(?m)^## (\d)\. ", page("docs/specification.md"))


def test_each_sentence_is_cited_by_a_test() -> None:
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert sorted({*sentences()} - set().union(*map(cited, tests))) == []


def test_each_citation_names_a_sentence() -> None:
    places = {
        path: path.read_text(encoding="utf-8") for at in ("tests", "python") for path in (ROOT / at).rglob("*.py")
    }
    places |= {ROOT / name: page(name) for name in PAGES}
    wrong = [(path, number) for path, text in places.items() for number in cited(text) - {*sentences()}]
    assert wrong == []
