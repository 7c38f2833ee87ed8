"""A backend outside of torch, registered under a name of its own: kernels, fallback, region."""

from tests.process import python

BACKEND = """
import types
import torch
import polycast

torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", types.SimpleNamespace(
    get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
    is_available=lambda: True, is_initialized=lambda: True, current_device=lambda: 0,
))
key = "AutocastPrivateUse1"
has_fallback = lambda: torch._C._dispatch_has_backend_fallback(torch._C._dispatch_key_parse(key))
"""


def test_it_is_installed_on_request_only_and_by_its_own_name() -> None:
    code = """
print("privateuse1" in polycast.installed())
polycast.install("npu")
print("privateuse1" in polycast.installed())
polycast.uninstall("npu")
polycast.install("privateuse1")
print("privateuse1" in polycast.installed())
"""
    assert python(BACKEND + code) == "False\nTrue\nTrue\n"


def test_its_fallback_is_registered_where_there_is_none_and_taken_back() -> None:
    code = """
before = dump()
print(has_fallback())
polycast.install("npu")
polycast.install("npu")
print(has_fallback())
polycast.uninstall("npu")
print(has_fallback(), dump() == before)
"""
    assert python(BACKEND + code) == "False\nTrue\nFalse True\n"


def test_its_own_fallback_is_left_alone() -> None:
    code = """
library = torch.library.Library("_", "IMPL", key)
library.fallback(torch.library.fallthrough_kernel)
polycast.install("npu")
polycast.uninstall("npu")
print(has_fallback())
"""
    assert python(BACKEND + code) == "True\n"


def test_a_region_by_its_name_autocasts_and_lets_other_ops_through() -> None:
    code = """
from torch._subclasses.fake_tensor import FakeTensorMode
polycast.install("npu")
with FakeTensorMode(), torch.no_grad():
    x = torch.empty(2, 2, device="npu")
    for region in (polycast.autocast("npu"), polycast.autocast("npu:0", dtype=torch.bfloat16)):
        with region:
            print((x @ x).dtype, (x + x).dtype, torch.exp(x.half()).dtype)
"""
    assert python(BACKEND + code) == (
        "torch.float16 torch.float32 torch.float32\ntorch.bfloat16 torch.float32 torch.float32\n"
    )


def test_a_dtype_that_the_policy_does_not_list_is_an_error_with_its_name() -> None:
    code = """
try:
    polycast.autocast("npu", dtype=torch.float64)
except ValueError as error:
    print(error)
"""
    assert python(BACKEND + code) == (
        "autocast on npu runs in torch.float16 and torch.bfloat16; torch.float64 is not listed for it in the policy\n"
    )


def test_a_region_before_it_is_installed_says_so() -> None:
    code = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    polycast.autocast("npu")
print(*(warning.message for warning in caught))
"""
    assert python(BACKEND + code) == (
        "the policy's kernels for npu are not installed, so its regions run torch's own; call polycast.install('npu')\n"
    )
