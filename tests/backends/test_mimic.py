"""The test backend: what it refuses, its syncs, its random numbers, and what PyTorch asks of a device."""

from tests.support.backend import NAME
from tests.support.backend.__main__ import installed
from tests.support.process import python

BEFORE = f"""
import io, torch
from torch.utils.checkpoint import checkpoint
D = "{NAME}"
MODULE = torch.get_device_module(D)
x = torch.randn(3, 3, device=D, requires_grad=True)

def refused(call):
    try:
        return call()
    except (RuntimeError, ValueError) as error:
        return str(error).splitlines()[0]
"""
SAME = "expected all tensors to be on the same device, but found"
OTHER = f"{NAME}:0 and {NAME}:1"


# A program of stock torch that ends right after a backward on a device may abort: a thread of autograd's still releases
# Python objects, and the interpreter is gone. No test is about that.
AFTER = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""


def on_device(code: str) -> str:
    return python(BEFORE + code + AFTER, PYTHONPATH=str(installed()))


REFUSED = {
    "x @ torch.ones(3, 3)": f"aten::mm: {SAME} {NAME}:0 and cpu",
    "torch.nn.functional.linear(x, x, torch.ones(3))": f"aten::addmm: {SAME} cpu and {NAME}:0",
    "torch.cat([x, torch.ones(3, 3)])": f"aten::cat: {SAME} {NAME}:0 and cpu",
    "x + x.to(D + ':1')": f"Expected all tensors to be on the same device, but found at least two devices, {OTHER}!",
    "torch.ones(2, device=D + ':2')": "the device index is 2, and there are 2 devices",
    "torch.rand(2, device=D, generator=torch.Generator())": "the generator is on cpu, and the tensors are not",
    "MODULE.set_device(256)": "the device index is 256, and there are 2 devices; count from 0",
    "MODULE.set_device(-1)": "the device index is -1, and there are 2 devices; count from 0",
    "MODULE.synchronize('cpu:1')": f"the device is cpu:1; give one of {NAME}",
    "MODULE.synchronize(D + ':7')": "the device index is 7, and there are 2 devices; count from 0",
    "MODULE.set_sync_debug_mode(7)": "the mode is 7; use one of 'default', 'warn', 'error', 0, 1, 2",
    "MODULE.set_sync_debug_mode('eror')": "the mode is 'eror'; use one of 'default', 'warn', 'error', 0, 1, 2",
    "(x + torch.tensor(1.0)).device": f"{NAME}:0",
    "x[torch.tensor([1])].device": f"{NAME}:0",
}


def test_it_refuses_what_a_device_refuses_and_takes_numbers_and_indices() -> None:
    code = "".join(f"print(refused(lambda: {call}))\n" for call in REFUSED)
    assert on_device(code).splitlines() == [*REFUSED.values()]


def test_a_sync_is_an_error_where_that_was_chosen() -> None:
    code = """
calls = {
    "item": lambda: x.sum().item(), "bool": lambda: bool(x.sum() > 0), "cpu": lambda: x.cpu(),
    "text": lambda: str(x), "tolist": lambda: x.tolist(), "nonzero": lambda: x.nonzero(), "mask": lambda: x[x > 0],
    "equal": lambda: torch.equal(x, x), "tensor": lambda: torch.tensor([1.0], device=D),
    "add": lambda: x + 1, "full": lambda: torch.full((2,), 1.0, device=D), "to": lambda: x.double(),
    "non_blocking": lambda: x.to("cpu", non_blocking=True), "backward": lambda: (x @ x).sum().backward(),
}
torch.mimic.set_sync_debug_mode("error")
print(*(name for name, call in calls.items() if refused(call) == "the host waits for the device"))
torch.mimic.set_sync_debug_mode("default")
print(x.sum().item() == x.cpu().sum().item())
""".replace("torch.mimic", f"torch.{NAME}")
    assert on_device(code) == "item bool cpu text tolist nonzero mask equal tensor\nTrue\n"


def test_its_random_numbers_are_its_own() -> None:
    code = """
torch.manual_seed(0)
first = torch.rand(3, device=D)
print(torch.equal(torch.rand(3), first.cpu()))
with torch.random.fork_rng([0], device_type=D):
    second = torch.rand(3, device=D)
print(torch.equal(torch.rand(3, device=D), second))
print(*(torch.rand(1, device=D, generator=torch.Generator(D).manual_seed(1)).item() for _ in range(2)))
for reentrant in (True, False):
    draws = []
    def forward(x):
        draws.append(torch.rand(2, device=D))
        return x * draws[-1].sum()
    checkpoint(forward, x, use_reentrant=reentrant).sum().backward()
    print(torch.equal(*draws))
"""
    assert on_device(code) == "True\nTrue\n0.7576315999031067 0.7576315999031067\nTrue\nTrue\n"


def test_torch_finds_what_it_asks_of_a_device() -> None:
    code = """
print(torch.accelerator.current_accelerator(check_available=True), torch.accelerator.device_count())
torch.accelerator.synchronize()
event = torch.Event(D)
event.record()
with torch.get_device_module(D).device(1):
    print(torch.ones(1, device=D).device, torch.accelerator.current_device_index())
model, file = torch.nn.Linear(2, 2).to(D), io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
print(torch.load(file)["weight"].device, x.T.contiguous().data.view(torch.int32).device)
storage = x.detach().untyped_storage()
storage.resize_(0)
storage.resize_(36)
print(torch.view_as_complex(torch.ones(2, 2, device=D)).conj().cpu().imag.tolist(), storage.device)
"""
    assert on_device(code) == f"{NAME} 2\n{NAME}:1 1\n{NAME}:0 {NAME}:0\n[-1.0, -1.0] {NAME}:0\n"


def test_torch_asks_it_for_convolutions_and_cells() -> None:
    code = """
import copy
torch.manual_seed(0)
signal = torch.randn(2, 4, 8)
for module in (
    torch.nn.Conv1d(4, 2, 3), torch.nn.ConvTranspose1d(4, 2, 3, bias=False), torch.nn.LSTM(8, 4), torch.nn.GRU(8, 4),
    torch.nn.LSTM(8, 4, bias=False, num_layers=2, bidirectional=True), torch.nn.GRU(8, 4, bias=False),
):
    there, found = copy.deepcopy(module).to(D), []
    for one, device in ((module, "cpu"), (there, D)):
        given = signal.clone().to(device).requires_grad_()
        output = one(given)
        output = output[0] if isinstance(output, tuple) else output
        output.square().sum().backward()
        found.append([output, given.grad, *(parameter.grad for parameter in one.parameters())])
    for host, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours.cpu(), host, rtol=1e-5, atol=1e-5)
print("as on the host")
"""
    assert on_device(code) == "as on the host\n"
