"""Gradients with the cast cache are those of stock autocast, bit for bit, in random networks and styles of training."""

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.cast_cache.programs import PLANS, Plan, Train, check_network, train_plainly
from tests.support.properties import examples

BF16 = torch.bfloat16
pytestmark = pytest.mark.usefixtures("one_thread")


def accumulated(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        for part in torch.split(x, 2):
            model(part).float().square().mean().backward()


def evaluated_between(model: nn.Module, x: Tensor) -> None:
    train_plainly(model, x)
    with torch.no_grad(), torch.autocast("cpu", BF16):
        model(x)
    train_plainly(model, x)


def checkpointed(reentrant: bool) -> Train:
    def run(model: nn.Module, x: Tensor) -> None:
        with torch.autocast("cpu", BF16):
            out = checkpoint(model, x.requires_grad_(), use_reentrant=reentrant)
        out.float().square().mean().backward()

    return run


def doubled(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        loss = model(x.requires_grad_()).float().square().mean()
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + grad.square().sum()).backward()


def twice(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        loss = model(x).float().square().mean()
    loss.backward(retain_graph=True)
    loss.backward()


STYLES = {
    "plain": train_plainly,
    "accumulation inside a region": accumulated,
    "evaluation between": evaluated_between,
    "checkpointing": checkpointed(False),
    "reentrant checkpointing": checkpointed(True),
    "double backward": doubled,
    "two backward passes": twice,
}


# Attention takes a kernel whose gradient has no gradient.
@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad=True:UserWarning")
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("style", STYLES)
@given(plan=PLANS)
@examples(8)
def test_gradients_are_those_of_stock_autocast(style: str, kept: bool, plan: Plan) -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        check_network(plan, STYLES[style], kept)
