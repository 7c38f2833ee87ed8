"""Random programs of scaler calls on any device, compared with PyTorch's scaler on the CPU.

A program is a list of calls that train, with some calls dropped, repeated or inserted. Both scalers run the program.
After each call, the parameters of both sides match within tolerances, and scale, growth tracker and skips are equal.
Otherwise, both calls raise the same error.
"""

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, cycle
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from hypothesis import event, example, given
from hypothesis import strategies as st
from polycast import syncfree
from polycast.devices import Fused, facts_of
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.amp.grad_scaler import OptState

from tests.scaler.common import INF, NAN, Wrapper
from tests.support.devices import has_float64
from tests.support.optimizers import on_host
from tests.support.properties import examples

# The tolerances are wide in float16, because an element may underflow on one side only.
CLOSE = {"half": (1e-3, 1e-5), "single": (1e-5, 1e-6), "double": (1e-12, 1e-13)}
OPTIONS: dict[str, Any] = {"init_scale": 2.0**14, "growth_factor": 4.0, "growth_interval": 2}
SGD, ADAM = {"lr": 0.05, "momentum": 0.9}, {"lr": 0.01, "eps": 1e-2}
# Each kind has our optimizer, PyTorch's optimizer, which takes equal steps, and their options.
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "SGD": (syncfree.SGD, torch.optim.SGD, SGD),
    "Adam": (syncfree.Adam, torch.optim.Adam, ADAM),
    "wrapped AdamW": (syncfree.AdamW, torch.optim.AdamW, ADAM),
    "wrapped for-loop": (torch.optim.SGD, torch.optim.SGD, SGD | {"foreach": False}),
    "foreach": (torch.optim.Adam, torch.optim.Adam, ADAM | {"foreach": True}),
    "fused": (torch.optim.AdamW, torch.optim.AdamW, ADAM | {"fused": True}),
}


class Call(NamedTuple):
    """A call of a program: the method of ``Side``, its optimizer and its numbers."""

    name: str
    optimizer: int = 0
    value: float = 1.0
    norm_type: float = 2.0


class Side:
    """Two small models, their optimizers, and a scaler. The methods are the calls of programs."""

    def __init__(self, kinds: tuple[str, ...], precision: str, ours: bool, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.ours, self.half, self.device = ours, precision == "half", device
        self.dtype = torch.float64 if precision == "double" else torch.float32
        self.sync_free = {number for number, kind in enumerate(kinds) if KINDS[kind][0] is not KINDS[kind][1]}
        self.models = [nn.Linear(3, 2, dtype=self.dtype).to(device) for _ in kinds]
        made = zip(map(KINDS.__getitem__, kinds), self.models, strict=True)
        layers = [[(mine if ours else stock)(model.parameters(), **more)] for (mine, stock, more), model in made]
        for kind, each in zip(kinds, layers, strict=True):
            if ours and kind.startswith("wrapped"):
                wrapper = Wrapper(each[0])
                each[:] = wrapper, each[0], Wrapper(wrapper)
        self.optimizers, self.turns = [each[0] for each in layers], [*map(cycle, layers)]
        self.scaler: Any = (polycast.GradScaler if ours else Scaler)(device, **OPTIONS)
        self.batches = 0
        self.looks: list[tuple[str, int]] = []  # `update` clears these calls of `unscale_` and `clip_grad_norm`.
        self.skips: list[list[bool]] = [[] for _ in kinds]  # PyTorch's scaler skipped the steps that are True.

    def turn(self, call: Call) -> Any:
        """Return the optimizer of a call. A wrapped optimizer, its wrapper and the wrapper's wrapper alternate."""
        return next(self.turns[call.optimizer])

    def state(self, number: int) -> Any:
        """Return PyTorch's state for an optimizer: its stage since the last update, and ``found_inf_per_device``."""
        return self.scaler._per_optimizer_states[id(self.optimizers[number])]

    def backward(self, call: Call) -> None:
        """Add the scaled gradients of a new batch."""
        self.batches += 1
        inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(self.batches))
        region: AbstractContextManager[Any] = torch.autocast(self.device, torch.float16) if self.half else nullcontext()
        with region:
            loss = self.models[call.optimizer](inputs.to(self.device, self.dtype)).square().mean() * call.value
        self.scaler.scale(loss).backward()

    def zero_grad(self, call: Call) -> None:
        self.models[call.optimizer].zero_grad()

    def unscale_(self, call: Call) -> None:
        """Unscale the gradients, unless ``clip_grad_norm`` has already unscaled them with PyTorch's scaler."""
        number = call.optimizer
        is_done = not self.ours and (CLIP, number) in self.looks and (UNSCALE, number) not in self.looks
        if not is_done or self.state(number)["stage"] is not OptState.UNSCALED:
            self.scaler.unscale_(self.turn(call))
        self.looks.append((UNSCALE, number))

    def clip_grad_norm(self, call: Call) -> Tensor:
        """Clip with our scaler. With PyTorch's scaler, call ``unscale_`` if needed, and then ``clip_grad_norm_``."""
        number, optimizer = call.optimizer, self.turn(call)
        if self.ours:
            norm: Tensor = self.scaler.clip_grad_norm(optimizer, *call[2:])
            return norm
        if self.state(number)["stage"] is not OptState.UNSCALED or (CLIP, number) in self.looks:
            self.scaler.unscale_(optimizer)
        self.looks.append((CLIP, number))
        return nn.utils.clip_grad_norm_(self.models[number].parameters(), *call[2:])

    def step(self, call: Call, *closure: Callable[[], float] | None) -> float | None:
        result: float | None = self.scaler.step(self.turn(call), *closure)
        if not self.ours:
            found_infs = self.state(call.optimizer)["found_inf_per_device"].values()
            self.skips[call.optimizer].append(any(found_inf.item() for found_inf in found_infs))
        return result

    def step_together(self, _: Call) -> None:
        """Step both optimizers or neither. PyTorch's scaler receives the larger ``found_inf`` for both optimizers."""
        if self.ours:
            self.scaler.step_together(*map(next, self.turns))
            return
        for number, optimizer in enumerate(self.optimizers):
            if self.state(number)["stage"] is OptState.READY:
                self.scaler.unscale_(optimizer)
        founds = [found for number in (0, 1) for found in self.state(number)["found_inf_per_device"].values()]
        skips = max((found_inf.item() for found_inf in founds), default=0.0)
        for found_inf in founds:
            found_inf.fill_(skips)
        for number in (0, 1):
            self.step(Call("step", number))

    def step_by_closure(self, call: Call) -> float | None:
        """Step with a positional closure, which reads the gradients."""
        params = self.models[call.optimizer].parameters()
        return self.step(call, lambda: sum(param.grad.sum().item() for param in params if param.grad is not None))

    def update(self, _: Call, *new_scale: float) -> None:
        """Update the scale and remove the gradients, because sync-free optimizers leave them scaled."""
        self.scaler.update(*new_scale)
        self.looks = []
        for model in self.models:
            model.zero_grad()

    def update_to(self, call: Call) -> None:
        self.update(call, call.value)

    def set_growth_interval(self, call: Call) -> None:
        self.scaler.set_growth_interval(int(call.value))

    def reload(self, _: Call) -> None:
        self.scaler.load_state_dict(self.scaler.state_dict())

    def copy(self, _: Call) -> None:
        self.scaler = pickle.loads(pickle.dumps(self.scaler))
        self.skips = [[] for _ in self.skips]  # A copied scaler counts skips from 0.

    def values(self) -> list[Tensor]:
        """Return all values that must be equal on both sides."""
        scale = torch.tensor([self.scaler.get_scale(), self.scaler._get_growth_tracker()])
        counts: list[Any] = [count for skips in self.skips for count in (skips[-1:] == [True], sum(skips))]
        if self.ours:
            asked = self.scaler.step_was_skipped, self.scaler.skip_count
            counts = [ask(optimizer) for optimizer in self.optimizers for ask in asked]
        params = [param for model in self.models for param in model.parameters()]
        return [scale, *on_host([*map(torch.as_tensor, counts), *params])]


VALUES = st.sampled_from((1.0, 1.0, 1.0, 1.0, 3.0, INF, NAN))
NORMS = st.sampled_from((1.0, 0.1, INF))
NORM_TYPES = st.sampled_from((2.0, 2.0, INF))


def calls(name: str, value: st.SearchStrategy[float] = NORMS) -> st.SearchStrategy[Call]:
    return st.builds(Call, st.just(name), st.integers(0, 1), value, NORM_TYPES)


# A program inserts these calls at random. Frequent calls are listed more than once.
ANY_CALL = st.one_of(
    *[calls("backward", VALUES)] * 3,
    *map(calls, ["clip_grad_norm", "step"] * 3 + ["unscale_", "update"] * 2),
    *map(calls, ("zero_grad", "step_by_closure", "reload", "copy")),
    calls("update_to", st.sampled_from((64.0, 2.0**12))),
    calls("set_growth_interval", st.sampled_from((1.0, 2.0, 3.0))),
)
UNSCALE, CLIP = "unscale_", "clip_grad_norm"
LOOKS: tuple[list[str], ...] = ([], [UNSCALE], [CLIP], [CLIP, CLIP], [UNSCALE, CLIP], [CLIP, UNSCALE, CLIP])


@st.composite
def iterations(draw: st.DrawFn) -> list[Call]:
    """Draw the calls of an iteration in a usual order. Some iterations drop the batch after checking its gradients."""
    which, looks = draw(st.sampled_from([(0,), (0,), (1,), (0, 1), (0, 1)])), draw(st.sampled_from(LOOKS))
    batches = [[Call("backward", number, draw(VALUES))] * draw(st.sampled_from([1, 1, 2])) for number in which]
    looked = [[Call(look, number, draw(NORMS), draw(NORM_TYPES)) for look in looks] for number in which]
    # All batches precede all checks, or each batch precedes the check of its gradients.
    parts = (*batches, *looked) if draw(st.booleans()) else chain(*zip(batches, looked, strict=True))
    found = [*chain(*parts)]
    if looks and draw(st.sampled_from([False, False, True])):  # This iteration drops the batch.
        return [*found, *[Call("update")] * draw(st.integers(0, 1))]
    step = draw(st.sampled_from(["step"] * 7 + ["step_by_closure"] + ["step_together"] * 4 * (len(which) - 1)))
    steps = [Call(step, number) for number in which[: 1 if step == "step_together" else None]]
    return [*found, *steps, Call("update")]


@st.composite
def programs(draw: st.DrawFn) -> list[Call]:
    """Draw the calls of a few iterations, some of them dropped, repeated or inserted."""
    found = sum(draw(st.lists(iterations(), min_size=1, max_size=6)), [Call("backward")])
    for call in draw(st.lists(st.one_of(ANY_CALL, ANY_CALL, ANY_CALL, st.none()), max_size=6)):
        place = draw(st.integers(1, len(found)))
        found[place : place + (call is None)] = [] if call is None else [call]
    return found


def outcome(call: Callable[[Call], object], argument: Call) -> object:
    """Return the result of a call, or its error."""
    try:
        return call(argument)
    except Exception as error:  # `compare` checks the error.
        return error


def compare(kinds: tuple[str, str], precision: str, program: list[Call], device: str) -> None:
    """Run a program with PyTorch's scaler on the CPU and with ours on a device, and assert equal results."""
    ours, theirs = Side(kinds, precision, True, device), Side(kinds, precision, False)
    rtol, atol = CLOSE[precision]
    scaled = set[int]()  # Only our gradients of these optimizers may be scaled.
    for call in program:
        if call.name in ("backward", "zero_grad") and call.optimizer in scaled:
            continue
        found, wanted = (outcome(getattr(side, call.name), call) for side in (ours, theirs))
        if isinstance(wanted, AttributeError):  # Without gradients, PyTorch raises this error.
            break
        if isinstance(found, Exception) or isinstance(wanted, Exception):
            same_text = call.name == "clip_grad_norm" or str(wanted) in str(found)
            assert type(found) is type(wanted) and same_text, (call, found, wanted)
            event(f"{call.name}: {type(found).__name__}")
            # After these errors, the two scalers differ. PyTorch's scaler remembers an `unscale_` without gradients.
            # Our emulation of `step_together` has unscaled one of the two optimizers.
            if isinstance(found, AssertionError) or call.name == "step_together":
                break
            continue
        event(call.name)
        if call.name.startswith(("clip", "step")):
            scaled |= {0, 1} if call.name == "step_together" else {call.optimizer}
        elif call.name.startswith("update"):
            scaled.clear()
        pairs = list(zip(ours.values(), theirs.values(), strict=True))
        if found is not None or wanted is not None:
            pairs.append((torch.as_tensor(found).cpu(), torch.as_tensor(wanted)))
        assert [one.shape for one, _ in pairs] == [other.shape for _, other in pairs], call
        close = [torch.allclose(*pair, rtol, atol, equal_nan=True) for pair in pairs]
        assert all(close) and torch.equal(*pairs[0]), (call, *pairs)


@pytest.mark.usefixtures("one_thread")
def test_programs_match_pytorchs_scaler(real_device: str) -> None:
    """The results include skipped steps and errors (specification 8.1 and 8.3)."""
    kinds = [kind for kind in KINDS if kind != "fused" or isinstance(facts_of(real_device), Fused)]
    # PyTorch's scaler runs on the CPU. Other devices have other rules for float16.
    has = {"single": True, "double": has_float64(real_device), "half": real_device == "cpu"}
    kind, precision = st.sampled_from(kinds), st.sampled_from([each for each in has if has[each]])

    @given(kinds=st.tuples(kind, kind), precision=precision, program=programs())
    # XLA compiles each call, so it runs few examples.
    @examples({"cpu": 150, "xla": 2}.get(real_device, 50), shrinks=real_device != "xla")
    def run(kinds: tuple[str, str], precision: str, program: list[Call]) -> None:
        compare(kinds, precision, program, real_device)

    if "fused" in kinds:  # PyTorch's fused optimizers do not skip if `found_inf` is 2.
        overflows = [Call("backward", number, INF) for number in (0, 1)]
        both = [*overflows, Call("step_together"), Call("update")]
        # The growth tracker is 1 when the scaler is reloaded.
        reloaded = [Call(name) for name in ("backward", "step", "update", "reload")]
        for program in (both, reloaded):
            run = example(kinds=("fused", "fused"), precision="single", program=program)(run)
    run()
