"""The records of PyTorch's releases and their policies, compared with ``policy.yaml`` and the installed release."""

import json
from typing import Any

import polycast
import pytest
import torch
from polycast._extension import overloads_of
from polycast.policy.categories import UNLISTED
from polycast.policy.releases import ABSENT, Release, releases, rows_of
from polycast.policy.rules import BUILT_IN, qualified

from tests.support.cases import DEVICES, POLICY, RELEASE, ROOT
from tests.support.process import run_python
from tests.support.release_probe import STOCK

RECORDS = list(releases().values())
RUNNING = f"torch-{RELEASE[0]}.{RELEASE[1]}"


def test_every_release_up_to_the_newest_is_recorded_from_a_cuda_wheel() -> None:
    assert [record.number for record in RECORDS] == [(2, minor) for minor in range(9, 16)]
    for record in RECORDS:
        assert "+cu" in record.packages["torch"]
        assert {"cpu", "cuda", "xpu", "mps", "mtia", "maia"} <= {*record.devices} <= {*DEVICES}
    assert releases()["torch-2.9"].packages["torch_xla"] == "2.9.0"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_policy_differs_from_a_release_only_in_rules_with_a_note(record: Release) -> None:
    """Autocast casts ops as in the release, except for ops whose rule has a note (specification 3.8)."""
    here = [rule for rule in POLICY.rules() if record.number in rule.torch]
    rules = {(rule.schema_name, rule.device): rule for rule in here}
    assert not any(record.category(*key) == ABSENT for key in rules)
    different = set()
    for name, device in [*rules, *((name, device) for name in record.ops for device in record.devices)]:
        rule = rules.get((name, device))
        held = "unlisted" if rule is None else rule.category.value
        # A rule with a note may differ from PyTorch's rule.
        told = record.category(name, device)
        if device in record.devices and not (rule and rule.note) and told not in (held, ABSENT):
            different.add(f"{device}-{name}")
    assert different == set()


@pytest.mark.slow
def test_the_installed_release_matches_its_record() -> None:
    done = run_python("-W", "ignore", "-m", "tests.support.release_probe", cwd=ROOT)  # The probe runs without polycast.
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    record = releases().get(RUNNING) or [one for one in RECORDS if one.number < RELEASE][-1]
    assert sum(map(len, found["devices"].values())) > 400
    lines = lines_that_differ(record, found)
    if RUNNING not in releases():
        devices = ", ".join(sorted(found["devices"]))
        lines = [f"{RUNNING}:", f"  recorded: {flow(found['packages'])}", f"  devices: [{devices}]", *lines]
    assert not lines, "write into releases.yaml:\n" + "\n".join(lines)


def lines_that_differ(record: Release, found: dict[str, Any]) -> list[str]:
    """Return the lines of ``releases.yaml`` for the overloads that differ from a release's record."""
    lines = []
    for name in sorted({*record.ops, *(name for rules in found["devices"].values() for name in rules)}):
        seen, wanted = {}, {}
        for device, rules in sorted(found["devices"].items()):
            seen[device] = rules.get(name, UNLISTED if name in found["overloads"] else ABSENT)
            wanted[device] = record.category(name, device)
            if torch.version.cuda is None and wanted[device] == STOCK:  # Only builds with cuDNN have this kernel.
                wanted[device] = seen[device]
        if seen != wanted:
            listed = {device: category for device, category in seen.items() if category != UNLISTED}
            gone = name not in found["overloads"]
            lines.append(f"    {name}: {ABSENT if gone else flow(listed) if listed else UNLISTED}")
    return lines


def flow(values: dict[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in values.items())}}}"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_every_rule_equals_the_rule_of_the_release(record: Release) -> None:
    resolved = {
        device: polycast.policy.resolved(polycast.Policy(record.name), device=device) for device in record.devices
    }
    for device, rules in resolved.items():
        held = {rule.name: rule.category for rule in rules}
        for name in {*held, *record.ops}:
            wanted = record.category(name, device)
            if wanted not in (ABSENT, STOCK) and qualified(name) in overloads_of(qualified(name.partition(".")[0])):
                assert (held.get(name, "unlisted"), name, device) == (wanted, name, device)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_device_without_a_record_has_its_built_in_categories(record: Release) -> None:
    built_in = {rule.key: rule.category for rule in BUILT_IN}
    rules = [rule for rule in polycast.Policy(record.name).by_overload() if rule.device not in record.devices]
    assert all(rule.category == built_in.get(rule.key, "unlisted") for rule in rules)
    assert {rule.note for rule in rules} == {f"built-in, because {record.name} has no record"}
    assert {rule.device for rule in rules} <= {*DEVICES} - {*record.devices, "xla", "tpu"}  # These inherit no change.


def test_an_unchanged_device_that_is_like_a_changed_one_is_saved_explicitly() -> None:
    ops: dict[str, dict[str, str] | str] = {"mm": {"cuda": "fp32", "mtia": "lower_precision_fp"}}
    release = polycast.Policy._with(rows_of(Release("torch-2.9", {}, ("cuda", "mtia"), ops, {})))
    held = {rule.device: rule.category for rule in release.by_overload() if rule.name == "mm"}
    assert held == {"cuda": "fp32"} | dict.fromkeys(
        ("xla_gpu", "mtia", "maia", "hpu", "privateuse1", "npu", "musa", "mlu"), "lower_precision_fp"
    )
    assert polycast.Policy(release.rules) == release


def test_the_policy_of_a_release_is_a_policy() -> None:
    release, mine = polycast.Policy("torch-2.11"), polycast.Policy({"rms_norm": {"cuda": "bfloat16"}})
    assert release == polycast.Policy(release.rules) == polycast.Policy("2.11")
    assert release == polycast.Policy("torch-2.10") != polycast.Policy("torch-2.12")  # These records are equal.
    assert (release | mine).category("rms_norm", "cuda") == "bfloat16"
    assert "conv1d.padding" in release.diff() and release.diff(release) == ""
    assert {rule.source for rule in release.by_overload()} == {"torch-2.11"}


def test_ops_with_a_built_in_stock_category_have_no_rule() -> None:
    stock = {rule.key for rule in BUILT_IN if rule.category == STOCK}
    assert all(rule.key not in stock for record in RECORDS for rule in polycast.Policy(record.name).by_overload())
