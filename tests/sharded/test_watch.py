"""``polycast.debug.watch`` in data parallel training, where each process reports its own findings."""

import polycast
import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.usefixtures("on_both_ranks")


class Reduced(nn.Module):
    """A layer that sums its output over the processes. The result overflows in the second process."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        nn.init.constant_(self.linear.weight, 100.0)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum, times 100 in the second process."""
        h: Tensor = self.linear(x).detach()
        distributed.all_reduce(h)
        return h * (100 if distributed.get_rank() == 1 else 1)


def test_a_process_names_its_own_overflow_and_reports_values_from_another() -> None:
    torch.manual_seed(0)
    is_second = distributed.get_rank() == 1
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with polycast.debug.watch(model, optimizer) as found:
        for step in range(3):
            with polycast.autocast("cpu", torch.float16):
                loss = model(torch.ones(2, 4)).float().sum() * (1e8 if is_second and step == 1 else 1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    (finding,) = found.findings
    own, sent = 'tried, and finite: polycast.Policy({"linear": "fp32"})', "another process sent it by c10d::allreduce_"
    assert (own if is_second else sent) in finding.remedy


def test_a_collective_is_not_called_again() -> None:
    """``watch`` does not repeat a collective, because the other process would pair the repeated call with another."""
    model = Reduced()
    with polycast.debug.watch(model) as found, polycast.autocast("cpu", torch.float16):
        model(torch.ones(1, 4))
    assert [one.op for one in found.findings] == (["mul"] if distributed.get_rank() == 1 else [])
    assert all("tried, and finite" in one.remedy for one in found.findings)
    processes = torch.ones(3)
    distributed.all_reduce(processes)
    assert processes.tolist() == [2, 2, 2]
