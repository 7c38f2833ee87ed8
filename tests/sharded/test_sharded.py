"""Sharded parameters (DTensors): all checks of tests/sharded, in a world of one and in one of two."""

import gc

import pytest
import torch
from polycast.scaler import findings, sharding
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.sharded.all import CHECKS
from tests.support.sharded import world


@pytest.mark.usefixtures("world_of_one", "one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_in_a_world_of_one(name: str) -> None:
    CHECKS[name]()
    gc.collect()  # torch warns when it frees a model of FSDP1; in another test that would be an error


@pytest.mark.parametrize("name", CHECKS)
def test_in_a_world_of_two(name: str) -> None:
    assert [results[name] for results in world.results_of_two()] == ["", ""]


class Mesh:
    """One of two ranks, as far as the findings ask."""

    ndim = 1

    def size(self, _dim: int) -> int:
        return 2

    def get_coordinate(self) -> list[int]:
        return [1]

    def get_group(self, _dim: int) -> None:
        return None


@pytest.mark.parametrize("device", ["cuda:0", "xpu:0"])
def test_findings_are_brought_together_without_a_read(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On fake tensors any read raises. This rank has sharded gradients and others."""
    reductions: list[torch.Size] = []
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, *_, **__: reductions.append(tensor.shape))
    place, mesh = torch.device(device), Mesh()
    params = [torch.ones(1) for _ in range(3)]
    there = findings.Place(findings.Ranks(mesh, place), (0,))
    shards = sharding.Shards((there,), set())
    with FakeTensorMode():
        zero = torch.zeros((), device=place)
        flags = torch.zeros(3, device=place)
        found = shards.agreed(
            [findings.Finding(place, params, zero, flags, zero, where) for where in (there, None)], with_norms=True
        )
        norm = findings.total_norm(found.norms, 2.0, place)
    assert [found_inf.device for found_inf in found.found_infs.values()] == [place]
    assert norm.device == place
    assert reductions == [(2 + 2,)]  # whether any is not finite or there, and the norms
