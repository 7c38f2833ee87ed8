"""A rule holds for the whole op that it names: what the op runs below does not autocast, whatever rules that has."""

from collections.abc import Callable
from functools import partial

import polycast
import pytest
import torch
from polycast import Policy
from polycast.backends import device_type_of
from torch import Tensor
from torch.nn import functional as F

from tests.support.cases import FIRST_ON_KEY
from tests.support.probe import in_force, is_reachable, kernels_of, probes, reach, region, tensors_of

F32, BF16 = torch.float32, torch.bfloat16
X = torch.rand(4, 4)
BATCH = torch.rand(2, 3, 4)
IMAGE = torch.rand(1, 2, 5, 5)

LIBRARY = torch.library.Library("whole", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define("block(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
LIBRARY.impl("block", lambda x: F.linear(x, x).softmax(-1) @ x, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]

# Ops of the CPU that run listed ops below.
COMPOSITES: dict[str, Callable[[], Tensor]] = {
    "linear": lambda: F.linear(X, X, X[0]),
    "matmul": lambda: X @ X,
    "einsum": lambda: torch.einsum("ij,jk->ik", X, X),
    "linalg_multi_dot": lambda: torch.linalg.multi_dot([X, X, X]),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(BATCH, BATCH, BATCH),
    "conv2d.padding": lambda: F.conv2d(IMAGE, IMAGE[..., :3, :3], padding="same"),
    "gru_cell": lambda: torch.gru_cell(X, X, torch.ones(12, 4), torch.ones(12, 4)),
    "whole::block": lambda: torch.ops.whole.block(X),
}


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize(("op", "run"), COMPOSITES.items(), ids=COMPOSITES)
def test_input_dtype_holds_for_what_an_op_runs(op: str, run: Callable[[], Tensor], grad: bool) -> None:
    X.requires_grad_(grad)
    torch.manual_seed(0)
    plain = run()
    with polycast.autocast("cpu"):
        cast = run()
        torch.manual_seed(0)
        with polycast.autocast("cpu", policy=Policy({op: "input_dtype"})):
            torch.testing.assert_close(run(), plain, rtol=0, atol=0)
            assert (X @ X).dtype == (F32 if op == "matmul" else BF16)  # the rule is that of the op alone
        assert not torch.equal(cast.float(), plain)  # else this shows nothing
    X.requires_grad_(False)


@pytest.mark.parametrize(("op", "run"), COMPOSITES.items(), ids=COMPOSITES)
def test_what_an_unlisted_op_runs_follows_its_own_rules(op: str, run: Callable[[], Tensor]) -> None:
    """As under torch where its lists do not name the op: Python runs what is below, so this asks what was called."""
    with polycast.autocast("cpu", policy=Policy({op: "unlisted"})), polycast.debug.trace() as trace:
        run()
    below = [call for call in trace.calls if call.is_ruled]
    assert [call.rule for call in trace.calls if call.site.op == op] in ([], ["unlisted"])
    assert op in ("conv2d.padding", "scaled_dot_product_attention") or below


@pytest.mark.parametrize("device", [device for device in FIRST_ON_KEY if is_reachable(device)])
@pytest.mark.parametrize(("value", "is_whole"), [("input_dtype", True), ("unlisted", False), ("fp32", True)])
def test_what_a_listed_op_runs_on_each_device(device: str, value: str, is_whole: bool) -> None:
    """`layer_norm` is the README's: on cuda it runs `native_layer_norm`, which is listed, too."""
    names = ["layer_norm", "softmax.int", "matmul", "linear"]
    rules = dict.fromkeys(names, value)
    device_type = device_type_of(device)
    key = polycast._compiled.DEVICES[device].dispatch_key
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "layer_norm": lambda x: F.layer_norm(x, (2,)),
        "softmax.int": lambda x: x.softmax(0),
        "matmul": lambda x: x @ x,
        "linear": lambda x: F.linear(x, x),
    }
    lower = polycast._compiled.DEVICES[device].lower_precision[0]
    with kernels_of(device), tensors_of(device), probes(device, names), region(device, lower):
        x = torch.empty(2, 2, device=device_type)
        with in_force(Policy(rules)):
            for name in names:
                reached = reach(partial(calls[name], x))
                assert (reached.name, reached.autocasts(key)) == (name, not is_whole)
