"""Where the steps on XLA write: to the parameters' own buffers, which all of their aliases see."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.process import python
from tests.support.xla import xla

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

ALIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda param: param.detach(),
    "data": lambda param: param.data,
    "row": lambda param: param.detach()[1],
    "turned": lambda param: param.detach().t(),
    "flat": lambda param: param.detach().view(-1),
}


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_sees_the_update(alias: str) -> None:
    param = torch.zeros(4, 3, device=xla(), requires_grad=True)
    other, optimizer = ALIASES[alias](param), syncfree.SGD([param], lr=1.0)
    for count in (1, 2):
        param.grad = torch.ones_like(param)
        optimizer.step()
        assert {*other.cpu().flatten().tolist()} == {-float(count)}


def test_a_parameter_that_is_a_view_updates_its_base() -> None:
    base = torch.zeros(2, 3, device=xla())
    row = base[0]
    row.grad = torch.ones_like(row)
    syncfree.SGD([row], lr=1.0).step()
    assert base.cpu().tolist() == [[-1.0] * 3, [0.0] * 3]


def test_every_result_takes_its_own_old_buffer() -> None:
    """Otherwise XLA copies every tensor twice: the compiled program says whose buffer each of its results takes."""
    code = """if True:
        import torch, torch_xla
        from polycast.backends.xla_kernels import optim, scale
        lists = [[torch.rand(3, 3).to("xla") for _ in range(4)] for _ in range(4)]
        steps = [torch.zeros(()).to("xla") for _ in range(4)]
        options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
        torch_xla.sync(wait=True)
        lr = torch.tensor(0.1, dtype=torch.float64)
        optim.adam_step_(*lists, [], steps, lr=lr, decoupled_weight_decay=False, **options)
        torch_xla.sync(wait=True)
    """
    with TemporaryDirectory() as folder:
        python(code, XLA_FLAGS=f"--xla_dump_to={folder} --xla_dump_hlo_as_text")
        texts = [path.read_text() for path in Path(folder).glob("*cpu_after_optimizations.txt")]
    (program,) = [text for text in texts if "f32[3,3]" in text]
    assert program.count("may-alias") == 16
    assert " = f32[3,3]{1,0} copy(" not in program
