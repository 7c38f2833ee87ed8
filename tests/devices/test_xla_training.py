"""Training on XLA: device syncs, compilations, ``torch_xla``'s functions, and SPMD on two devices."""

import json
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as attention

from tests.support.devices import NEEDS_XLA, Traffic, synchronize
from tests.support.optimizers import OURS, clip, clones, parameters, set_grads
from tests.support.process import python

pytestmark = NEEDS_XLA

F32, BF16 = torch.float32, torch.bfloat16
STEPS = 20
BETA1, DECAY, EPS = 0.9, 0.01, 1e-8
# `torch_xla` would compile some of these learning rates as constants. Some equal another constant of the step.
LRS = [1e-3, 0.0, 1.0, EPS, BETA1, 1 - BETA1, DECAY, 2e-3]
SHARED: dict[str, Any] = {"lr": 1e-3, "weight_decay": DECAY}
COUNTED = {
    "SGD": {**SHARED, "momentum": BETA1},
    "Adam": {**SHARED, "betas": (BETA1, 0.99), "eps": EPS, "amsgrad": True},
    "AdamW": {**SHARED, "betas": (BETA1, 0.99), "eps": EPS},
}


@pytest.mark.parametrize(("kind", "place"), [("SGD", "float"), ("Adam", "xla"), ("AdamW", "float"), ("AdamW", "host")])
def test_steps_do_not_sync_and_compile_at_most_twice(kind: str, place: str) -> None:
    """Steps do not sync. After the second step, a new learning rate causes no compilation."""
    params = clones(parameters((7,), (3, 5), (), (0, 2)), "xla")
    optimizer = OURS[kind]([{"params": params[:2]}, {"params": params[2:]}], **COUNTED[kind])
    set_grads(params, 0)
    flags = [torch.tensor(float(skip)).to("xla") for skip in (False, True)]
    traffic, compiles = Traffic(), []
    for number in range(STEPS):
        lr: Any = LRS[number % len(LRS)]
        if place != "float":
            lr = torch.tensor([lr]).to("cpu" if place == "host" else "xla")
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step(found_inf=flags[number % 5 == 3])
        synchronize("xla")
        compiles.append(traffic.compiles())
    assert compiles[1:] == [compiles[1]] * (STEPS - 1)
    assert traffic.reads() == 0
    if kind != "SGD":
        assert {values["step"].item() for values in optimizer.state.values()} == {STEPS - STEPS // 5}


def test_xm_optimizer_step_forwards_found_inf() -> None:
    """``xm.optimizer_step``, which PyTorch/XLA recommends, forwards ``found_inf`` to the step."""
    import torch_xla.core.xla_model as xm

    params = clones(parameters((3,)), "xla")
    optimizer = syncfree.SGD(params, lr=1.0)
    before = params[0].tolist()
    for found_inf in (1.0, 0.0):
        set_grads(params, 0)
        xm.optimizer_step(optimizer, barrier=True, optimizer_args={"found_inf": torch.tensor(found_inf).to("xla")})
        assert (params[0].tolist() == before) == bool(found_inf)


def test_expanded_gradients_are_unscaled_and_clipped_independently() -> None:
    """Gradients that autograd on XLA expands from one shared element are unscaled and clipped only once each."""
    params = [nn.Parameter(torch.ones(size, device="xla")) for size in (1, 3, 1)]
    optimizer, scaler = syncfree.SGD(params, lr=1.0), polycast.GradScaler()
    scaler.scale(torch.stack([param.sum() for param in params]).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(params, 5**0.5 / 2, foreach=False)
    scaler.step(optimizer)
    for param in params:
        torch.testing.assert_close(param.detach().cpu(), torch.full(param.shape, 0.5))


@pytest.mark.parametrize(
    ("category", "value", "mask", "result"),
    [("lower_precision_fp", F32, BF16, BF16), (None, BF16, F32, BF16), ("promote", BF16, F32, F32)],
)
def test_attention_accepts_mixed_dtypes_and_a_rule_casts_them(
    category: str | None, value: torch.dtype, mask: torch.dtype, result: torch.dtype
) -> None:
    """On XLA, attention accepts inputs of mixed dtypes without a rule, and a policy's rule casts them."""
    rule = None if category is None else polycast.Policy({"scaled_dot_product_attention": {"xla": category}})
    query, values, masks = (torch.ones(1, 1, 2, 2, dtype=dtype, device="xla") for dtype in (BF16, value, mask))
    with polycast.autocast("xla", policy=rule):
        assert attention(query, query, values, masks).dtype == result


BATCHES, BAD = 8, 3
# SPMD must be enabled before the tests' modules are imported, because they create tensors on XLA.
CHILD = """
from torch_xla import runtime
runtime.use_spmd()
from tests.devices.test_xla_training import train_on_two
train_on_two()
"""


def batch(number: int) -> list[Tensor]:
    """Return the inputs of a step, and the factors of the losses. In the step ``BAD``, the last factor is infinite."""
    inputs, factors = torch.randn(8, 8, generator=torch.Generator().manual_seed(number)), torch.ones(8, 1)
    factors[-1] = float("inf") if number == BAD else 1.0
    return [inputs, factors]


class Training:
    """A model, its optimizer and its scaler."""

    def __init__(self, device: str, optimizer: Any, scaler: Any) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
        self.optimizer = optimizer(self.model.parameters(), lr=0.02, eps=1e-3)
        self.scaler = scaler(device, init_scale=2.0**10, growth_interval=3)

    def step(self, inputs: Tensor, factors: Tensor) -> None:
        with torch.autocast(self.device, dtype=BF16):
            outputs = self.model(inputs)
        self.scaler.scale((outputs.float().square() * factors).mean()).backward()
        clip(self.scaler, self.optimizer, max_norm=0.1)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def weights(self) -> list[Any]:
        return [param.detach().cpu().tolist() for param in self.model.parameters()]


def train_on_two() -> None:
    """Train with batches and parameters that are split over two devices, and print the results."""
    import torch_xla
    from torch_xla.distributed import spmd

    mesh = spmd.Mesh(range(2), (2,), ("data",))
    training = Training("xla", syncfree.AdamW, polycast.GradScaler)
    params = list(training.model.parameters())
    for param in params:
        spmd.mark_sharding(param, mesh, ("data", *[None] * (param.dim() - 1)))
    traffic = Traffic()
    for number in range(BATCHES):
        tensors = [tensor.to("xla") for tensor in batch(number)]
        for tensor in tensors:
            spmd.mark_sharding(tensor, mesh, ("data", None))
        training.step(*tensors)
        synchronize("xla")
    counts = traffic.reads(), traffic.compiles(), int(training.scaler.skip_count(training.optimizer))
    moments = [training.optimizer.state[param]["exp_avg"] for param in params]
    split = all("devices" in torch_xla._XLAC._get_xla_sharding_spec(tensor) for tensor in (*params, *moments))
    print(json.dumps([training.weights(), training.scaler.get_scale(), counts, split]))


def test_two_devices_train_as_one_does() -> None:
    """Two devices compute the weights of one CPU, without syncs. Both devices skip a step if one overflows."""
    reference = Training("cpu", torch.optim.AdamW, torch.amp.grad_scaler.GradScaler)
    for number in range(BATCHES):
        reference.step(*batch(number))
    printed = python(CHILD, CPU_NUM_DEVICES="2", TF_CPP_MIN_LOG_LEVEL="2", POLYCAST_INSTALL="0")
    weights, scale, counts, split = json.loads(printed)
    assert (scale, counts, split) == (reference.scaler.get_scale(), [0, 2, 1], True)
    for left, right in zip(weights, reference.weights(), strict=True):
        torch.testing.assert_close(torch.tensor(left), torch.tensor(right), rtol=0, atol=5e-3)
