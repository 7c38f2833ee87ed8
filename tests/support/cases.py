"""The built-in rules as test cases: ``generated/policy_cases.jsonl``, limited to the installed PyTorch."""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from polycast import _extension
from polycast.policy import devices
from polycast.policy.rules import BUILT_IN

from codegen.parse import read_policy
from codegen.schemas import Schemas
from codegen.versions import ALL, parse_range

ROOT = Path(__file__).parents[2]
POLICY = read_policy(ROOT / "policy.yaml", "policy.yaml", Schemas.installed())
RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))
DEVICES = devices()
NOTES = {(rule.op, rule.device): rule.note for rule in BUILT_IN if rule.note}  # These rules differ from PyTorch's.


class Case(NamedTuple):
    """The rule of one overload on one device, and the overload that its kernel calls below autocast."""

    op: str
    overload: str
    device: str
    category: str
    torch: str
    reaches: str

    @property
    def name(self) -> str:
        return self.op if self.overload == "default" else f"{self.op}.{self.overload}"

    @property
    def is_named(self) -> bool:
        """Return whether the overload has named dimensions."""
        return "name" in self.overload.lower()

    def __str__(self) -> str:
        return f"{self.device}-{self.name}"


def _holds(case: Case) -> bool:
    releases = parse_range(case.torch) if case.torch else ALL
    assert releases is not None
    return (RELEASE[0], RELEASE[1]) in releases


def _is_in(device: str, spelled: set[str]) -> bool:
    """Return whether a device is in a set such as "cuda xpu -npu", which ``codegen.model.Policy.spell`` writes."""
    like = _extension.DEVICES_LIKE[device]
    return f"-{device}" not in spelled and (device in spelled or (like is not None and _is_in(like, spelled)))


def _read() -> list[Case]:
    lines = (ROOT / "generated" / "policy_cases.jsonl").read_text(encoding="utf-8").splitlines()
    groups = [json.loads(line) for line in lines[1:]]  # The first line states the source.
    spelled = [set(group.pop("devices").split()) for group in groups]
    # The cases are sorted by device, with one string object for each device, so that pytest sets up each device once.
    return [
        Case(device=device, **group)
        for device in DEVICES
        for group, devices in zip(groups, spelled, strict=True)
        if _is_in(device, devices)
    ]


def _first_on_key() -> list[str]:
    found: dict[tuple[str, frozenset[torch.dtype]], str] = {}
    for device in _extension.DEVICES.values():
        found.setdefault((device.dispatch_key, frozenset(device.lower_precision)), device.name)
    return list(found.values())


def _tested() -> list[Case]:
    def what(case: Case) -> tuple[str, str, str, str]:
        return _extension.DEVICES[case.device].dispatch_key, case.op, case.overload, case.category

    first = {what(case) for case in ALL_CASES if case.device in FIRST_ON_KEY}
    return [case for case in ALL_CASES if case.device in FIRST_ON_KEY or what(case) not in first]


ALL_CASES = [case for case in _read() if _holds(case)]
# These devices are the first with their dispatch key and lower precisions. Kernels of others differ only in rules.
FIRST_ON_KEY = _first_on_key()
CASES = _tested()
