"""The records of torch's releases: their file, what policy.yaml makes of them, and the release that is installed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from polycast._grammar.categories import UNLISTED
from polycast._grammar.errors import PolicyError
from polycast._grammar.names import join_name, split_overload
from polycast._grammar.releases import ABSENT, Release, read_releases
from polycast.policy.releases import releases

from codegen.model import Rule
from tests.support.cases import DEVICES, POLICY, RELEASE, ROOT
from tests.support.release_probe import STOCK

RECORDS = list(releases().values())
RUNNING = f"torch-{RELEASE[0]}.{RELEASE[1]}"
FIRST = """\
torch-2.9:
  recorded: {torch: 2.9.0}
  devices: [cpu, cuda]
  ops:
    mm: {cpu: fp32, cuda: promote}
    pow.Scalar: {cuda: fp32}
"""
SECOND = """\
torch-2.10:
  recorded: {torch: 2.10.0}
  devices: [cuda]
"""


def read(folder: Path, text: str) -> dict[str, Release]:
    path = folder / "releases.yaml"
    path.write_text(text, encoding="utf-8")
    return read_releases(path)


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


def test_the_installed_release_does_what_is_recorded() -> None:
    found = probed()
    record = releases().get(RUNNING) or [one for one in RECORDS if one.number < RELEASE][-1]
    assert sum(map(len, found["devices"].values())) > 400
    lines = lines_that_differ(record, found)
    if RUNNING not in releases():
        devices = ", ".join(sorted(found["devices"]))
        lines = [f"{RUNNING}:", f"  recorded: {flow(found['packages'])}", f"  devices: [{devices}]", *lines]
    assert not lines, "write into releases.yaml:\n" + "\n".join(lines)


def probed() -> dict[str, Any]:
    """Return what the probe tells of the installed torch, in a process without our kernels."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.release_probe"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines_that_differ(record: Release, found: dict[str, Any]) -> list[str]:
    """Return the lines of releases.yaml for the overloads that do not do what a release is recorded with."""
    lines = []
    names = {join_name(*key): key for key in record.overloads()}
    for name in sorted({*names, *(name for rules in found["devices"].values() for name in rules)}):
        op, overload = names.get(name) or split_overload(name)
        seen, wanted = {}, {}
        for device, rules in sorted(found["devices"].items()):
            seen[device] = rules.get(name, UNLISTED if name in found["overloads"] else ABSENT)
            wanted[device] = record.category(op, overload, device)
            if torch.version.cuda is None and wanted[device] == STOCK:  # only the builds with cuDNN have its kernel
                wanted[device] = seen[device]
        if seen != wanted:
            listed = {device: category for device, category in seen.items() if category != UNLISTED}
            gone = name not in found["overloads"]
            lines.append(f"    {name}: {ABSENT if gone else flow(listed) if listed else UNLISTED}")
    return lines


def flow(values: dict[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in values.items())}}}"


def test_what_differs_from_a_record_is_told_as_its_lines() -> None:
    rules = {("mm", "default", "cpu"): "fp32", ("pow", "Scalar", "cpu"): "fp32", ("pow", "Scalar", "cuda"): "promote"}
    record = Release("torch-2.9", {}, ("cpu", "cuda"), {**rules, ("dot", "default", "cpu"): "fp32"})
    devices, overloads = {"cpu": {"mm": "fp32", "dot": "banned"}, "cuda": {"mv": "fp32"}}, ["mm", "dot", "mv"]
    found = {"devices": devices, "overloads": overloads}
    lines = ["    dot: {cpu: banned}", "    mv: {cuda: fp32}", "    pow.Scalar: absent"]
    assert lines_that_differ(record, found) == lines
    overloads.append("pow.Scalar")
    assert lines_that_differ(record, found) == [*lines[:2], "    pow.Scalar: unlisted"]


def test_a_release_begins_with_what_the_one_before_it_comes_to(tmp_path: Path) -> None:
    first, second = read(
        tmp_path, FIRST + SECOND + "  new: [dot]\n  ops:\n    dot: {cuda: fp32}\n    pow.Scalar: absent\n"
    ).values()
    assert [first.category("dot", "default", "cpu"), second.category("dot", "default", "cuda")] == ["absent", "fp32"]
    assert [part.category("pow", "Scalar", "cuda") for part in (first, second)] == ["fp32", "absent"]
    assert [part.category("mm", "default", "cpu") for part in (first, second)] == ["fp32", "unlisted"]
    assert [part.category("mm", "default", "cuda") for part in (first, second)] == ["promote", "promote"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "torch-2.10: {recorded: {torch: 2.10.0}}\n",
            "releases.yaml:7:13: error: the record torch-2.10 has no 'devices'; add it",
        ),
        (
            SECOND + "  ops: {mm: {cuda: fp23}}\n",
            "releases.yaml:10:20: error: unknown category 'fp23'; did you mean 'fp32'?",
        ),
        (
            SECOND + "  ops: {mm: {cuba: fp32}}\n",
            "releases.yaml:10:14: error: unknown device 'cuba'; did you mean 'cuda'?",
        ),
        (
            SECOND.replace("torch-2.10", "2.10"),
            "releases.yaml:7:1: error: '2.10' is no release; write it as in torch-2.12",
        ),
    ],
)
def test_a_problem_of_the_file_is_told_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        read(tmp_path, FIRST + text)
    assert str(caught.value) == problem
