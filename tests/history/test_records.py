"""The records of torch's releases: their files, what policy.yaml makes of them, and the wheel that is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from polycast._grammar.errors import PolicyError
from polycast._grammar.names import join_name
from polycast._grammar.releases import Change, Release, changes, read_releases
from polycast.policy.releases import RECORDED, releases

from codegen.model import Rule
from tests.support.cases import DEVICES, POLICY, RELEASE
from tests.support.probe import HAS_XLA, stock_kernels
from tests.support.release_probe import STOCK, probe, registered

RECORDS = list(releases().values())
RUNNING = f"torch-{RELEASE[0]}.{RELEASE[1]}"
FIRST = """\
recorded: {torch: 2.9.0}
devices: [cpu, cuda]
ops:
  mm: {cpu: fp32, cuda: promote}
  pow.Scalar: {cuda: fp32}
"""
SECOND = "recorded: {torch: 2.10.0}\nafter: torch-2.9\ndevices: [cuda]\n"


def read(folder: Path, *texts: str) -> dict[str, Release]:
    for number, text in enumerate(texts, 9):
        (folder / f"torch-2.{number}.yaml").write_text(text, encoding="utf-8")
    return read_releases(folder)


def test_every_release_up_to_the_newest_is_recorded_from_a_wheel_with_cuda() -> None:
    assert [record.number for record in RECORDS] == [(2, minor) for minor in range(9, 16)]
    assert all("+cu" in record.packages["torch"] for record in RECORDS)
    assert all({*record.devices} <= {*DEVICES} for record in RECORDS)
    assert all({"cpu", "cuda", "xpu", "mps", "mtia", "maia"} <= {*record.devices} for record in RECORDS)
    assert releases()["torch-2.9"].packages["torch_xla"] == "2.9.0"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_policy_differs_from_a_release_only_where_it_has_a_note(record: Release) -> None:
    rules = {(rule.op, rule.overload.name, rule.device): rule for rule in rules_of(record)}
    different = {
        f"{device}-{join_name(op, overload)}"
        for op, overload, device in {*rules, *record.rules}
        if device in record.devices
        and held(rules.get((op, overload, device))) != record.category(op, overload, device)
        # A note stands with what is listed, be it as input_dtype.
        and not ((rule := rules.get((op, overload, device))) and rule.note)
    }
    assert different == set()


def rules_of(record: Release) -> Iterator[Rule]:
    return (rule for rule in POLICY.rules() if record.number in rule.torch)


def held(rule: Rule | None) -> str:
    return "unlisted" if rule is None else rule.category.value


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_policy_lists_nothing_that_a_release_does_not_have(record: Release) -> None:
    assert {(rule.op, rule.overload.name) for rule in rules_of(record)} & record.absent == set()


@pytest.mark.parametrize("key", registered())
def test_the_wheel_that_runs_does_what_is_recorded(key: str) -> None:
    record, device = releases()[RUNNING], key.lower()
    if device == "xla" and not HAS_XLA:
        pytest.skip("torch_xla is not installed beside this torch")
    with stock_kernels():
        found = dict(probe(key, registered()[key]))
    wanted = {join_name(op, overload): held for (op, overload, on), held in record.rules.items() if on == device}
    if torch.version.cuda is None:  # only the builds with cuDNN have its kernel
        wanted = {name: category for name, category in wanted.items() if category != STOCK}
    assert found == wanted
    assert len(found) > 60


def test_a_file_begins_with_what_the_one_before_it_comes_to(tmp_path: Path) -> None:
    first, second = read(
        tmp_path, FIRST, SECOND + "new: [dot]\nops:\n  dot: {cuda: fp32}\n  pow.Scalar: absent\n"
    ).values()
    assert [first.category("dot", "default", "cpu"), second.category("dot", "default", "cuda")] == ["absent", "fp32"]
    assert [part.category("pow", "Scalar", "cuda") for part in (first, second)] == ["fp32", "absent"]
    assert [part.category("mm", "default", "cpu") for part in (first, second)] == ["fp32", "unlisted"]
    assert [part.category("mm", "default", "cuda") for part in (first, second)] == ["promote", "promote"]


def test_a_change_is_told_with_its_first_release_and_its_reason(tmp_path: Path) -> None:
    second = "ops:\n  mm: {cuda: fp32}\n  pow.Scalar: unlisted\nreasons: {mm: A reason.}\n"
    assert changes(read(tmp_path, FIRST, SECOND + second)) == [
        Change("mm", "default", ("cuda",), (("promote", "torch-2.9"), ("fp32", "torch-2.10")), ("A reason.",)),
        Change("pow", "Scalar", ("cuda",), (("fp32", "torch-2.9"), ("unlisted", "torch-2.10"))),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("recorded: {torch: 2.10.0}\n", "torch-2.10.yaml:1:1: error: the record torch-2.10 has no 'devices'; add it"),
        (
            SECOND + "ops: {mm: {cuda: fp23}}\n",
            "torch-2.10.yaml:4:18: error: unknown category 'fp23'; did you mean 'fp32'?",
        ),
        (
            SECOND + "ops: {mm: {cuba: fp32}}\n",
            "torch-2.10.yaml:4:12: error: unknown device 'cuba'; did you mean 'cuda'?",
        ),
        (
            SECOND.replace("torch-2.9", "torch-2.8"),
            "torch-2.10.yaml:2:8: error: unknown record 'torch-2.8'; did you mean 'torch-2.9'?",
        ),
    ],
)
def test_a_problem_of_a_file_is_told_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        read(tmp_path, FIRST, text)
    assert str(caught.value) == problem


def test_the_files_of_the_repository_are_those_of_the_package() -> None:
    folder = Path(__file__).parents[2] / "history"
    files = sorted(path.name for path in folder.iterdir())
    assert [(folder / name).read_text("utf-8") for name in files] == [
        (RECORDED / name).read_text("utf-8") for name in files
    ]
