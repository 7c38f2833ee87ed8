"""A backend outside of torch, registered under a name of its own: device, kernels, fallback, region.

It is that of tests/support/backend. Where the name is that of a vendor's backend, fake tensors stand for the vendor's.
"""

import polycast
import pytest
from polycast import _compiled

from tests.support.backend import NAME
from tests.support.backend.__main__ import installed
from tests.support.cases import ALL_CASES, CASES, FIRST_ON_KEY, Case
from tests.support.process import python
from tests.support.samples.backends import LISTS

BEFORE = """
import warnings
import torch
import polycast
key = "AutocastPrivateUse1"
has_fallback = lambda: torch._C._dispatch_has_backend_fallback(torch._C._dispatch_key_parse(key))
"""
# What a program does, and what it prints. Each is a process of its own: a fallback stays registered.
PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "it is installed on request only, by either name, and its fallback is taken back": (
        """
before = dump()
print("privateuse1" in polycast.installed(), has_fallback())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    polycast.autocast("mine")
print(*(warning.message for warning in caught))
polycast.install("mine")
polycast.install("mine")
print("privateuse1" in polycast.installed(), has_fallback())
polycast.uninstall("mine")
print(has_fallback(), dump() == before)
polycast.install("privateuse1")
print("privateuse1" in polycast.installed())
""",
        [
            "False False",
            f"the policy's kernels for {NAME} are not installed, so its regions run torch's own; "
            f"call polycast.install('{NAME}')",
            "True True",
            "False True",
            "True",
        ],
    ),
    "a fallback of its own is left alone": (
        """
library = torch.library.Library("_", "IMPL", key)
library.fallback(torch.library.fallthrough_kernel)
polycast.install("mine")
polycast.uninstall("mine")
print(has_fallback())
""",
        ["True"],
    ),
    "a region by its name autocasts and lets other ops through": (
        """
polycast.install("mine")
with torch.no_grad():
    x = torch.ones(2, 2, device="mine")
    for region in (polycast.autocast("mine"), polycast.autocast("mine:0", dtype=torch.bfloat16)):
        with region:
            print((x @ x).dtype, (x + x).dtype, torch.exp(x.half()).dtype)
try:
    polycast.autocast("mine", dtype=torch.float64)
except ValueError as error:
    print(error)
""",
        [
            "torch.float16 torch.float32 torch.float32",
            "torch.bfloat16 torch.float32 torch.float32",
            f"autocast on {NAME} runs in torch.float16 and torch.bfloat16; torch.float64 is not one of its lower "
            "precisions, and enabled=False runs without casts",
        ],
    ),
}


@pytest.mark.parametrize("title", PROGRAMS)
def test_the_test_backend(title: str) -> None:
    code, printed = PROGRAMS[title]
    assert python(BEFORE + code.replace("mine", NAME), PYTHONPATH=str(installed())).splitlines() == printed


NAMED = """
import types
import torch
import polycast

torch.utils.rename_privateuse1_backend("NAME")
torch._register_device_module("NAME", types.SimpleNamespace(
    get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
    is_available=lambda: True, is_initialized=lambda: True, current_device=lambda: 0,
))
"""
ARRIVALS = """
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode(), torch.no_grad(), polycast.autocast("NAME") as region:
    x = torch.empty(1, 2, 4, device="NAME")
    halves = x.to(region.fast_dtype)
    print((x @ x.mT).dtype, torch.nn.functional.interpolate(halves, scale_factor=2).dtype, torch.exp(halves).dtype)
"""


def test_a_backend_has_the_device_of_its_name() -> None:
    code = (NAMED + "polycast.install('NAME')\nprint(*polycast.installed()[-1:])" + ARRIVALS).replace("NAME", "tpu")
    assert python(code) == "tpu\ntorch.bfloat16 torch.bfloat16 torch.bfloat16\n"


def test_a_device_is_that_of_the_backend_by_either_name_and_follows_it() -> None:
    code = """
import polycast
polycast.install("privateuse1")
print(*polycast.installed()[-1:])
BACKEND
polycast.autocast("npu")
print(*polycast.installed()[-1:])
polycast.uninstall("privateuse1")
print("npu" in polycast.installed())
polycast.install("privateuse1")
print(*polycast.installed()[-1:], polycast.policy.category("conv2d", torch.device("npu")))
try:
    polycast.install("musa")
except ValueError as error:
    print(error)
"""
    assert python((code.replace("BACKEND", NAMED) + ARRIVALS).replace("NAME", "npu")).splitlines() == [
        "privateuse1",
        "npu",
        "False",
        "npu lower_precision_fp",
        "'musa' is a backend outside of torch that is not loaded here; import the package that registers it first",
        "torch.float16 torch.float16 torch.float32",
    ]


def test_rules_that_devices_share_are_tested_once_for_each_key() -> None:
    def kind(case: Case) -> tuple[str, str, str, str]:
        return _compiled.DEVICES[case.device].dispatch_key, case.op, case.overload, case.category

    assert {*FIRST_ON_KEY} | {*LISTS} == {*polycast.policy.devices()}
    assert {kind(case) for case in CASES} == {kind(case) for case in ALL_CASES}
