"""The built-in rules as test cases: generated/policy_cases.jsonl, narrowed to the installed torch."""

import functools
import json
from pathlib import Path
from typing import NamedTuple

import torch
from polycast import _compiled
from polycast._grammar.versions import ALL, parse_range
from polycast.policy import devices

from codegen.parse import read_policy
from codegen.schemas import Schemas

ROOT = Path(__file__).parent.parent
POLICY = read_policy(ROOT / "policy.yaml", "policy.yaml", Schemas.installed())
RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))
DEVICES = devices()


class Case(NamedTuple):
    """What happens to one overload on one device, and the overload that a call arrives at below autocast."""

    op: str
    overload: str
    device: str
    category: str
    torch: str
    reaches: str

    @property
    def name(self) -> str:
        return self.op if self.overload == "default" else f"{self.op}.{self.overload}"

    def __str__(self) -> str:
        return f"{self.device}-{self.name}"


def _holds(case: Case) -> bool:
    releases = parse_range(case.torch) if case.torch else ALL
    assert releases is not None
    return (RELEASE[0], RELEASE[1]) in releases


def _read() -> list[Case]:
    lines = (ROOT / "generated" / "policy_cases.jsonl").read_text(encoding="utf-8").splitlines()
    groups = [json.loads(line) for line in lines[1:]]  # the first says where they come from
    cases = [Case(device=device, **group) for group in groups for device in group.pop("devices").split()]
    # Device by device, each named by one object: pytest then sets a device up once for all its cases.
    return [case._replace(device=device) for device in DEVICES for case in cases if case.device == device]


def _first_on_key() -> list[str]:
    found: dict[tuple[str, frozenset[torch.dtype]], str] = {}
    for device in _compiled.DEVICES.values():
        found.setdefault((device.dispatch_key, frozenset(device.lower_precision)), device.name)
    return list(found.values())


def _tested() -> list[Case]:
    def what(case: Case) -> tuple[str, str, str, str]:
        return _compiled.DEVICES[case.device].dispatch_key, case.op, case.overload, case.category

    first = {what(case) for case in ALL_CASES if case.device in FIRST_ON_KEY}
    return [case for case in ALL_CASES if case.device in FIRST_ON_KEY or what(case) not in first]


ALL_CASES = [case for case in _read() if _holds(case)]
# The first device on each dispatch key. The others on it are the same to a kernel, but for rules that only they have.
FIRST_ON_KEY = _first_on_key()
CASES = _tested()

# Floating-point dtypes of less than 16 bits hold a payload, whose values need a scale that they do not carry.
NARROW = [
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype.itemsize < 2
]


def expected(category: str, given: list[torch.dtype], lower: torch.dtype) -> list[torch.dtype]:
    """Return the dtypes that inputs of the given dtypes arrive in."""
    eligible = [dtype for dtype in given if dtype.is_floating_point and dtype not in (torch.float64, *NARROW)]
    if category == "fallthrough" or not eligible:
        return given
    widest = functools.reduce(torch.promote_types, eligible)
    to = {"lower_precision_fp": lower, "fp32": torch.float32, "promote": widest}[category]
    return [to if dtype in eligible else dtype for dtype in given]
