"""A backend outside of PyTorch under a registered name: its device, kernels, fallback and regions.

The backend is ``tests/support/backend``. One test registers a name without kernels instead, and uses fake tensors.
"""

import os

import polycast

from tests.support.backend import NAME
from tests.support.backend.__main__ import installed
from tests.support.cases import FIRST_ON_KEY
from tests.support.process import python
from tests.support.samples.backends import LISTS

PROGRAM = """
import warnings
import torch
import polycast
key = "AutocastPrivateUse1"
has_fallback = lambda: torch._C._dispatch_has_backend_fallback(torch._C._dispatch_key_parse(key))
before = dump()
print("privateuse1" in polycast.installed(), has_fallback())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    polycast.autocast("mine")
print(*(warning.message for warning in caught))
polycast.install("mine")
polycast.install("mine")
print("privateuse1" in polycast.installed(), has_fallback())
with torch.no_grad():
    x = torch.ones(2, 2, device="mine")
    for region in (polycast.autocast("mine"), polycast.autocast("mine:0", dtype=torch.bfloat16)):
        with region:
            print((x @ x).dtype, (x + x).dtype, torch.exp(x.half()).dtype)
try:
    polycast.autocast("mine", dtype=torch.float64)
except ValueError as error:
    print(error)
polycast.uninstall("mine")
print(has_fallback(), dump() == before)
polycast.install("privateuse1")
print("privateuse1" in polycast.installed())
polycast.uninstall("privateuse1")
library = torch.library.Library("_", "IMPL", key)
library.fallback(torch.library.fallthrough_kernel)
polycast.install("mine")
polycast.uninstall("mine")
print(has_fallback())
"""
PRINTED = f"""\
False False
the policy's kernels for {NAME} are not installed, so regions on {NAME} run PyTorch's kernels; \
call polycast.install('{NAME}')
True True
torch.float16 torch.float32 torch.float32
torch.bfloat16 torch.float32 torch.float32
dtype: expected torch.float16 or torch.bfloat16 for autocast on {NAME}, got torch.float64; pass enabled=False to cast \
nothing
False True
True
True
"""


def python_with_backend(code: str) -> str:
    paths = os.pathsep.join([str(installed()), os.environ.get("PYTHONPATH", "")])
    return python(code.replace("mine", NAME), PYTHONPATH=paths)


def test_a_backend_is_installed_by_either_name_and_its_own_fallback_remains() -> None:
    assert python_with_backend(PROGRAM) == PRINTED


ARRIVING = """
import types
import torch
import polycast

polycast.install("privateuse1")
print(*polycast.installed()[-1:])
torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", types.SimpleNamespace(
    get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
    is_available=lambda: True, is_initialized=lambda: True, current_device=lambda: 0,
))
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
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode(), torch.no_grad(), polycast.autocast("npu") as region:
    x = torch.empty(1, 2, 4, device="npu")
    halves = x.to(region.fast_dtype)
    print((x @ x.mT).dtype, torch.nn.functional.interpolate(halves, scale_factor=2).dtype, torch.exp(halves).dtype)
library = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
library.impl("_cudnn_rnn", lambda *args: None)  # Of the devices with this key, only mlu has a rule: stock.
try:
    polycast.use({"_cudnn_rnn": {"npu": "fp32"}})
except ValueError as error:
    print(error)
"""


def test_a_device_matches_the_backend_by_either_name() -> None:
    assert python(ARRIVING).splitlines() == [
        "privateuse1",
        "npu",
        "False",
        "npu lower_precision_fp",
        "device_type: expected a loaded backend, got 'musa'; first import its package",
        "torch.float16 torch.float16 torch.float32",
        "aten::_cudnn_rnn: a policy cannot override this operator's own autocast kernel on npu; "
        "remove the rule of this operator",
    ]


OWN = """
import warnings
import torch
import polycast
from polycast.verify import verify

fallback = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
fallback.fallback(torch.library.fallthrough_kernel)
library = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
library.impl("matmul", lambda left, right: left)  # This is the backend's own kernel.
x = torch.ones(2, 2, device="mine")
before = dump()

def product():
    with polycast.autocast("mine"), torch.no_grad():
        return (x @ x).dtype

def changed(change):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        change()
    print(*(warning.message for warning in caught), *({*polycast.installed()} & {"privateuse1"}))

changed(product)
changed(lambda: polycast.install("mine"))
print(product(), dump() == before)
print({check.outcome for check in verify("mine", parts=["rules"]).checks})
changed(lambda: polycast.install("mine", like="cuda"))
print(product(), verify("mine", parts=["rules"]).failed)
changed(lambda: polycast.install("mine"))
print(product(), dump() == before)
try:
    polycast.install("mine", like="xpu")
except ValueError as error:
    print(error)
"""
STAY = f"""\
{NAME} has autocast kernels of its own, and policy.yaml has no rules for it, so its regions run these kernels; \
to override them, call polycast.install('{NAME}', like='cuda')"""
LEFT_ALONE = f"""\
{STAY}
{STAY}
torch.float32 True
{{'not checked'}}
privateuse1
torch.float16 []
{STAY}
torch.float32 True
like: expected 'cuda' for {NAME}, got 'xpu'; omit like, or write the rules of {NAME} in policy.yaml
"""


def test_kernels_of_an_unlisted_backend_remain_unless_like_overrides_them() -> None:
    assert python_with_backend(OWN) == LEFT_ALONE


def test_each_device_is_the_first_for_its_key_or_has_the_lists_of_its_backend() -> None:
    assert {*FIRST_ON_KEY} | {*LISTS} == {*polycast.policy.devices()}
