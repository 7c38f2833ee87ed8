"""Random programs of scalers over ranks; TIMES=100 runs 100 times as many.

A program has one or two optimizers, sharded over meshes or plain, with gradients that are not finite or missing on some
ranks. Its oracle is one process that has the shards of all ranks as parameters, with torch's optimizers and scaler, and
makes the same calls. Other programs train a model of FSDP2's beside stock.
"""

import itertools
from random import Random
from typing import Any, NamedTuple

import polycast
import torch
from polycast import syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.support.properties import TIMES
from tests.support.sharded.models import INF, assert_same, loss, model, placed, started
from tests.support.sharded.world import check, rank, size

SCALE = 1024.0
LAYOUTS: tuple[tuple[Any, ...], ...] = (("0",), ("1",), ("R",), ("0R", 1, 0), ("01", 1, 0), ("R1", 0, 1))
MAKERS: dict[str, tuple[Any, Any]] = {
    "SGD": (syncfree.SGD, {"lr": 0.1, "momentum": 0.9}),
    "AdamW": (syncfree.AdamW, {"lr": 0.01, "eps": 1e-2}),
    "torch": (torch.optim.AdamW, {"lr": 0.01, "eps": 1e-2, "foreach": False}),
    "torch, foreach": (torch.optim.AdamW, {"lr": 0.01, "eps": 1e-2, "foreach": True}),
    "torch, fused": (torch.optim.AdamW, {"lr": 0.01, "eps": 1e-2, "fused": True}),
}
THEIRS = {kind: torch.optim.SGD if kind == "SGD" else torch.optim.AdamW for kind in MAKERS}
NORM_TYPES = (2.0, 2.0, 1.0, 3.0, INF)
Part = tuple[int, ...]


class Layout(NamedTuple):
    """Where a parameter lies: an axis for each dimension of the mesh, None where it is replicated, and the mesh."""

    axes: tuple[int | None, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, text: str, *shape: int) -> "Layout":
        lengths = tuple(length or size() for length in shape) or (size(),)
        return cls(tuple(None if letter == "R" else int(letter) for letter in text), lengths)

    def parts(self) -> list[Part]:
        """Return all parts, by their places along the dimensions that split."""
        lengths = [length for axis, length in zip(self.axes, self.shape, strict=True) if axis is not None]
        return list(itertools.product(*map(range, lengths)))

    def own(self, number: int) -> Part:
        """Return the part of a rank."""
        place = torch.unravel_index(torch.tensor(number), self.shape)
        return tuple(int(at) for axis, at in zip(self.axes, place, strict=True) if axis is not None)

    def cut(self, tensor: Tensor, part: Part) -> Tensor:
        """Return a part of a whole tensor."""
        steps = iter(part)
        for axis, length in zip(self.axes, self.shape, strict=True):
            if axis is not None:
                pieces, at = tensor.chunk(length, axis), next(steps)
                tensor = pieces[at] if at < len(pieces) else tensor.narrow(axis, 0, 0)
        return tensor.clone()


class Sharded:
    """An optimizer of sharded parameters, and of their parts in one process."""

    def __init__(self, random: Random, kind: str) -> None:
        self.texts = [random.choice(LAYOUTS) for _ in range(random.randint(1, 4))]
        self.layouts = [Layout.of(*text) for text in self.texts]
        self.dtypes = [random.choice([torch.float32, torch.float32, torch.float64]) for _ in self.texts]
        self.sizes = [(random.randint(1, 6), random.randint(1, 5)) for _ in self.texts]
        values = [torch.randn(sizes, dtype=dtype) for sizes, dtype in zip(self.sizes, self.dtypes, strict=True)]
        self.params: list[Any] = [
            placed(value, *text).requires_grad_() for value, text in zip(values, self.texts, strict=True)
        ]
        cut = [
            {part: layout.cut(value, part) for part in layout.parts()}
            for value, layout in zip(values, self.layouts, strict=True)
        ]
        self.parts = [{part: one.requires_grad_() for part, one in parts.items() if one.numel()} for parts in cut]
        make, options = MAKERS[kind]
        self.optimizer = make(self.params, **options)
        every_part = [one for parts in self.parts for one in parts.values()]
        self.oracles = [THEIRS[kind](every_part, **options | {"foreach": False})]
        self.bad: list[int] = []
        self.named: list[int] = []  # on this rank

    def give(self, random: Random, scale: float, bad: float | None) -> None:
        """Give gradients, of which parts are missing, and one may not be finite; not all are missing."""
        everywhere = [(index, part) for index, parts in enumerate(self.parts) for part in parts]
        kept = random.choice(everywhere)
        missing = {one for one in everywhere if one != kept and random.random() < random.choice([0.0, 0.5])}
        lone = random.randrange(size()) if random.random() < 0.3 else -1  # this rank has none, if it is not kept
        self.bad = [kept[0]] if bad is not None else []
        self.named = self.bad if self.layouts[kept[0]].own(rank()) == kept[1] else []
        for index, (layout, parts) in enumerate(zip(self.layouts, self.parts, strict=True)):
            grad = torch.randn(self.sizes[index], dtype=self.dtypes[index]) * scale
            for part, one in parts.items():
                one.grad = layout.cut(grad, part)
                if bad is not None and (index, part) == kept:
                    one.grad.view(-1)[0] = bad
                holders = [number for number in range(size()) if layout.own(number) == part]
                if (index, part) in missing or ((index, part) != kept and holders == [lone]):
                    one.grad = None
            own = parts.get(layout.own(rank()))
            self.params[index].grad = placed(grad, *self.texts[index])  # on all ranks: it communicates
            if own is not None and own.grad is None:
                self.params[index].grad = None
            elif own is not None:
                self.params[index].grad._local_tensor.copy_(own.grad)

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Return the parts of this rank, and what they are in one process."""
        own = [parts.get(layout.own(rank())) for parts, layout in zip(self.parts, self.layouts, strict=True)]
        return [
            (param._local_tensor, one.detach()) for param, one in zip(self.params, own, strict=True) if one is not None
        ]

    def wanted_norm(self, norms: list[Tensor]) -> Tensor:
        return norms[0]


class Plain:
    """An optimizer of plain parameters, which each rank has of its own."""

    def __init__(self, random: Random, kind: str) -> None:
        make, options = MAKERS[kind]
        values = [torch.randn(random.randint(1, 5)) for _ in range(2)]
        self.params: list[Any] = [value.clone().requires_grad_() for value in values]
        self.copies = [[value.clone().requires_grad_() for value in values] for _ in range(size())]
        self.optimizer = make(self.params, **options)
        self.oracles = [THEIRS[kind](copies, **options | {"foreach": False}) for copies in self.copies]
        self.bad: list[int] = []
        self.named: list[int] = []  # on this rank

    def give(self, random: Random, scale: float, bad: float | None) -> None:
        which = random.randrange(size())
        self.bad = self.named = [0] if bad is not None and which == rank() else []
        for number, copies in enumerate(self.copies):
            for index, one in enumerate(copies):
                one.grad = torch.randn(one.shape) * scale
                if bad is not None and number == which and index == 0:
                    one.grad[0] = bad
            if random.random() < 0.2:
                copies[1].grad = None
        for param, one in zip(self.params, self.copies[rank()], strict=True):
            param.grad = None if one.grad is None else one.grad.clone()

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        return [(param.detach(), one.detach()) for param, one in zip(self.params, self.copies[rank()], strict=True)]

    def wanted_norm(self, norms: list[Tensor]) -> Tensor:
        return norms[rank()]


def clip(optimizer: Any, max_norm: float, norm_type: float) -> Tensor:
    params = [param for group in optimizer.param_groups for param in group["params"]]
    return torch.nn.utils.clip_grad_norm_(params, max_norm, norm_type, foreach=False)


def step_together(scaler: Any, optimizers: list[Any], skips: bool) -> None:
    """Do as ours: none steps if anything was found."""
    for optimizer in optimizers:
        state = scaler._per_optimizer_states[id(optimizer)]
        if state["stage"].name == "READY":
            scaler.unscale_(optimizer)
        if skips:
            state["found_inf_per_device"][torch.device("cpu")].fill_(1)
        scaler.step(optimizer)


class Program:
    """The iterations of a program, here and in one process."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        torch.manual_seed(seed)
        kinds: Any = self.random.choice([[Sharded], [Sharded], [Sharded, Sharded], [Sharded, Plain], [Plain, Sharded]])
        self.models = [make(self.random, self.random.choice(["SGD", "AdamW", "AdamW", "torch"])) for make in kinds]
        self.ours: Any = polycast.GradScaler("cpu", init_scale=SCALE, growth_interval=2)
        self.theirs: Any = Scaler("cpu", init_scale=SCALE, growth_interval=2)

    def iterate(self) -> int:
        """Make the calls of an iteration on both sides, compare, and return how many steps were skipped."""
        bads = [self.random.choice([None, None, None, INF, float("nan")]) for _ in self.models]
        for scaler in (self.ours, self.theirs):
            scaler.scale(torch.ones(1))
        for each, bad in zip(self.models, bads, strict=True):
            each.give(self.random, self.theirs.get_scale(), bad)
        look = self.random.choice(["step", "unscale_", "clip_grad_norm"])
        self.look(look)
        together, drops = self.random.random() < 0.5, look != "step" and self.random.random() < 0.1
        is_bad = any(bad is not None for bad in bads)
        if not drops:
            self.step(together, is_bad)
        for scaler in (self.ours, self.theirs):
            scaler.update()
        assert self.ours.get_scale() == self.theirs.get_scale()
        self.compare()
        if drops:
            return 0
        skips = [is_bad if together else bool(each.bad) for each in self.models]
        assert [self.ours.skipped(each.optimizer).item() for each in self.models] == skips
        return sum(skips)

    def look(self, look: str) -> None:
        norm_type = self.random.choice(NORM_TYPES)
        for each in self.models if look != "step" else ():
            for oracle in each.oracles:
                self.theirs.unscale_(oracle)
            if look == "unscale_":
                self.ours.unscale_(each.optimizer)
                continue
            norm = self.ours.clip_grad_norm(each.optimizer, 0.5, norm_type)
            wanted = each.wanted_norm([clip(oracle, 0.5, norm_type) for oracle in each.oracles])
            torch.testing.assert_close(norm.double(), wanted.double(), rtol=1e-5, atol=0, equal_nan=True)

    def step(self, together: bool, is_bad: bool) -> None:
        oracles = [oracle for each in self.models for oracle in each.oracles]
        if together:
            self.ours.step_together(*(each.optimizer for each in self.models))
            step_together(self.theirs, oracles, is_bad)
            return
        for each in self.models:
            self.ours.step(each.optimizer)
        list(map(self.theirs.step, oracles))

    def compare(self) -> None:
        for each in self.models:
            for found, wanted in each.pairs():
                torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
            names = [f"param_groups[0]['params'][{index}]" for index in each.named]
            assert self.ours.non_finite(each.optimizer) == names


def in_one_process(seed: int) -> int:
    """Run a program; return how many steps were skipped, or raise what differs from one process."""
    program = Program(seed)
    try:
        return sum(program.iterate() for _ in range(program.random.randint(3, 6)))
    except AssertionError as error:
        raise AssertionError(f"program {seed}: {error}") from error


def train_step(parts: Any, number: int, look: str, bad: float | None, index: int, missing: int, on: int) -> float:
    """Train one step, in which a gradient of a rank is not finite and another is missing; return the new scale."""
    layers, optimizer, scaler = parts
    scaler.scale(loss(layers, number)).backward()
    params: list[Any] = list(layers.parameters())
    local = params[index].grad._local_tensor
    if bad is not None and rank() == on and local.numel():
        local.view(-1)[0] = bad
    if rank() == on and missing not in (-1, index):
        params[missing].grad = None
    ours = isinstance(scaler, polycast.GradScaler)
    if look.startswith("unscale_") or (look == "clip" and not ours):
        scaler.unscale_(optimizer)
    if look.endswith("clip") and ours:
        scaler.clip_grad_norm(optimizer, 0.1)
    elif look.endswith("clip"):
        torch.nn.utils.clip_grad_norm_(params, 0.1)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return scaler.get_scale()  # type: ignore[no-any-return]


def beside_stock(seed: int) -> int:
    """Train a model of FSDP2's with ours and with torch's; gradients may be missing on a rank where nobody clips."""
    random = Random(seed)
    kind = list(MAKERS)[seed % len(MAKERS)]
    make, options = MAKERS[kind]
    layers, reference = model(seed), model(seed)
    ours: Any = layers, make(layers.parameters(), **options), started(growth_interval=2)
    stock = Scaler("cpu", init_scale=SCALE, growth_interval=2)
    theirs = reference, THEIRS[kind](reference.parameters(), **options), stock
    skips = 0
    for number in range(5):
        look, on = random.choice(["step", "unscale_", "clip", "unscale_, clip"]), random.randrange(size())
        index, bad = random.randrange(6), random.choice([None, None, INF, float("nan")])
        missing = random.randrange(6) if not look.endswith("clip") and random.random() < 0.4 else -1
        scales = [train_step(parts, number, look, bad, index, missing, on) for parts in (ours, theirs)]
        assert scales[0] == scales[1], (seed, number)
        skips += int(ours[2].skipped(ours[1]).item())
        assert_same(layers.parameters(), reference.parameters(), tolerance=1e-5)
    return skips


@check
def random_programs_are_those_of_one_process() -> None:
    assert sum(map(in_one_process, range(12 * TIMES))) > 5


@check
def random_trainings_are_those_of_stock() -> None:
    assert sum(map(beside_stock, range(len(MAKERS) * TIMES))) > 1
