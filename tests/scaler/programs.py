"""Programs of scaler calls, drawn by hypothesis and run on our scaler, on any device, and on torch's, on the host.

A program is a list of calls, most of them in an order that trains, some dropped, doubled or strewn in. Both sides make
the same calls. After each the parameters, the scale, its tracker and the counts of steps and skipped steps are equal,
or both sides have raised the same error.
"""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import polycast
import torch
from hypothesis import event
from hypothesis import strategies as st
from polycast import syncfree
from polycast.backends import FUSED
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.amp.grad_scaler import OptState

from tests.support.devices import has_float64, lower_precision
from tests.support.optimizers import on_host

INF, NAN = float("inf"), float("nan")
# How near the two sides are. In float16 an element that underflows on one side may not on the other.
CLOSE = {"half": (1e-3, 1e-5), "single": (1e-5, 1e-6), "double": (1e-12, 1e-13)}
OPTIONS: dict[str, Any] = {"init_scale": 2.0**14, "growth_factor": 4.0, "growth_interval": 2}


def clipping(optimizer: Any) -> Any:
    """Return the optimizer, whose gradients are clipped by a hook within the step."""

    def clip(*_: object) -> None:
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.5)

    optimizer.register_step_pre_hook(clip)
    return optimizer


# Ours and theirs of one name take the same steps. Where neither is sync-free the bits are the same, too.
KINDS: dict[str, tuple[Any, Any]] = {
    "SGD": (
        lambda params: syncfree.SGD(params, lr=0.05, momentum=0.9),
        lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, foreach=False),
    ),
    "Adam": (
        lambda params: syncfree.Adam(params, lr=0.01, eps=1e-2),
        lambda params: torch.optim.Adam(params, lr=0.01, eps=1e-2, foreach=False),
    ),
    "clipping": (
        lambda params: clipping(syncfree.SGD(params, lr=0.05, momentum=0.9)),
        lambda params: clipping(torch.optim.SGD(params, lr=0.05, momentum=0.9, foreach=False)),
    ),
    "for-loop": (lambda params: torch.optim.SGD(params, lr=0.05, foreach=False),) * 2,
    "foreach": (lambda params: torch.optim.Adam(params, lr=0.01, eps=1e-2, foreach=True),) * 2,
    "fused": (lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2, fused=True),) * 2,
}


def kinds_on(device: str) -> list[str]:
    """Return the kinds of optimizers that a device has."""
    return [kind for kind in KINDS if kind != "fused" or device in FUSED]


def precisions_on(device: str) -> list[str]:
    return [
        precision
        for precision in CLOSE
        if precision == "single"
        or (has_float64(device) if precision == "double" else torch.float16 in lower_precision(device))
    ]


def sync_free(kinds: tuple[str, ...]) -> set[int]:
    """Return which optimizers are on our side."""
    return {number for number, kind in enumerate(kinds) if KINDS[kind][0] is not KINDS[kind][1]}


class Call(NamedTuple):
    """A call by its name, and which optimizer it is for."""

    name: str
    optimizer: int = 0
    value: float = 1.0
    norm_type: float = 2.0


class Side:
    """Two small models, their optimizers, and a scaler; each method is a call of a program."""

    def __init__(self, kinds: tuple[str, ...], precision: str, ours: bool, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.ours, self.half, self.device = ours, precision == "half", device
        self.dtype = torch.float64 if precision == "double" else torch.float32
        self.sync_free = sync_free(kinds)
        self.models = [nn.Linear(3, 2, dtype=self.dtype).to(device) for _ in kinds]
        self.optimizers = [
            KINDS[kind][not ours](model.parameters()) for kind, model in zip(kinds, self.models, strict=True)
        ]
        self.scaler: Any = (polycast.GradScaler if ours else Scaler)(device, **OPTIONS)
        self.batches = 0
        self.looked_in: dict[int, int] = {}  # the batch in which an optimizer's gradients were unscaled
        self.clipped_in: dict[int, int] = {}  # the same of those that were unscaled to be clipped
        self.unscaled: set[int] = set()  # those of them that were to be unscaled afterwards
        self.skips: list[list[bool]] = [[] for _ in kinds]  # of each optimizer's steps, those by torch's scaler

    def backward(self, call: Call) -> None:
        """Add the scaled gradients of a new batch."""
        self.batches += 1
        inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(self.batches))
        region: AbstractContextManager[Any] = torch.autocast(self.device, torch.float16) if self.half else nullcontext()
        with region:
            loss = self.models[call.optimizer](inputs.to(self.device, self.dtype)).square().mean() * call.value
        self.scaler.scale(loss).backward()

    def zero_grad(self, call: Call) -> None:
        self.optimizers[call.optimizer].zero_grad()

    def unscale_(self, call: Call) -> None:
        """Unscale; with torch's scaler that is done once our sync-free optimizer is clipped."""
        number, optimizer = call.optimizer, self.optimizers[call.optimizer]
        is_done = not self.ours and number in self.sync_free and self.clipped_in.get(number) == self.batches
        if is_done and self.stage(optimizer) is OptState.UNSCALED and number not in self.unscaled:
            self.unscaled.add(number)
        else:
            self.scaler.unscale_(optimizer)
            self.looked_in[number] = self.batches

    def clip_grad_norm(self, call: Call) -> Tensor:
        """Clip; with torch's scaler that is unscale_, but for gradients that are unscaled, and clip_grad_norm_."""
        optimizer = self.optimizers[call.optimizer]
        if self.ours:
            norm: Tensor = self.scaler.clip_grad_norm(optimizer, *call[2:])
            return norm
        if self.stage(optimizer) is not OptState.UNSCALED:
            self.scaler.unscale_(optimizer)
            self.clipped_in[call.optimizer] = self.looked_in[call.optimizer] = self.batches
        elif self.looked_in[call.optimizer] != self.batches:
            self.scaler.unscale_(optimizer)
        return nn.utils.clip_grad_norm_(self.models[call.optimizer].parameters(), *call[2:])

    def clamp(self, call: Call) -> None:
        """Change the gradients by hand."""
        for param in self.models[call.optimizer].parameters():
            if param.grad is not None:
                most = torch.full_like(param.grad, call.value)  # clamp_ on XLA makes a number of NaN
                param.grad.copy_(param.grad.minimum(most).maximum(-most))

    def step(self, call: Call, *closure: Callable[[], float] | None) -> float | None:
        optimizer = self.optimizers[call.optimizer]
        result: float | None = self.scaler.step(optimizer, *closure)
        found_infs = self.scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
        self.skips[call.optimizer].append(any(found_inf.item() for found_inf in found_infs))
        return result

    def step_without_closure(self, call: Call) -> float | None:
        return self.step(call, None)

    def step_by_closure(self, call: Call) -> float | None:
        """Give a closure by position, which torch's scaler passes on, and which sees unscaled gradients."""
        params = self.models[call.optimizer].parameters()
        return self.step(call, lambda: sum(param.grad.sum().item() for param in params if param.grad is not None))

    def step_with_closure(self, call: Call) -> None:
        self.scaler.step(self.optimizers[call.optimizer], closure=lambda: 1.0)

    def update(self, _: Call) -> None:
        self.scaler.update()
        self.clipped_in, self.looked_in, self.unscaled = {}, {}, set()

    def update_to(self, call: Call) -> None:
        self.scaler.update(call.value)
        self.clipped_in, self.looked_in, self.unscaled = {}, {}, set()

    def set_growth_interval(self, call: Call) -> None:
        self.scaler.set_growth_interval(int(call.value))

    def reload(self, _: Call) -> None:
        self.scaler.load_state_dict(self.scaler.state_dict())

    def copy(self, _: Call) -> None:
        self.scaler = copy.deepcopy(self.scaler)
        self.skips = [[] for _ in self.skips]  # a copy counts anew

    def stage(self, optimizer: torch.optim.Optimizer) -> OptState:
        """Return how far an optimizer is since the last update."""
        stage: OptState = self.scaler._per_optimizer_states.get(id(optimizer), {"stage": OptState.READY})["stage"]
        return stage

    def values(self) -> list[Tensor]:
        """Return what has to be equal."""
        state = self.scaler.state_dict()
        scale = torch.tensor([state["scale"], state["_growth_tracker"]])
        return [scale, *self.counts(), *on_host(param for model in self.models for param in model.parameters())]

    def counts(self) -> list[Tensor]:
        """Return of each optimizer whether its last step was skipped, and how many were."""
        if not self.ours:
            counts = [(skips[-1:] == [True], sum(skips)) for skips in self.skips]
            return [torch.tensor(count) for both in counts for count in both]
        asked = self.scaler.skipped, self.scaler.skip_count
        return [ask(optimizer).cpu() for optimizer in self.optimizers for ask in asked]


ONE = st.just(1.0)
VALUES = st.sampled_from((1.0, 1.0, 1.0, 1.0, 3.0, INF, NAN))
NORMS = st.sampled_from((1.0, 0.1, INF))
NORM_TYPES = st.sampled_from((2.0, 2.0, 1.0, 3.0, 0.5, INF))


def calls(name: str, value: st.SearchStrategy[float] = ONE) -> st.SearchStrategy[Call]:
    return st.builds(Call, st.just(name), st.integers(0, 1), value, NORM_TYPES)


# Calls that are strewn in, the frequent ones more than once.
ANY_CALL = st.one_of(
    *[calls("backward", VALUES)] * 3,
    *[calls("clip_grad_norm", NORMS)] * 3,
    *[calls("step")] * 3,
    *[calls("update")] * 2,
    *[calls("unscale_")] * 2,
    *map(calls, ("zero_grad", "step_without_closure", "step_with_closure", "step_by_closure", "reload", "copy")),
    calls("clamp", st.just(0.1)),
    calls("update_to", st.sampled_from((64.0, 2.0**12))),
    calls("set_growth_interval", st.sampled_from((1.0, 2.0, 3.0))),
)


@st.composite
def iterations(draw: st.DrawFn) -> list[Call]:
    """Draw the calls of an iteration as one would write them; the batch may be dropped after a look at it."""
    which = draw(st.sampled_from([(0,), (0,), (1,), (0, 1)]))
    value, clip = draw(VALUES), "clip_grad_norm"
    batches = [[Call("backward", number, value)] * draw(st.sampled_from([1, 1, 2])) for number in which]
    looks = draw(
        st.sampled_from([[], ["unscale_"], [clip], [clip, clip], ["unscale_", clip], [clip, "unscale_", clip]])
    )
    looked = [
        [Call(look, number, draw(NORMS) if look == clip else 1.0, draw(NORM_TYPES)) for look in looks]
        for number in which
    ]
    # All batches first, or each before the looks at it.
    parts = [(*batches, *looked)] if draw(st.booleans()) else zip(batches, looked, strict=True)
    found = [call for part in parts for some in part for call in some]
    if looks and draw(st.sampled_from([False, False, True])):  # dropped, half of the time as it should be
        found += [Call("update")] * draw(st.integers(0, 1))
    else:
        step = draw(st.sampled_from(["step"] * 7 + ["step_by_closure"]))
        found += [*(Call(step, number) for number in which), Call("update")]
    return [*found, *(Call("zero_grad", number) for number in which)]


@st.composite
def programs(draw: st.DrawFn) -> list[Call]:
    """Draw the calls of a few iterations, some of them lost, doubled or strewn in."""
    found = sum(draw(st.lists(iterations(), min_size=1, max_size=6)), [Call("backward")])
    for call in draw(st.lists(st.one_of(ANY_CALL, ANY_CALL, ANY_CALL, st.none()), max_size=6)):
        place = draw(st.integers(1, len(found)))
        found[place : place + (call is None)] = [] if call is None else [call]
    return found


def outcome(call: Callable[[Call], object], argument: Call) -> object:
    """Return what a call returns or raises."""
    try:
        return call(argument)
    except Exception as error:  # the comparison is the test
        return error


class Grads:
    """Which gradients have another value, or another meaning, on the two sides.

    A sync-free optimizer keeps its gradients scaled and unclipped; torch's scaler writes to them. So what is added to
    them, or done to them by hand, makes something else of them, which has no meaning on torch's side.
    """

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.sync_free = sync_free(kinds)
        self.unscaled: set[int] = set()  # since the last update, and before they were clipped
        self.clipped: set[int] = set()  # since the last update, so that the step clips
        self.mixed: set[int] = set()  # of these, with gradients of a later batch, or none
        self.outdated: set[int] = set()  # unscaled or clipped, with a later batch of any optimizer
        self.stepped: set[int] = set()  # since the last update
        self.left: set[int] = set()  # from before the last update

    def is_senseless(self, call: Call) -> bool:
        """Return whether a call works on gradients that are not the same on both sides."""
        number = call.optimizer
        if number not in self.sync_free or not call.name.startswith(("unscale_", "clip", "clamp", "step")):
            return False
        if call.name == "clamp":
            return number in self.left | self.clipped | self.stepped
        # Of outdated ones clip_grad_norm raises what unscale_ would.
        raises = self.outdated if call.name == "clip_grad_norm" else self.outdated | self.unscaled
        goes_on = call.name.startswith("step") or number not in raises
        return number in self.left or (goes_on and number in self.mixed)

    def note(self, call: Call) -> None:
        """Follow a call that both sides have made."""
        number = call.optimizer
        if call.name in ("backward", "zero_grad") and number in self.clipped:
            self.mixed.add(number)
        if call.name == "backward":
            self.outdated |= self.clipped | self.unscaled
        if call.name == "unscale_" and number not in self.clipped:
            self.unscaled.add(number)
        elif call.name == "clip_grad_norm":
            self.clipped.add(number)
        elif call.name.startswith("step"):
            self.stepped.add(number)
        elif call.name == "zero_grad":
            self.left.discard(number)
            self.stepped.discard(number)
        elif call.name in ("update", "update_to"):
            self.left |= self.clipped | self.stepped
            self.unscaled, self.clipped, self.mixed, self.outdated, self.stepped = set(), set(), set(), set(), set()


def compare(kinds: tuple[str, str], precision: str, program: list[Call], device: str) -> None:
    """Run a program on both sides, ours on a device.

    Raises:
        AssertionError: The sides differ.
    """
    ours, theirs = Side(kinds, precision, True, device), Side(kinds, precision, False)
    rtol, atol = CLOSE[precision]
    grads = Grads(kinds)
    for call in program:
        if grads.is_senseless(call):
            continue
        found, wanted = (outcome(getattr(side, call.name), call) for side in (ours, theirs))
        if isinstance(found, Exception) or isinstance(wanted, Exception):
            same_text = call.name == "clip_grad_norm" or str(wanted) in str(found)
            assert type(found) is type(wanted) and same_text, (call, found, wanted)
            event(f"{call.name}: {type(found).__name__}")
            if isinstance(found, AssertionError):  # torch remembers that there was nothing to unscale
                break
            continue
        event(call.name)
        grads.note(call)
        pairs = list(zip(ours.values(), theirs.values(), strict=True))
        if found is not None or wanted is not None:
            pairs.append((torch.as_tensor(found).cpu(), torch.as_tensor(wanted)))
        assert [one.shape for one, _ in pairs] == [other.shape for _, other in pairs], call
        close = [torch.allclose(*pair, rtol, atol, equal_nan=True) for pair in pairs]
        assert all(close) and torch.equal(*pairs[0]), (call, *pairs)
