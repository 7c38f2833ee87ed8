"""Files of rules checked for releases of torch that are not installed."""

from pathlib import Path

import pytest
import torch
from polycast._grammar.categories import FUNCTIONAL, Signature
from polycast.policy import operators
from polycast.policy.check import check
from polycast.policy.reader import RELEASE
from polycast.policy.releases import releases
from polycast.policy.schemas import recorded, signatures_in
from polycast.policy.sources import rules_of_file

NUMBER = f"{RELEASE[0]}.{RELEASE[1]}"
EVERY = ["2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"]
# rules, the releases that they are checked for beside the one that runs, and the problems of all
FILES: dict[str, tuple[str, list[str], str]] = {
    "what every release has": ("softmax: fp32\nF.gelu: bf16\ntorch.nn.LSTM: {cuda: unlisted}", EVERY, ""),
    "an op that is gone": (
        "softmax: fp32\ncholesky: fp32",
        ["2.13", "2.15"],
        "2:1: error: torch 2.15 has no 'cholesky', which is there in torch <2.14; keep the rule to those, as in "
        "{as: fp32, torch: '<2.14'}",
    ),
    "an overload that is named inside": (
        "softmax: {cuda: {as: fp32, overloads: [Dimname]}}",
        ["2.12", "2.14", "2.15"],
        "1:40: error: unknown overload 'Dimname', in torch 2.14, 2.15; use one of int, or keep the rule to others, as "
        "in {as: fp32, torch: '<2.13'}",
    ),
    "an overload that is gone": (
        "softmax.Dimname: fp32",
        ["2.12", "2.13"],
        "1:1: error: torch 2.13 has no 'softmax.Dimname', which is there in torch <2.13; keep the rule to those, as in "
        "{as: fp32, torch: '<2.13'}",
    ),
    "an op that is kept to its releases": ("cholesky: {as: fp32, torch: '<2.14'}", EVERY, ""),
    "what is wrong everywhere": (
        "sofmax: fp32\nrelu: promote",
        EVERY,
        "1:1: error: unknown op 'sofmax'; did you mean 'softmax'?\n"
        "2:7: error: 'relu' is promote and takes one tensor; use fp32 or lower_precision_fp",
    ),
}


def problems(path: Path, rules: str, releases: list[str]) -> list[str]:
    path.write_text(rules, encoding="utf-8")
    lines = [str(problem).removeprefix(f"{path}:") for problem in check([str(path)], releases)]
    return (
        lines if NUMBER in releases else [line.replace(f", {NUMBER}", "").replace(f"{NUMBER}, ", "") for line in lines]
    )


@pytest.mark.parametrize(("rules", "releases", "expected"), FILES.values(), ids=FILES)
def test_a_file_for_releases_that_are_not_installed(
    tmp_path: Path, rules: str, releases: list[str], expected: str
) -> None:
    found = problems(tmp_path / "mine.yaml", rules, releases)
    assert "\n".join(found) == expected


def test_files_are_checked_together(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("ops: {softmax: fp32}")
    bad.write_text("ops: {softmax: fp23}")
    (problem,) = check([str(good), str(bad), str(good)], ["2.12"])
    assert str(problem) == f"{bad}:1:16: error: unknown category 'fp23'; did you mean 'fp32'?"
    assert check([]) == [] and rules_of_file(str(good))


def test_a_release_that_is_not_recorded() -> None:
    with pytest.raises(ValueError, match=r"no release '2.99' is recorded, only torch-2.9, "):
        check([], ["2.99"])


def facts(parts: dict[str, Signature]) -> dict[str, object]:
    """Return what decides whether a rule can name an overload. Of those that write, it is that they do."""
    return {
        overload: (min(part.tensors, 2), part.takes_optional_dtype) if part.variant == FUNCTIONAL else part.variant
        for overload, part in parts.items()
        if part.variant != "out"  # torch generates some on condition
    }


@pytest.mark.skipif(
    RELEASE not in {record.number for record in releases().values()}, reason="this torch is not recorded"
)
def test_the_recorded_schemas_are_those_of_the_torch_that_runs() -> None:
    names = {name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    known, shared = signatures_in(RELEASE), sorted(names & recorded().keys())
    assert {op: facts(known(op)) for op in shared} == {op: facts(operators.signatures(op)) for op in shared}
    assert len(shared) > 1500
