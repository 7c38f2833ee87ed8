"""The calls of a step: the calls that made the inputs of each call, and a way to run calls again."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property

from torch import Tensor

from polycast._extension import KernelPolicy, ProgramCall
from polycast.debug.calls import BACKWARD, FORWARD, LOWER, STEP, Call, Site, SiteCounter, is_cast
from polycast.debug.module_tracker import OUTSIDE, ModuleTracker
from polycast.policy.policy import Policy, PolicyError
from polycast.policy.rules import shown

Key = tuple[int, int]
Values = dict[Key, Tensor]
Rule = tuple[str, str]  # a module and an op; the module "" stands for the whole program
# `torch.tensor` writes into an empty tensor without a call, so these calls do not run again.
UNWRITTEN = ("aten::empty", "aten::new_empty")
CAST = "to"  # a rule with this op removes the casts of the program itself
# These calls cannot run again, because other processes would have to repeat them as well.
_COMMUNICATES = ("c10d::", "_c10d_functional", "symm_mem::", "fsdp::")
_NO_NODE = 2**64 - 1  # a call in backward has this node if it computes the gradient of no call
_DEPTH = 8  # at most this many earlier calls are searched for the rule that sets a dtype


class StepCalls:
    """The calls of a step, in order.

    Args:
        calls: All calls of the step.
        intercepted: The calls that autocast intercepted within these calls.
        modules: The tracker that numbered the modules.
    """

    def __init__(self, calls: Sequence[ProgramCall], intercepted: Sequence[Call], modules: ModuleTracker) -> None:
        self.calls = calls
        self._intercepted = {call.order: call for call in intercepted}
        self._modules = modules
        self.readers: defaultdict[int, list[int]] = defaultdict(list)
        """The calls that read from a storage, by the address of the storage."""
        self._makers: list[list[tuple[int, ...]]] = []
        self._made: dict[Key, int] = {}
        self._written: defaultdict[int, list[int]] = defaultdict(list)
        for index, call in enumerate(calls):
            self._makers.append([self.makers_of(given.key) for given in call.inputs])
            for given in call.inputs:
                self.readers[given.key[0]].append(index)
            is_made = not call.name.startswith(UNWRITTEN)
            for output in call.outputs:
                if is_made:
                    self._made[output.key] = index
                if output.is_written:
                    self._written[output.key[0]].append(index)

    def makers_of(self, key: Key) -> tuple[int, ...]:
        """Return the call that made a tensor last, and the later calls that wrote into its memory, in order."""
        maker = self._made.get(key, -1)
        writers = [writer for writer in self._written.get(key[0], ()) if writer > maker]
        return tuple(writers if maker < 0 else (maker, *writers))

    def inputs(self, index: int) -> Iterator[tuple[Key, tuple[int, ...]]]:
        """Yield the key of each input of a call, with the calls that made the input or later wrote into its memory."""
        return zip((given.key for given in self.calls[index].inputs), self._makers[index], strict=True)

    def inputs_as_given(self, index: int) -> Values | None:
        """Return the original inputs of a call; None if the program has overwritten an input that has no copy."""
        values: Values = {}
        for given, makers in zip(self.calls[index].inputs, self._makers[index], strict=True):
            tensor = given.tensor if given.is_as_given else None
            for maker in makers[-1:] if tensor is None else ():
                tensor = next((one.copy for one in self.calls[maker].outputs if one.key == given.key), None)
            if tensor is None:
                return None
            values[given.key] = tensor
        return values

    @cached_property
    def sites(self) -> list[Site]:
        """The site of each call."""
        counter = SiteCounter()
        return [counter.next(self.phase(index), self.module(index), self.op(index)) for index in range(len(self.calls))]

    def op(self, index: int) -> str:
        """Return the op of a call, by its name in policies."""
        return shown(self.calls[index].name).partition(".")[0]

    def phase(self, index: int) -> str:
        """Return the phase of a call. A module's forward that backward runs again, as in checkpointing, is forward."""
        call = self.calls[index]
        if call.module != OUTSIDE:
            return FORWARD
        return BACKWARD if call.task >= 0 else STEP if call.in_step else FORWARD

    def module(self, index: int) -> str:
        """Return the module that made a call; in backward, the module or weight whose gradient the call computes."""
        call = self.calls[index]
        if self.phase(index) != BACKWARD:
            return self._modules.name(call.module)
        if call.weight:
            return self._modules.weights.get(call.weight, "")
        if call.function:  # the function's forward has nodes with higher numbers
            return next((self.module(one) for one in self._forward if self.calls[one].node > call.node), "")
        of = self.gradient_of(index)
        return "" if of is None else self.module(of)

    @cached_property
    def _forward(self) -> list[int]:
        return [index for index in range(len(self.calls)) if self.phase(index) == FORWARD]

    def gradient_of(self, index: int) -> int | None:
        """Return the call whose gradient a call computes: the last forward call before the call's node existed."""
        node, found = self.calls[index].node, None
        if node == _NO_NODE or self.calls[index].function:
            return None
        for one in self._forward:
            call = self.calls[one]
            if call.node <= node and (found is None or call.node >= self.calls[found].node):
                found = one
        return found

    def _has_node(self, index: int) -> bool:
        """Return whether a call in forward made an autograd node, that is, whether one of its inputs had a gradient."""
        later = next((one for one in self._forward if one > index), None)
        return later is None or self.calls[later].node > self.calls[index].node

    def ruled(self, index: int) -> int | None:
        """Return the call whose rule sets the dtype of a call or, in backward, of the gradient that the call computes.

        In backward, a call without a rule has the dtype of its forward call. If the forward call has no rule, the
        calls that made its inputs are searched for a call with a rule. In forward, a call without a rule is often a
        cast to the dtype of the last ruled call.
        """
        if next(self.rules(index), None) is not None:
            return index
        if self.phase(index) != BACKWARD:
            return next((one for one in reversed(range(index)) if self._returns_lower(one)), index)
        found = of = self.gradient_of(index)
        for _ in range(_DEPTH):
            if found is None or any(one.is_ruled for one in self.intercepted(found)):
                break
            found = max((maker for maker in self.makers(found) if self.is_lower(maker)), default=None)
        return of if found is None else found

    def _returns_lower(self, index: int) -> bool:
        return any(one.is_ruled and any(dtype in LOWER for dtype in one.returned) for one in self.intercepted(index))

    def intercepted(self, index: int) -> list[Call]:
        """Return the calls that autocast intercepted within a call, including the call itself."""
        call = self.calls[index]
        return [self._intercepted[order] for order in range(call.first, call.last) if order in self._intercepted]

    def is_lower(self, index: int) -> bool:
        """Return whether a call is in a region, and reads, computes in or returns a lower precision."""
        call = self.calls[index]
        if not call.is_in_region:
            return False
        dtypes = [given.tensor.dtype for given in call.inputs] + [output.dtype for output in call.outputs]
        dtypes += [dtype for one in self.intercepted(index) for dtype in one.arrived]
        return any(dtype in LOWER for dtype in dtypes)

    def rules(self, index: int) -> Iterator[Rule]:
        """Yield the rules that may make a call compute in float32: for its op, then for the ops that it runs."""
        name = self.op(index)
        is_computed = not (name.startswith("new_") or name.endswith("_like"))
        if self.is_lower(index) and is_computed and not all(one.is_view for one in self.calls[index].outputs):
            ops = (name, *(one.op.partition(".")[0] for one in self.intercepted(index)))
            yield from ((self.module(index), op) for op in dict.fromkeys(ops) if _has_rule(op))

    def casts(self, index: int) -> Iterator[Rule]:
        """Yield the module and ``CAST`` if a call is a cast to a lower precision by the program itself."""
        if is_cast(self.op(index)) and any(one.dtype in LOWER for one in self.calls[index].outputs):
            yield self.module(index), CAST

    def makers(self, index: int) -> set[int]:
        """Return the calls that made the floating-point inputs of a call, and the calls that wrote into them."""
        pairs = zip(self.calls[index].inputs, self._makers[index], strict=True)
        return {maker for given, makers in pairs if given.tensor.is_floating_point() for maker in makers}

    def sender(self, index: int) -> int | None:
        """Return the call that received an input of a call from another process, or None. It may be the call itself."""
        if self._communicates(index):
            return index
        for maker in self.makers(index):
            call = self.calls[maker]
            moves = call.name == "aten::copy_" or all(one.is_view for one in call.outputs)
            if self._communicates(maker) or (moves and self.sender(maker) is not None):
                return self.sender(maker)
        return None

    def _communicates(self, index: int) -> bool:
        return self.calls[index].name.startswith(_COMMUNICATES)

    def before(self, starts: Iterable[int], count: int) -> list[int]:
        """Return the starts and the nearest calls that made their inputs, up to ``count`` calls in all, in order.

        There are more calls if an input was overwritten later, because the calls that made the input must run again.
        """
        needed = set(starts)
        heap = sorted(-index for index in needed)
        found: set[int] = set()
        while heap:
            index = -heapq.heappop(heap)
            if index in found or (len(found) >= count and index not in needed):
                continue
            found.add(index)
            for given, makers in zip(self.calls[index].inputs, self._makers[index], strict=True):
                if given.tensor.is_floating_point():
                    if not given.is_as_given:
                        needed.update(makers)
                    elif any(map(self._communicates, makers)):
                        continue
                    for maker in makers:
                        heapq.heappush(heap, -maker)
        return sorted(found)

    def run(
        self,
        indices: Iterable[int],
        rules: Collection[Rule] = (),
        *,
        is_wide: bool = False,
        given: Values | None = None,
        leaf: Callable[[Tensor], Tensor] = Tensor.detach,
    ) -> Values:
        """Run calls again, in order, and return the values of their outputs.

        Args:
            indices: The indices of the calls.
            rules: The ops that have the rule fp32 in a module. ``CAST`` omits the program's casts to a lower precision.
            is_wide: Whether to run all calls in float32, with autocast off.
            given: Values by key, which replace the recorded inputs.
            leaf: A function that is applied to each floating-point input that none of the calls makes.

        Raises:
            RuntimeError: If a call communicates with other processes.
            Exception: If a kernel raises it, for example because it rejects a dtype.
        """
        values: Values = {}
        cut: set[Key] = set()  # the program detached the tensors with these keys
        indices = sorted(indices)
        calls = [self.calls[index] for index in indices]
        if any(call.name.startswith(_COMMUNICATES) for call in calls):
            raise RuntimeError("a call that communicates with other processes cannot run again in one process")
        copies = any(output.is_written for call in calls for output in call.outputs)
        for index, call in zip(indices, calls, strict=True):
            copies = copies or call.updates_statistics
            tensors = []
            for one in call.inputs:
                tensor = values.get(one.key)
                if tensor is None:
                    tensor = (given or {}).get(one.key, one.tensor).detach()
                    if tensor.is_floating_point():
                        tensor = leaf(tensor.float() if is_wide and tensor.dtype in LOWER else tensor)
                    tensor = tensor.clone() if copies else tensor
                    values[one.key] = tensor
                tensors.append(tensor.detach() if one.key in cut and not self._has_node(index) else tensor)
            module = self._modules.name(call.module)
            ops = frozenset(op for place, op in rules if place in ("", module) or module.startswith(f"{place}."))
            is_left_out = CAST in ops and is_cast(shown(call.name).partition(".")[0])
            rule_ops = ops - {CAST}
            made = call.run(tensors, _kernels(rule_ops) if rule_ops else None, is_wide or is_left_out)
            for output, tensor in zip(call.outputs, made, strict=True):
                known = values.get(output.key)
                if known is not None and known.requires_grad and not (tensor.requires_grad or output.is_written):
                    cut.add(output.key)  # a tensor and its detach() have the same key, and the tensor may be read later
                else:
                    values[output.key] = tensor.float() if is_wide and tensor.dtype in LOWER else tensor
        return values


@cache
def _has_rule(op: str) -> bool:
    try:
        Policy({op: "fp32"})
    except PolicyError:
        return False
    return True


@cache
def _kernels(ops: frozenset[str]) -> KernelPolicy:
    return Policy(dict.fromkeys(ops, "fp32")).kernels
