"""The test backend: what tests on it rest on. It refuses what a device refuses, and tells where the host waits."""

from tests.support.backend import NAME
from tests.support.backend.__main__ import installed
from tests.support.process import python

BEFORE = f"""
import torch
D = "{NAME}"
x = torch.randn(3, 3, device=D, requires_grad=True)

def refused(call):
    try:
        return call()
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]
"""
# A program of stock torch that ends right after a backward on a device may abort: a thread of autograd's still releases
# Python objects, and the interpreter is gone. No test is about that.
AFTER = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""
SAME = "expected all tensors to be on the same device, but found"
REFUSED = {
    "x @ torch.ones(3, 3)": f"aten::mm: {SAME} {NAME}:0 and cpu",
    "torch.cat([x, torch.ones(3, 3)])": f"aten::cat: {SAME} {NAME}:0 and cpu",
    "torch.ones(2, device=D + ':2')": "the device index is 2, and there are 2 devices",
    "torch.rand(2, device=D, generator=torch.Generator())": "the generator is on cpu, and the tensors are not",
    "(x + torch.tensor(1.0)).device": f"{NAME}:0",
    "x[torch.tensor([1])].device": f"{NAME}:0",
}
SYNCS = """
calls = {
    "item": lambda: x.sum().item(), "bool": lambda: bool(x.sum() > 0), "cpu": lambda: x.cpu(),
    "text": lambda: str(x), "tolist": lambda: x.tolist(), "nonzero": lambda: x.nonzero(), "mask": lambda: x[x > 0],
    "equal": lambda: torch.equal(x, x), "tensor": lambda: torch.tensor([1.0], device=D),
    "add": lambda: x + 1, "full": lambda: torch.full((2,), 1.0, device=D), "to": lambda: x.double(),
    "non_blocking": lambda: x.to("cpu", non_blocking=True), "backward": lambda: (x @ x).sum().backward(),
}
torch.get_device_module(D).set_sync_debug_mode("error")
print(*(name for name, call in calls.items() if refused(call) == "the host waits for the device"))
"""


def test_it_refuses_what_a_device_refuses_and_a_sync_where_that_was_chosen() -> None:
    code = BEFORE + "".join(f"print(refused(lambda: {call}))\n" for call in REFUSED) + SYNCS + AFTER
    *refused, syncs = python(code, PYTHONPATH=str(installed())).splitlines()
    assert refused == [*REFUSED.values()]
    assert syncs == "item bool cpu text tolist nonzero mask equal tensor"
