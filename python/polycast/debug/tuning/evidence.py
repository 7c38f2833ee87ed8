"""What a float32 run of a training tells of its ops in a lower precision: dangers, and times."""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast import backends
from polycast._grammar.categories import Category
from polycast.debug.calls import FORWARD, STEP, Call, Recording
from polycast.debug.measure import KNOWN, Range, locals_of, moves_of_sums, range_of, read_numbers, relative_errors
from polycast.debug.ops import is_cast, is_of_scaler, is_view
from polycast.debug.places import OUTSIDE
from polycast.debug.program_state import Snapshot
from polycast.debug.timing import seconds_of
from polycast.debug.tuning.choices import Key
from polycast.debug.values import Contents, Op, Values
from polycast.policy.policy import Policy
from polycast.scope import scopes

FP32, LOWER_PRECISION = Category.FP32.value, Category.LOWER_PRECISION_FP.value
BATCHES = 3  # as many as a run is watched for
ROUNDS = 3  # in which an op runs in each precision in turn
ACCUMULATES = 2**64 - 1  # the number of autograd's nodes that add to .grad
WEIGHTS = "weights"


class Evidence(NamedTuple):
    """What is known of an op in a module, on one device, in a lower precision."""

    model: str
    """The class of the outermost module; "" where no module runs."""
    module: str
    """The name within it; "" for the outermost module itself."""
    op: str
    device: str
    """As policies name it."""
    calls: int
    """In forward, in all batches."""
    largest: float
    """Of the magnitudes of what it was given and returned in forward, those that are finite."""
    smallest: float
    """Of these, zeros aside; infinite where all are zeros."""
    overflow: float
    """The share of the elements, in forward, that the lower precision makes infinite. Those of gradients count, too,
    where no scaler lowers its scale for them."""
    flushed: float
    """The share of the elements that the lower precision makes zeros: in forward or in backward, the larger share."""
    error: float
    """What the op does in the lower precision beside float32, given the same rounded numbers, relative to the norm of
    its result: the worst call, in forward or backward. Where a scaler scales, an infinite gradient is none."""
    rounding: float
    """How far its result in float32 moves where what it is given, in forward, is rounded to the lower precision; as the
    error. A large one is of a difference, as a norm takes where the mean is large: float32 for the op alone does not
    mend it."""
    seconds: dict[str, float]
    """By category, of a call: forward and backward, in the fastest batch. Those in the lower precision are with the
    casts of all that it is given. Empty on a device that compiles a step as a whole, where an op has no time."""
    casts: dict[int, float]
    """By the place, in the list, of an op whose results it is given: the seconds of their casts of a call, forward and
    backward, which are saved where both ops have one precision."""

    @property
    def key(self) -> Key:
        """Which op it is of."""
        return Key(*self[:4])


def gather(step: Callable[[Any], object], batches: Iterable[Any], dtype: torch.dtype) -> list[Evidence]:
    """Run a training in float32, and return what it tells of its ops in a lower precision.

    All ops that the policy lists run in float32 in it, so that what is seen is not broken already. The training is one
    of its own: its model and its optimizer change as they do in a float32 run, so give a step that nothing else uses:
    bit for bit, but for a device that compiles graphs, where each op is one. Random state is put back at the end.
    Memory does not grow with the batches.

    A scaler avoids that gradients overflow: their flushed share is that at the scale at which none does, and is known
    from the batch after the first one that has any.

    Args:
        step: Trains by a batch, with regions of its own.
        batches: Each is given to the step once, in order.
        dtype: The lower precision, float16 or bfloat16.

    Returns:
        The evidence in the order in which the ops were first called.

    Example:
        >>> import torch, polycast
        >>> from polycast.debug.tuning.evidence import gather
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        >>> @polycast.autocast("cpu")
        ... def step(batch):
        ...     model(batch).sum().backward()
        >>> first, *others = gather(step, [torch.ones(2, 4)], torch.bfloat16)
        >>> first.model, first.module, first.op, first.calls
        ('Sequential', '0', 'linear', 1)
    """
    before, gathering = Snapshot(None), Gathering(dtype)
    try:
        with gathering.recording, gathering.values, scopes.over(Policy(FP32)):
            for batch in batches:
                step(batch)
                gathering.end_step()
        return gathering.evidence()
    finally:
        before.put_back()


def key_of(call: Call) -> Key:
    """Return the key of a call. Models of one class have one, as they have the same rules."""
    model, _, module = call.module.partition(".")
    return Key(model.partition("#")[0], module, call.op.partition(".")[0], backends.device_of(call.device))


@dataclass
class Share:
    """How many elements there are, and how many of them the lower precision makes infinite or zero."""

    elements: int = 0
    overflow: float = 0.0
    flushed: float = 0.0

    def add(self, elements: int, found: Range) -> None:
        """Add a tensor."""
        self.elements += elements
        self.overflow += found.overflow * elements
        self.flushed += found.flushed * elements


@dataclass
class Totals:
    """What is added up of a key."""

    calls: int = 0
    largest: float = 0.0
    smallest: float = math.inf
    error: float = 0.0
    rounding: float = 0.0
    forward: Share = field(default_factory=Share)
    backward: Share = field(default_factory=Share)
    least: dict[object, float] = field(default_factory=dict)
    """The seconds of a call in the batch that was fastest: in a category, or of casts of what a key returned."""

    def add_ranges(self, seen: "Seen", ranges: list[tuple[int, Range]]) -> None:
        """Add the ranges of an op's tensors, with their elements."""
        for elements, one in ranges:
            (self.backward if seen.in_backward else self.forward).add(elements, one)
            if not seen.in_backward:
                self.largest, self.smallest = max(self.largest, one.largest), min(self.smallest, one.smallest)


@dataclass
class Seen:
    """An op below autograd that has run, and the numbers that are read at the end of a step."""

    in_backward: bool
    place: int
    """The order of the call that it is a part of; in backward the number of its autograd node."""
    seconds: Counter[object] = field(default_factory=Counter)
    """By category; those of casts by the order of the call that returned what is cast."""
    ranges: list[tuple[int, Tensor]] = field(default_factory=list)
    """Of each tensor the elements, and its range."""
    errors: list[Tensor] = field(default_factory=list)
    """The op's own, and how far rounding its inputs moves its result; none where it returns no number."""


class Gathering:
    """Measures the ops of a run, and adds up the numbers step by step."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.values = Values(None, self._visit)
        self.recording = Recording("polycast.debug.tune", self.values.places)
        self.has_scaler = self._reads = False
        self._totals: defaultdict[Key, Totals] = defaultdict(Totals)
        self._dtype = dtype
        self._excess = 1.0  # by which the scaler's scale is too large for the lower precision
        self._begin()

    def _begin(self) -> None:
        self._seen: list[Seen] = []
        self._contents: Contents[int] = Contents()  # the orders of the calls that wrote them last
        self.values.begin_again()

    def _visit(self, op: Op) -> None:
        self.has_scaler |= is_of_scaler(op.function)
        if self._reads or op.site.phase == STEP or op.node == ACCUMULATES or not op.reads():
            op.run()
        elif is_view(op.function) or is_cast(op.function):
            self._contents.follow(op)
        else:
            self._see(op)

    def _see(self, op: Op) -> None:
        reads, in_backward = op.reads(), op.node is not None and self.values.places.here() == OUTSIDE
        place = op.node if in_backward else op.call
        seen = Seen(in_backward, -1 if place is None else place)
        device_type = reads[0].device.type
        is_timed = not backends.compiles_graphs(device_type)
        if not in_backward:
            self._follow(op, reads, seen, is_timed)
        # The op may write into what it reads.
        given = [one.detach().clone() if op.writes() or not is_timed else one for one in reads]
        rounded = op.of_rounded(self._dtype)
        # Weights and statistics stay as they are, where the op takes that beside something in the lower precision.
        stays: Callable[[Tensor], bool] = self._contents.is_unwritten
        if all(map(stays, reads)) or not is_timed:  # a graph may fail where dtypes meet, and then the program does
            stays = _none
        lower = op.in_dtype(self._dtype, stays)
        if lower is None:
            lower, stays = op.in_dtype(self._dtype), _none
        wide_copy, lower_copy = op.copy(torch.float32), op.copy(self._dtype, stays)
        if is_timed and wide_copy is not None and lower_copy is not None:
            can_run = {FP32: wide_copy} | ({LOWER_PRECISION: lower_copy} if lower is not None else {})
            seen.seconds.update({LOWER_PRECISION: math.inf} | least_of(can_run, device_type))
        op.run()
        outputs = op.outputs
        if not is_timed:
            # A graph of the op alone compiles in no time, one of all that is measured of a step takes minutes.
            backends.synchronize(device_type)
            given, outputs = _on_host(given), _on_host(outputs)
            lower, rounded = (None if some is None else _on_host(some) for some in (lower, rounded))
        results, by = locals_of(outputs), self._excess if in_backward else 1.0
        ranges = [(one, 1.0) for one in ([] if in_backward else locals_of(given))] + [(one, by) for one in results]
        seen.ranges += [(one.numel(), range_of(one, self._dtype, by)) for one, by in ranges]
        if results:
            seen.errors += _errors(max(one.numel() for one in reads), results, lower, rounded)
        for number, tensor in enumerate(() if in_backward else op.outputs):
            # Results other than the first are statistics for its backward.
            self._contents.write(tensor, *(() if op.call is None or number > 0 else (op.call,)))
        self._seen.append(seen)

    def _follow(self, op: Op, reads: list[Tensor], seen: Seen, is_timed: bool) -> None:
        """Note whose results an op is given, and how long their casts take, and those of new weights and data."""
        for tensor in reads:
            held = [call for call in self._contents.of(tensor) if call != op.call]
            if not held and not self._contents.of(tensor) and not self._contents.is_unwritten(tensor):
                self._contents.write(tensor)
                held = [WEIGHTS]  # type: ignore[list-item]
            if held and tensor.dtype is torch.float32:
                seconds = self._cast_seconds(tensor) if is_timed else 0.0
                seen.seconds.update(dict.fromkeys(held, seconds / len(held)))

    def _cast_seconds(self, tensor: Tensor) -> float:
        """Return how long it takes to cast a tensor, and to cast its gradient back if it has one."""
        wide, lower = tensor.detach(), tensor.detach().to(self._dtype)
        calls: dict[str, Callable[[], object]] = {"down": partial(wide.to, self._dtype)}
        if tensor.requires_grad:
            calls["up"] = partial(lower.to, tensor.dtype)
        return sum(least_of(calls, tensor.device.type).values())

    def end_step(self) -> None:
        """Add the numbers of a step, which are read in one copy."""
        callers = _Callers(self.recording.take())
        self._reads = True
        scalars = [number for seen in self._seen for _, numbers in seen.ranges for number in numbers.unbind()]
        numbers = iter(read_numbers([*scalars, *(error for seen in self._seen for error in seen.errors)]))
        self._reads = False
        found = [[(n, Range(*(next(numbers) for _ in Range._fields))) for n, _ in seen.ranges] for seen in self._seen]
        both = [*zip(self._seen, found, strict=True)]
        largest = max((one.largest for seen, ranges in both if seen.in_backward for _, one in ranges), default=0.0)
        over = largest / torch.finfo(self._dtype).max if self.has_scaler else 0.0
        seconds: defaultdict[Key, Counter[object]] = defaultdict(Counter)
        for seen, ranges in both:
            error, rounding = [next(numbers) for _ in seen.errors] or (0.0, 0.0)
            if (call := callers.of(seen)) is not None:
                totals = self._totals[key_of(call)]
                if not (seen.in_backward and self.has_scaler and error == math.inf):
                    totals.error = max(totals.error, error)
                totals.rounding = max(totals.rounding, 0.0 if seen.in_backward else rounding)
                if not (seen.in_backward and over > 1):  # a scaler skips such a step, and lowers its scale
                    totals.add_ranges(seen, ranges)
                seconds[key_of(call)].update(callers.by_key(seen.seconds))
        for key, calls in callers.met.items():
            totals = self._totals[key]
            totals.calls += calls
            for name, time in seconds[key].items():
                totals.least[name] = min(totals.least.get(name, math.inf), time / calls)
        self._excess *= 2.0 ** math.ceil(math.log2(max(1.0, over)))
        self._begin()

    def evidence(self) -> list[Evidence]:
        """Return what was gathered of each op in each module."""
        computed = {key: one for key, one in self._totals.items() if one.forward.elements}  # a view computes nothing
        places = {key: place for place, key in enumerate(computed)}
        return [self._evidence_of(key, one, places) for key, one in computed.items()]

    def _evidence_of(self, key: Key, one: Totals, places: dict[Key, int]) -> Evidence:
        others = ((other, time) for other, time in one.least.items() if isinstance(other, Key) and other != key)
        casts = {places[other]: time for other, time in others if other in places}
        overflow, flushed = (
            max(getattr(share, name) / max(1, share.elements) for share in (one.forward, one.backward))
            for name in ("overflow", "flushed")
        )
        seconds = {}
        if not backends.compiles_graphs(backends.device_type_of(key.device)):
            lower = one.least.get(LOWER_PRECISION, 0.0) + one.least.get(WEIGHTS, 0.0) + sum(casts.values())
            seconds = {FP32: one.least.get(FP32, 0.0), LOWER_PRECISION: lower}
        numbers = (one.calls, one.largest, one.smallest, overflow, flushed, one.error, one.rounding)
        return Evidence(*key, *numbers, seconds, casts)


@torch.no_grad()
def least_of(calls: dict[str, Callable[[], object]], device_type: str) -> dict[str, float]:
    """Return the seconds of each call, the least of rounds in which they run in turns."""
    least = dict.fromkeys(calls, math.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            least[name] = min(least[name], seconds_of(call, 1, device_type))
    return least


def _errors(
    most: int, results: list[Tensor], lower: list[Tensor] | None, rounded: list[Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Return what Seen has as errors, of an op whose largest input has so many elements."""
    ours, theirs = ([] if one is None else locals_of(one) for one in (lower, rounded))
    moved = moves_of_sums(most, theirs, results) if len(theirs) == len(results) else None
    # A sum whose terms cancel is known no better than they are: its error is relative to them.
    own = relative_errors(ours, theirs or results, moved, 1 / KNOWN)
    rounding = relative_errors(theirs, results)
    none = torch.zeros(())
    return none if own is None else own.max(), none if rounding is None else rounding.max()


def _none(_: Tensor) -> bool:
    return False


def _on_host(tensors: list[Tensor]) -> list[Tensor]:
    return [one.detach().to(backends.HOST) for one in tensors]


class _Callers:
    """Finds the calls of a step that ops are a part of."""

    def __init__(self, calls: list[Call]) -> None:
        # In backward, those of a module's forward that runs again.
        self._by_order = {call.order: call for call in calls if call.site.phase == FORWARD or call.module}
        self._by_node = sorted(self._by_order.values(), key=lambda call: call.node)
        self._orders = set[int]()
        self.met = Counter[Key]()
        """How many calls of a key ops were a part of."""

    def of(self, seen: Seen) -> Call | None:
        """Return the call of an op; in backward, the one whose gradient it is."""
        if not seen.in_backward:
            call = self._by_order.get(seen.place)
        else:
            place = bisect_right(self._by_node, seen.place, key=lambda call: call.node) - 1
            call = self._by_node[place] if place >= 0 else None
        if call is not None and call.order not in self._orders:
            self._orders.add(call.order)
            self.met[key_of(call)] += 1
        return call

    def by_key(self, seconds: Counter[object]) -> Counter[object]:
        """Return seconds with keys in the place of the orders of calls."""
        found: Counter[object] = Counter()
        for name, time in seconds.items():
            call = self._by_order.get(name) if isinstance(name, int) else None
            if not isinstance(name, int) or call is not None:
                found[name if call is None else key_of(call)] += time
        return found
