"""Random programs that use weights and a buffer in regions, and write to them between the uses.

The cache notices the writes to weights. Writes to the buffer do not change its version. Each value must equal the
value of stock autocast without a cache.
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
from tests.cast_cache.writes import ALL, ASSIGNED, CHANGES, NOT_ON_XLA
from tests.support.devices import lower_precision

SIZE = 4
MODES: list[Callable[[], Any]] = [torch.enable_grad, torch.no_grad, torch.inference_mode]
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": torch.matmul,
    "linear": torch.nn.functional.linear,
    "twice": lambda x, weight: x @ weight @ weight,
    "cat": lambda x, weight: torch.cat([x.expand(SIZE, SIZE), weight]),
    "prod": lambda x, weight: (x @ weight).prod(-1),
}


class Act(NamedTuple):
    """A use of a weight, a write to it, a "refill" of the buffer, or a "leave", which ends the innermost region."""

    name: str
    weight: int
    value: float


class Enter(NamedTuple):
    """The start of a polycast or PyTorch region, together with a grad mode."""

    mode: Callable[[], Any]
    dtype: torch.dtype
    is_torchs: bool


class Program(NamedTuple):
    """Acts, and two flags for each of four weights: whether it has an alias and whether its casts are kept."""

    acts: list[Act | Enter]
    aliased: tuple[bool, ...]
    kept: tuple[bool, ...]


@st.composite
def programs(draw: st.DrawFn, device: str) -> Program:
    """Draw a program for a device."""
    on_xla = device == "xla"
    writes = [*CHANGES, *ASSIGNED, *(() if on_xla else NOT_ON_XLA)]
    uses = st.sampled_from(list(USES))
    names = st.one_of(uses, uses, uses, st.just("refill"), st.sampled_from(writes), st.just("leave"))
    acts = st.builds(Act, names, st.integers(0, 3), st.sampled_from([1.0, 0.5, 1.3]))
    # On XLA, inference mode allows no view of a weight.
    modes = st.sampled_from(MODES[: 2 if on_xla else 3])
    enters = st.builds(Enter, modes, st.sampled_from(lower_precision(device)), st.booleans())
    flags = st.tuples(*[st.booleans()] * 4)
    most = 12 if on_xla else 40  # XLA compiles each use, which is slow.
    drawn = st.lists(st.one_of(*[acts] * 7, enters), min_size=draw(st.integers(0, most // 2)), max_size=most)
    return Program([draw(enters), *draw(drawn)], draw(flags), draw(flags))


def values(program: Program, device: str, cache: bool) -> list[Tensor]:
    """Run a program with new tensors, and return the values of all uses in regions."""
    buffer = torch.zeros(SIZE, SIZE, device=device)
    numbers = torch.Generator().manual_seed(0)
    weights = [nn.Parameter(torch.rand(SIZE, SIZE, generator=numbers).to(device)) for _ in range(4)]
    weights[2].data = weights[2].data.bfloat16()
    weights[3].requires_grad_(False)
    aliases = [weight.detach() for weight, held in zip(weights, program.aliased, strict=True) if held]
    kept = module_of(*(weight for weight, held in zip(weights, program.kept, strict=True) if held))
    found: list[Tensor] = []
    regions: list[ExitStack] = []
    with ExitStack() as all_regions, cast_cache.keep(kept):
        for act in program.acts:
            if isinstance(act, Enter):
                if len(regions) < 3:
                    regions.append(all_regions.enter_context(ExitStack()))
                    autocast = torch.autocast if act.is_torchs else polycast.autocast
                    regions[-1].enter_context(act.mode())
                    regions[-1].enter_context(autocast(device, dtype=act.dtype, cache_enabled=cache))
            elif not regions:
                continue
            elif act.name == "leave":
                regions.pop().close()
            elif act.name in USES:
                found.append(USES[act.name](buffer, weights[act.weight]).detach().cpu().float())
            elif act.name == "refill":
                buffer.data.copy_(torch.full_like(buffer, act.value))
            elif not torch.is_inference_mode_enabled() and (act.name not in ASSIGNED or program.kept[act.weight]):
                ALL[act.name](weights[act.weight], act.value)
    del aliases
    return found


def check_program(program: Program, device: str) -> None:
    """Run a program under stock PyTorch and under polycast, and assert that the values are equal."""
    with stock(device):
        expected = values(program, device, cache=False)
    found = values(program, device, cache=True)
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), f"value {number}: expected {other}, got {one}"
