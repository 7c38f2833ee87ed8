"""The records of torch's releases: their file, what policy.yaml makes of them, and the release that is installed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from polycast._grammar.categories import UNLISTED
from polycast._grammar.names import join_name, split_overload
from polycast._grammar.releases import ABSENT, Release, read_releases
from polycast.policy.releases import releases

from tests.support.cases import DEVICES, POLICY, RELEASE, ROOT
from tests.support.release_probe import STOCK

RECORDS = list(releases().values())
RUNNING = f"torch-{RELEASE[0]}.{RELEASE[1]}"


def test_every_release_up_to_the_newest_is_recorded_from_a_wheel_with_cuda() -> None:
    assert [record.number for record in RECORDS] == [(2, minor) for minor in range(9, 16)]
    for record in RECORDS:
        assert "+cu" in record.packages["torch"]
        assert {"cpu", "cuda", "xpu", "mps", "mtia", "maia"} <= {*record.devices} <= {*DEVICES}
    assert releases()["torch-2.9"].packages["torch_xla"] == "2.9.0"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_policy_differs_from_a_release_only_where_it_has_a_note(record: Release) -> None:
    here = [rule for rule in POLICY.rules() if record.number in rule.torch]
    rules = {(rule.op, rule.overload.name, rule.device): rule for rule in here}
    assert {key[:2] for key in rules} & record.absent == set()
    different = set()
    for op, overload, device in {*rules, *record.rules}:
        rule = rules.get((op, overload, device))
        held = "unlisted" if rule is None else rule.category.value
        # A note stands with what is listed, be it as input_dtype.
        if device in record.devices and not (rule and rule.note) and held != record.category(op, overload, device):
            different.add(f"{device}-{join_name(op, overload)}")
    assert different == set()


def test_the_installed_release_does_what_is_recorded() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.release_probe"]  # without our kernels
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    record = releases().get(RUNNING) or [one for one in RECORDS if one.number < RELEASE][-1]
    assert sum(map(len, found["devices"].values())) > 400
    lines = lines_that_differ(record, found)
    if RUNNING not in releases():
        devices = ", ".join(sorted(found["devices"]))
        lines = [f"{RUNNING}:", f"  recorded: {flow(found['packages'])}", f"  devices: [{devices}]", *lines]
    assert not lines, "write into releases.yaml:\n" + "\n".join(lines)


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


FILE = """\
torch-2.9:
  recorded: {torch: 2.9.0}
  devices: [cpu, cuda]
  ops:
    mm: {cpu: fp32, cuda: promote}
    pow.Scalar: {cuda: fp32}
torch-2.10:
  recorded: {torch: 2.10.0}
  devices: [cuda]
  new: [dot]
  ops:
    dot: {cuda: fp32}
    pow.Scalar: absent
"""


def test_a_release_begins_with_what_the_one_before_it_comes_to(tmp_path: Path) -> None:
    path = tmp_path / "releases.yaml"
    path.write_text(FILE, encoding="utf-8")
    first, second = read_releases(path).values()
    assert [first.category("dot", "default", "cpu"), second.category("dot", "default", "cuda")] == ["absent", "fp32"]
    assert [part.category("pow", "Scalar", "cuda") for part in (first, second)] == ["fp32", "absent"]
    assert [part.category("mm", "default", "cpu") for part in (first, second)] == ["fp32", "unlisted"]
    assert [part.category("mm", "default", "cuda") for part in (first, second)] == ["promote", "promote"]
