"""Random programs of a scaler and optimizers over two ranks match ``torch.optim`` with the gradients of all ranks.

Both ranks draw the same program. ``torch.optim`` steps copies of each rank's parts, with gradients that are unscaled,
and clipped by the norm over all ranks. It omits skipped steps. ``TIMES=100`` runs 100x as many programs.
"""

from random import Random
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.scaler.common import INF, NAN
from tests.support.properties import TIMES
from tests.support.sharded.models import placed
from tests.support.sharded.world import distributed, rank, size

pytestmark = pytest.mark.usefixtures("on_both_ranks")

# `placed` accepts these arguments, like `models.PLACES`. None means a plain parameter, of which each rank has its own.
LAYOUTS: tuple[Any, ...] = (("0",), ("1",), ("R",), ("0R", 1, 0), ("01", 1, 0), ("R1", 0, 1), None)
MOMENTUM, ADAM = {"lr": 0.1, "momentum": 0.9}, {"lr": 0.01, "eps": 1e-2}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "SGD": (syncfree.SGD, torch.optim.SGD, MOMENTUM),
    "AdamW": (syncfree.AdamW, torch.optim.AdamW, ADAM),
    "for-loop": (torch.optim.AdamW, torch.optim.AdamW, ADAM | {"foreach": False}),
    "foreach": (torch.optim.AdamW, torch.optim.AdamW, ADAM | {"foreach": True}),
    "fused": (torch.optim.AdamW, torch.optim.AdamW, ADAM | {"fused": True}),
}
# A part has a parameter's index, then the rank (plain parameter) or the coordinates in the sharding mesh dimensions.
Part = tuple[int, ...]  # Replicas of a shard have the same `Part`.


def gathered(values: dict[Part, Tensor]) -> dict[Part, Tensor]:
    """Return the values of all ranks, by part."""
    each: list[Any] = [None] * size()
    distributed.all_gather_object(each, values)
    return {part: value for values in each for part, value in values.items()}


class Optimized:
    """Parameters of random layouts with an optimizer, and copies of this rank's shards for ``torch.optim``."""

    def __init__(self, random: Random, is_sharded: bool) -> None:
        kind = random.choice(["SGD", "AdamW", "AdamW", "for-loop", "foreach", "fused"])
        ours, theirs, options = KINDS[kind]
        choice = LAYOUTS if is_sharded else [None]
        self.layouts = [random.choice(choice[: -1 if is_sharded and not index else None]) for index in range(3)]
        if kind in ("foreach", "fused"):  # `torch.optim` rejects lists over several meshes.
            self.layouts = self.layouts[:1] * 3
        self.dtypes = [layout and random.choice([torch.float32, torch.float64]) for layout in self.layouts]
        wholes = [torch.randn(random.randint(1, 6), random.randint(1, 5), dtype=dtype) for dtype in self.dtypes]
        pairs = list(zip(wholes, self.layouts, strict=True))
        self.params: list[Any] = [(placed(one, *layout) if layout else one).requires_grad_() for one, layout in pairs]
        self.shards = [self.local(param).clone().requires_grad_() for param in self.params]
        self.optimizer = ours(self.params, **options)
        self.theirs = theirs(self.shards, **options | {"foreach": False, "fused": False})
        self.is_sharded = is_sharded
        self.parts = sorted(gathered({self.part(index): one for index, one in enumerate(self.shards) if one.numel()}))

    @staticmethod
    def local(tensor: Any) -> Tensor:
        result: Tensor = getattr(tensor, "_local_tensor", tensor)
        return result.detach()

    def part(self, index: int, number: int | None = None) -> Part:
        """Return the part of a parameter that is on a rank, by default on this rank."""
        number, param = rank() if number is None else number, self.params[index]
        if self.layouts[index] is None:
            return index, number
        place = (param.device_mesh.mesh == number).nonzero()[0].tolist()
        splits = [at for at, placement in zip(place, param.placements, strict=True) if not placement.is_replicate()]
        return index, *splits

    def give(self, random: Random, scale: float, factor: float, bad: float | None) -> None:
        """Set random gradients. Some gradients are missing, but not on all ranks. One gradient may be non-finite."""
        kept, lone = random.choice(self.parts), random.randrange(size())
        some = {part for part in self.parts if random.random() < random.choice([0.0, 0.5])}
        if random.random() < 0.3:  # The gradients of the parts that only rank `lone` has are missing.
            others = {self.part(index, 1 - lone) for index in range(3)}
            some |= {self.part(index, lone) for index in range(3)} - others
        needed = {kept, *(self.part(0, number) for number in range(size()) if not self.is_sharded)}
        for index, (param, layout, shard) in enumerate(zip(self.params, self.layouts, self.shards, strict=True)):
            grad = torch.randn(param.shape, dtype=param.dtype) * scale * factor
            param.grad = placed(grad, *layout) if layout else grad  # All ranks call `placed`, a collective.
            part, local = self.part(index), self.local(param.grad)
            if part in some - needed:
                param.grad = shard.grad = None
                continue
            if bad is not None and part == kept:
                local[0, 0] = bad
            shard.grad = local / scale
        here = bad is not None and kept in map(self.part, range(3))
        self.is_bad = bad is not None and (self.is_sharded or here)
        self.named = [f"param_groups[0]['params'][{kept[0]}]"] if here else []

    def clip(self, max_norm: float, norm_type: float) -> Tensor:
        """Clip the shards, and return the norm over all ranks, with the plain parameters of this rank only."""
        grads = {self.part(index): shard.grad for index, shard in enumerate(self.shards) if shard.grad is not None}
        known = gathered(grads)
        parts = [known[part].double() for part in known if self.layouts[part[0]] or part == self.part(part[0])]
        norm = torch.nn.utils.get_total_norm([part for part in parts if part.numel()], norm_type)
        torch.nn.utils.clip_grads_with_norm_(self.shards, max_norm, norm, foreach=False)
        return norm.to(torch.float64 if torch.float64 in self.dtypes else torch.float32)

    def compare(self, scaler: Any) -> None:
        torch.testing.assert_close([*map(self.local, self.params)], [*map(self.local, self.shards)])
        assert scaler.non_finite(self.optimizer) == self.named


class Program:
    """One or two optimizers and a scaler, and the expected scale."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.random = Random(seed)
        kinds = self.random.choice([[True], [True], [True, True], [True, False], [False, True]])
        self.all = [Optimized(self.random, is_sharded) for is_sharded in kinds]
        skip_on_host = self.random.random() < 0.3
        self.scaler = polycast.GradScaler("cpu", init_scale=1024.0, growth_interval=2, skip_on_host=skip_on_host)
        self.scale, self.good = 1024.0, 0

    def iterate(self) -> None:
        bads = [self.random.choice([None, None, None, INF, NAN]) for _ in self.all]
        look, is_bad = self.random.choice(["step", "unscale_", "clip"]), any(bad is not None for bad in bads)
        self.scaler.scale(torch.ones(1))
        for each, bad in zip(self.all, bads, strict=True):
            each.give(self.random, self.scale, self.random.choice([1.0, 1e20]) if look == "clip" else 1.0, bad)
        self.look(look)
        if look == "step" or self.random.random() < 0.9:  # Otherwise the program drops the batch.
            self.step(self.random.random() < 0.5, is_bad)
        self.scaler.update()
        self.good = 0 if is_bad else self.good + 1
        self.scale *= 0.5 if is_bad else 1 if self.good % 2 else 2
        assert self.scaler.get_scale() == self.scale
        for each in self.all:
            each.compare(self.scaler)

    def look(self, look: str) -> None:
        norm_type = self.random.choice([2.0, 2.0, INF])
        for each in self.all:
            if look == "unscale_":
                self.scaler.unscale_(each.optimizer)
            elif look == "clip":
                norm, wanted = self.scaler.clip_grad_norm(each.optimizer, 0.5, norm_type), each.clip(0.5, norm_type)
                torch.testing.assert_close(norm, wanted, equal_nan=True)

    def step(self, together: bool, is_bad: bool) -> None:
        if together:
            self.scaler.step_together(*(each.optimizer for each in self.all))
        for each in self.all:
            if not together:
                self.scaler.step(each.optimizer)
            skips = is_bad if together else each.is_bad
            assert self.scaler.step_was_skipped(each.optimizer).item() == skips
            if not skips:
                each.theirs.step()


@pytest.mark.parametrize("seed", range(20 * TIMES))
def test_programs_over_ranks_match_torch_optim_with_the_gradients_of_all_ranks(seed: int) -> None:
    """All ranks of a mesh clip by one norm and skip together (specification 8.4)."""
    program = Program(seed)
    for _ in range(program.random.randint(3, 6)):
        program.iterate()
