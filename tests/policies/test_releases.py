"""The policy of a release: it casts as that release does, under the torch that runs."""

from pathlib import Path

import polycast
import pytest
import torch
from polycast._compiled import DEVICES
from polycast._grammar.names import join_name
from polycast._grammar.releases import ABSENT, Release
from polycast.policy import operators
from polycast.policy.releases import releases, rules_of
from polycast.policy.rules import BUILT_IN

from tests.support.cases import RELEASE
from tests.support.probe import in_force, kernels_of
from tests.support.properties import TIMES
from tests.support.release_probe import STOCK, probe

RUNNING = f"torch-{RELEASE[0]}.{RELEASE[1]}"
RECORDS = list(releases().values())
PROBED = [record for record in RECORDS if record.name == RUNNING or TIMES != 1]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_every_rule_is_that_of_the_release(record: Release) -> None:
    resolved = {
        device: polycast.policy.resolved(polycast.Policy(record.name), device=device) for device in record.devices
    }
    for device, rules in resolved.items():
        held = {(rule.op, rule.overload): rule.category for rule in rules}
        for op, overload in {*held, *record.overloads()}:
            wanted = record.category(op, overload, device)
            if wanted not in (ABSENT, STOCK) and overload in operators.signatures(f"aten::{op}"):
                assert (held.get((op, overload), "unlisted"), op, overload, device) == (wanted, op, overload, device)


@pytest.mark.slow
@pytest.mark.parametrize("record", PROBED, ids=lambda record: record.name)
def test_the_kernels_under_the_policy_of_a_release_do_what_is_recorded(record: Release) -> None:
    """Of the release that runs; TIMES=2 compares those of the others, too, as far as this torch has their ops."""
    here = {text.removeprefix("aten::") for text in torch._C._dispatch_get_all_op_names()}
    keys = sorted({rule.key[:2] for rule in BUILT_IN} | record.overloads())
    assert record.name != RUNNING or {join_name(*key) for key in record.overloads() - record.absent} <= here
    compared = 0
    for device in record.devices:
        rules = {join_name(*key): record.category(*key, device) for key in keys}
        wanted = {
            name: category for name, category in rules.items() if name in here and category not in (ABSENT, STOCK)
        }
        with kernels_of(device), in_force(polycast.Policy(record.name)):
            assert dict(probe(DEVICES[device].dispatch_key.removeprefix("Autocast"), list(wanted))) == wanted
        compared += len(wanted)
    assert compared > 1000


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_device_without_a_record_keeps_its_built_in_categories(record: Release) -> None:
    built_in = {rule.key: rule.category for rule in BUILT_IN}
    rules = [rule for rule in polycast.Policy(record.name).by_overload() if rule.device not in record.devices]
    assert all(rule.category == built_in.get(rule.key, "unlisted") for rule in rules)
    assert {rule.note for rule in rules} == {f"no record in {record.name}: the built-in category"}
    assert {rule.device for rule in rules} <= {*DEVICES} - {*record.devices, "xla", "tpu"}  # like none, like the CPU


def test_a_device_without_a_record_does_not_follow_the_release_of_the_one_that_it_is_like() -> None:
    """The list of npu has no rms_norm, whatever the installed torch does on cuda."""
    held = [polycast.Policy(name).category("rms_norm", "cuda") for name in ("torch-2.11", "torch-2.12")]
    assert held == ["unlisted", "fp32"]
    for name in ("torch-2.11", "torch-2.12"):
        assert polycast.Policy(name).category("rms_norm", "npu") == "unlisted"


def test_a_device_that_stays_as_it_is_beside_one_that_it_is_like_is_saved_so() -> None:
    rules = {("mm", "default", "cuda"): "fp32", ("mm", "default", "mtia"): "lower_precision_fp"}
    release = polycast.Policy._of(rules_of(Release("torch-2.9", {}, ("cuda", "mtia"), rules)))
    held = {rule.device: rule.category for rule in release.by_overload() if rule.name == "mm"}
    assert held == {"cuda": "fp32"} | dict.fromkeys(
        ("xla_gpu", "mtia", "maia", "hpu", "privateuse1", "npu", "musa", "mlu"), "lower_precision_fp"
    )
    assert polycast.Policy(release.rules) == release


def test_a_pin_is_a_policy(tmp_path: Path) -> None:
    release, mine = polycast.Policy("torch-2.11"), polycast.Policy({"rms_norm": {"cuda": "bfloat16"}})
    release.save(tmp_path / "release.yaml")
    assert polycast.Policy.load(tmp_path / "release.yaml") == release == polycast.Policy(release.rules)
    assert "conv1d.padding" in release.diff()
    assert (release | mine).category("rms_norm", "cuda") == "bfloat16"
    assert release.diff(release) == ""
    assert all(rule.source == "torch-2.11" for rule in release.by_overload())


def test_a_release_without_a_change_has_the_policy_of_the_one_before_it() -> None:
    assert polycast.Policy("torch-2.11") == polycast.Policy("torch-2.10") == polycast.Policy("2.11")
    assert polycast.Policy("torch-2.12") != polycast.Policy("torch-2.11")


def test_what_the_built_in_policy_keeps_stock_has_no_rule() -> None:
    stock = {rule.key for rule in BUILT_IN if rule.category == STOCK}
    assert all(rule.key not in stock for record in RECORDS for rule in polycast.Policy(record.name).by_overload())
