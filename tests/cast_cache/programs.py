"""Programs, drawn by hypothesis, that use weights and a buffer in regions and write to them in between.

A program writes to the buffer in a way that leaves no trace, to weights in ways that do. Each value that it computes
must be that of stock autocast without a cache. Where a program writes to weights without a trace, stock's own cache is
the measure: both give the same values, new or old.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import polycast
import torch
from hypothesis import strategies as st
from polycast import cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import module_of, stock
from tests.cast_cache.writes import CHANGES, NOT_ON_XLA
from tests.support.devices import lower_precision

BF16, SIZE = torch.bfloat16, 4

MODES: dict[str, Callable[[], Any]] = {
    "enable_grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": torch.matmul,
    "linear": torch.nn.functional.linear,
    "twice": lambda x, weight: x @ weight @ weight,
    "cat": lambda x, weight: torch.cat([x.expand(SIZE, SIZE), weight]),
    "prod": lambda x, weight: (x @ weight).prod(-1),
}


class Act(NamedTuple):
    """A use of a weight with the buffer, "refill" of the buffer, a write to the weight by its name, or "leave"."""

    name: str
    weight: int
    value: float


class Enter(NamedTuple):
    """The start of a region of polycast's or of torch's, in a grad mode."""

    mode: str
    dtype: torch.dtype
    is_torchs: bool


class Program(NamedTuple):
    """Acts in regions that are entered and left in between, and the tensors that they work on.

    With `hidden` it writes to weights without a trace, in no other way, and stays in one dtype and region at a time.
    """

    acts: list[Act | Enter]
    aliased: tuple[bool, ...]
    kept: tuple[bool, ...]
    hidden: bool


@st.composite
def programs(draw: st.DrawFn, device: str) -> Program:
    """Draw a program for a device."""
    on_xla = device == "xla"
    hidden = not on_xla and draw(st.sampled_from([False, False, False, True]))  # XLA sees such writes
    writes = ["hidden"] if hidden else [*CHANGES, *(() if on_xla else NOT_ON_XLA)]
    uses = st.sampled_from(list(USES))
    names = st.one_of(uses, uses, uses, st.just("refill"), st.sampled_from(writes), st.just("leave"))
    values = st.sampled_from([1.0, 0.5, 1.3])
    acts = st.builds(Act, names, st.integers(0, 3), values)
    # On XLA no view of a weight can be made in inference mode.
    modes = st.sampled_from(list(MODES)[: 2 if on_xla or hidden else 3])
    dtypes = st.sampled_from([BF16] if hidden else lower_precision(device))
    enters = st.builds(Enter, modes, dtypes, st.booleans())
    flags = st.tuples(*[st.booleans()] * 4)
    most = 12 if on_xla else 40  # each use compiles on XLA
    least = draw(st.integers(0, most // 2))
    return Program(
        [draw(enters), *draw(st.lists(st.one_of(*[acts] * 7, enters), min_size=least, max_size=most))],
        draw(flags),
        (False,) * 4 if hidden else draw(flags),
        hidden,
    )


class Run:
    """A run of a program on a device, with tensors of its own."""

    def __init__(self, program: Program, device: str) -> None:
        self.program, self.device = program, device
        self.buffer = torch.zeros(SIZE, SIZE, device=device)
        numbers = torch.Generator().manual_seed(0)
        self.weights = [nn.Parameter(torch.rand(SIZE, SIZE, generator=numbers).to(device)) for _ in range(4)]
        self.weights[2].data = self.weights[2].data.bfloat16()
        self.weights[3].requires_grad_(False)
        self.aliases = [weight.detach() for weight, held in zip(self.weights, program.aliased, strict=True) if held]
        self.kept = [weight for weight, held in zip(self.weights, program.kept, strict=True) if held]
        self.values: list[Tensor] = []

    def run(self, cache: bool) -> list[Tensor]:
        """Return the values of its uses in regions."""
        kept = module_of(*self.kept)
        cast_cache.keep(kept)
        regions: list[ExitStack] = []
        with ExitStack() as all_regions:
            for act in self.program.acts:
                if isinstance(act, Enter):
                    if len(regions) < (1 if self.program.hidden else 3):
                        regions.append(all_regions.enter_context(ExitStack()))
                        self._enter(act, regions[-1], cache)
                elif regions and act.name == "leave":
                    regions.pop().close()
                elif regions:
                    self._act(act)
        cast_cache.release(kept)
        return self.values

    def _enter(self, region: Enter, stack: ExitStack, cache: bool) -> None:
        autocast = torch.autocast if region.is_torchs else polycast.autocast
        stack.enter_context(MODES[region.mode]())
        stack.enter_context(autocast(self.device, dtype=region.dtype, cache_enabled=cache))

    def _act(self, act: Act) -> None:
        weight = self.weights[act.weight]
        if act.name in USES:
            self.values.append(USES[act.name](self.buffer, weight).detach().cpu().float())
        elif act.name == "refill":
            self.buffer.data.copy_(torch.full_like(self.buffer, act.value))
        elif act.name == "hidden":
            weight.data.mul_(act.value)
        elif not torch.is_inference_mode_enabled():
            {**CHANGES, **NOT_ON_XLA}[act.name](weight, act.value)


def check_program(program: Program, device: str) -> None:
    """Run a program under stock and under polycast; the values are the same."""
    with stock(device):
        expected = Run(program, device).run(cache=program.hidden)
    found = Run(program, device).run(cache=True)
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), f"value {number}: {one}, and with stock {other}"
