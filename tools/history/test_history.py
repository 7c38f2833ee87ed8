"""`python -m tools.history`: what the probe tells of a kernel, what is written, and what is said of a difference."""

from pathlib import Path
from typing import Any

import polycast
import pytest
from polycast._grammar.names import join_name
from polycast._grammar.releases import read_releases

from tests.support.probe import in_force, kernels_of
from tests.support.release_probe import probe
from tools.history import __main__ as tool
from tools.history import schemas
from tools.history.files import text_of


@pytest.mark.parametrize(
    ("name", "rule", "told"),
    [
        ("addcmul", "lower_precision_fp", "lower_precision_fp"),
        ("addcmul", "fp32", "fp32"),
        ("addcmul", "promote", "promote"),
        ("addcmul", "unlisted", "unlisted"),
        ("addcmul", "banned", "banned"),
        ("addcmul", "float64", "stock"),
        ("mm", "bfloat16", "stock"),
        ("cumsum", "fp32_set_opt_dtype", "fp32_set_opt_dtype"),
        ("cumsum", "fp32", "fp32"),
        ("norm.Scalar", "fp32_append_dtype", "fp32_append_dtype"),
    ],
)
@pytest.mark.parametrize(("device", "key"), [("cuda", "CUDA"), ("cpu", "CPU"), ("maia", "MAIA")])
def test_the_probe_tells_a_category_from_what_arrives(name: str, rule: str, told: str, device: str, key: str) -> None:
    with kernels_of(device), in_force(polycast.Policy({name: {device: rule}})):
        assert dict(probe(key, [name])) == {name: told}


FOUND: dict[str, Any] = {
    "packages": {"torch": "2.9.0+cu128"},
    "devices": {"cuda": {"mm": "promote", "pow.Scalar": "fp32"}, "cpu": {"mm": "fp32"}},
    "overloads": ["mm", "pow.Scalar", "relu"],
}
LATER: dict[str, Any] = {
    "packages": {"torch": "2.10.0+cu128"},
    "devices": {"cuda": {"mm": "promote", "dot": "fp32"}, "cpu": {}},
    "overloads": ["mm", "dot", "relu"],
}
TEXTS = (
    """\
# Recorded by `python -m tools.history record 2.9.0`; only the reasons are written by hand.
recorded: {torch: 2.9.0+cu128}
devices: [cpu, cuda]
ops:
  mm: {cpu: fp32, cuda: promote}
  pow.Scalar: {cuda: fp32}
""",
    """\
# Recorded by `python -m tools.history record 2.10.0`; only the reasons are written by hand.
recorded: {torch: 2.10.0+cu128}
after: torch-2.9
devices: [cpu, cuda]
new: [dot]
ops:
  dot: {cuda: fp32}
  mm: {cuda: promote}
  pow.Scalar: absent
reasons:
  dot: >-
    A reason.
""",
)


OPERATORS = {
    "2.9.0": """\
- func: mm(Tensor self, Tensor mat2) -> Tensor
- func: pow.Scalar(Scalar self, Tensor exponent) -> Tensor
- func: sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
  autogen: sum.out
""",
    "2.10.0": """\
- func: dot(Tensor[] tensors) -> Tensor
- func: mm(Tensor(a) self) -> Tensor(a)
- func: relu_(Tensor(a!) self) -> Tensor(a!)
- func: sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
  autogen: sum.out
""",
}
SCHEMAS = """\
dot default:f2>=2.10
mm default:f2<2.10 default:v1>=2.10
pow Scalar:f1<2.10
relu_ default:i>=2.10
sum default:f1d out:o
"""


def test_schemas_are_written_with_the_releases_that_have_them() -> None:
    releases = {(2, 9): schemas.facts_of(OPERATORS["2.9.0"]), (2, 10): schemas.facts_of(OPERATORS["2.10.0"])}
    assert schemas.text_of(releases) == schemas.HEAD + SCHEMAS


def test_what_a_probe_found_is_written_whole_and_then_as_changes(tmp_path: Path) -> None:
    written = (text_of(FOUND, None, {}), text_of(LATER, ("torch-2.9", FOUND), {"dot": "A reason."}))
    assert written == TEXTS
    for name, text in zip(("torch-2.9", "torch-2.10"), written, strict=True):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    for found, record in zip((FOUND, LATER), read_releases(tmp_path).values(), strict=True):
        rules = {f"{device}-{join_name(op, part)}": category for (op, part, device), category in record.rules.items()}
        assert rules == {f"{on}-{name}": held for on, names in found["devices"].items() for name, held in names.items()}


@pytest.fixture
def found_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for records, and releases whose probes find FOUND and LATER."""
    found = {"2.9.0": FOUND, "2.10.0": LATER}
    monkeypatch.setattr(tool, "_found", lambda version, _: found[version])
    monkeypatch.setattr(tool, "native_functions", OPERATORS.get)
    monkeypatch.setattr(tool, "HISTORY", tmp_path)
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    return tmp_path


def test_a_release_alone_is_recorded_beside_the_one_before_it(
    found_so: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["record", "2.9.0"]) == 0
    assert tool.main(["record", "2.10.0"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "history/torch-2.9.yaml: 6 lines",
        "history/schemas.txt: 6 lines, of 1 releases",
        "history/torch-2.10.yaml: 9 lines",
        "history/schemas.txt: 8 lines, of 2 releases",
    ]
    texts = [(found_so / f"torch-2.{minor}.yaml").read_text("utf-8") for minor in (9, 10)]
    assert texts == [TEXTS[0], TEXTS[1].partition("reasons:")[0]]


def test_reasons_stay_where_a_release_is_recorded_again(found_so: Path) -> None:
    for minor, text in zip((9, 10), TEXTS, strict=True):
        (found_so / f"torch-2.{minor}.yaml").write_text(text, encoding="utf-8")
    assert tool.main(["record", "2.9.0", "2.10.0"]) == 0
    assert (found_so / "torch-2.10.yaml").read_text("utf-8") == TEXTS[1]


@pytest.mark.usefixtures("found_so")
def test_a_wheel_that_does_otherwise_is_reported_rule_by_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool.main(["record", "2.9.0"])
    capsys.readouterr()
    assert tool.main(["check", "2.9.0"]) == 0
    assert capsys.readouterr().out == "torch 2.9.0: 3 rules on 2 devices, 0 not as recorded\n"
    monkeypatch.setitem(FOUND["devices"], "cpu", {"mm": "promote", "relu": "fp32"})
    assert tool.main(["check", "2.9.0", "2.10.0"]) == 1
    assert capsys.readouterr().out == (
        "torch 2.9.0: 4 rules on 2 devices, 2 not as recorded\n"
        "  mm on cpu: recorded fp32, the wheel promote\n"
        "  relu on cpu: recorded None, the wheel fp32\n"
        "torch 2.10.0: not recorded; run: python -m tools.history record 2.10.0\n"
    )


@pytest.mark.parametrize("words", [["record"], ["check", "torch-2.11"]])
def test_what_is_no_release_is_answered_with_one(words: list[str]) -> None:
    given = f"'{words[1]}'" if len(words) > 1 else "none"
    with pytest.raises(SystemExit) as caught:
        tool.main(words)
    assert caught.value.code == (f"error: {words[0]} takes releases, as in: {words[0]} 2.12.1; it was given {given}")
