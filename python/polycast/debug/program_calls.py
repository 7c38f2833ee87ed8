"""The calls of a step: the calls that made the inputs of each call, and a way to run calls again."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property

from torch import Tensor

from polycast import devices
from polycast._extension import CallInput, KernelPolicy, ProgramCall
from polycast.debug.calls import BACKWARD, FORWARD, LOWER, STEP, Call, Site, SiteCounter, is_cast
from polycast.debug.module_tracker import OUTSIDE, ModuleTracker
from polycast.policy.policy import Policy
from polycast.policy.rules import castable, qualified, shown

Key = tuple[int, int]
Values = dict[Key, Tensor]
Rule = tuple[str, str]  # a module and an op; the module "" stands for the whole program
# `torch.tensor` writes into an empty tensor without a call, so these calls do not run again.
_UNWRITTEN = ("aten::empty", "aten::new_empty")
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
        self.inputs: list[list[tuple[CallInput, tuple[int, ...]]]] = []
        """The inputs of each call. Each input has the calls that made it or later wrote into its memory."""
        self._made: dict[Key, int] = {}
        self._written: defaultdict[int, list[int]] = defaultdict(list)
        for index, call in enumerate(calls):
            self.inputs.append([(given, self.makers_of(given.key)) for given in call.inputs])
            for given in call.inputs:
                self.readers[given.key[0]].append(index)
            is_made = not call.name.startswith(_UNWRITTEN)
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

    def is_as_given(self, index: int, given: CallInput) -> bool:
        """Return whether an input of a call still has its values. The writes to an inference tensor have no version."""
        writers = self._written.get(given.key[0], []) if given.tensor.is_inference() else []
        return given.is_as_given and not any(writer >= index for writer in writers)

    def inputs_as_given(self, index: int) -> Values | None:
        """Return the original inputs of a call; None if the program has overwritten an input that has no copy."""
        values: Values = {}
        for given, makers in self.inputs[index]:
            copies = {one.key: one.copy for maker in makers[-1:] for one in self.calls[maker].outputs}
            tensor = given.tensor if self.is_as_given(index, given) else copies.get(given.key)
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
            later = sorted(index for node, index in self._nodes[call.thread] if node > call.node)
            return self.module(later[0]) if later else ""
        of = self.gradient_of(index)
        return "" if of is None else self.module(of)

    @cached_property
    def _nodes(self) -> defaultdict[int, list[tuple[int, int]]]:
        """The node and the index of each call in forward, in the order of the nodes, by the thread of the nodes."""
        nodes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for index, call in enumerate(self.calls):
            if self.phase(index) == FORWARD:
                nodes[call.thread].append((call.node, index))
        for each in nodes.values():
            each.sort()
        return nodes

    def gradient_of(self, index: int) -> int | None:
        """Return the call whose gradient a call computes: the last forward call before the call's node existed.

        For a call in forward, the result is the call itself if it made a node, because then the next call has another.
        """
        call = self.calls[index]
        if call.node == _NO_NODE or call.function:
            return None
        nodes = self._nodes[call.thread]
        place = bisect_right(nodes, (call.node, len(self.calls)))
        return nodes[place - 1][1] if place else None

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
            yield from ((self.module(index), op) for op in dict.fromkeys(ops) if castable(qualified(op)))

    def casts(self, index: int) -> Iterator[Rule]:
        """Yield the module and ``CAST`` if a call is a cast to a lower precision by the program itself."""
        if is_cast(self.op(index)) and any(one.dtype in LOWER for one in self.calls[index].outputs):
            yield self.module(index), CAST

    def makers(self, index: int) -> set[int]:
        """Return the calls that made the floating-point inputs of a call, and the calls that wrote into them."""
        inputs = self.inputs[index]
        return {maker for given, makers in inputs if given.tensor.is_floating_point() for maker in makers}

    def sender(self, index: int) -> int | None:
        """Return the call that received an input of a call from another process, or None. It may be the call itself."""
        if self.communicates(index):
            return index
        for maker in self.makers(index):
            call = self.calls[maker]
            moves = call.name == "aten::copy_" or all(one.is_view for one in call.outputs)
            if self.communicates(maker) or (moves and self.sender(maker) is not None):
                return self.sender(maker)
        return None

    def communicates(self, index: int) -> bool:
        """Return whether a call exchanges tensors with other processes."""
        return self.calls[index].name.startswith(_COMMUNICATES)

    def before(self, starts: Iterable[int], count: int) -> list[int]:
        """Return the starts and the nearest calls that made their inputs, up to ``count`` calls in all, in order.

        There are more calls if an input was overwritten later, because the calls that made the input must run again.
        """
        needed = set(starts)
        near: set[int] = set()
        found: list[int] = []
        for index in reversed(range(max(needed, default=-1) + 1)):
            if index in needed or (index in near and len(found) < count):
                found.append(index)
                for given, makers in self.inputs[index]:
                    if given.tensor.is_floating_point() and not self.is_as_given(index, given):
                        needed.update(makers)
                    elif given.tensor.is_floating_point() and not any(map(self.communicates, makers)):
                        near.update(makers)
        return found[::-1]

    def after(self, starts: Iterable[int], among: Iterable[int]) -> set[int]:
        """Return the starts and the calls that depend on them, among some calls in order."""
        found = set(starts)
        for index in among:
            if not found.isdisjoint(self.makers(index)):
                found.add(index)
        return found

    def again(
        self,
        indices: Iterable[int],
        rules: Collection[Rule] = (),
        *,
        is_wide: bool = False,
        given: Values | None = None,
        leaf: Callable[[Tensor], Tensor] = Tensor.detach,
        falls_back: bool = False,
    ) -> Values | None:
        """Run calls again, as :meth:`run` does. Return None if a call fails.

        Without ``given``, the calls that made overwritten inputs run as well. The random state is unchanged.
        """
        restore_random_state = devices.random_state()  # each run draws the same masks of dropout
        try:
            needed = indices if given else self.before(indices, 0)
            return self.run(needed, rules, is_wide=is_wide, given=given, leaf=leaf, falls_back=falls_back)
        except Exception:  # a kernel may raise any exception for a dtype that it does not support
            return None
        finally:
            restore_random_state()

    def run(
        self,
        indices: Iterable[int],
        rules: Collection[Rule] = (),
        *,
        is_wide: bool = False,
        given: Values | None = None,
        leaf: Callable[[Tensor], Tensor] = Tensor.detach,
        falls_back: bool = False,
    ) -> Values:
        """Run calls again, in order, and return the values of their outputs.

        Args:
            indices: The indices of the calls.
            rules: The ops that have the rule fp32 in a module. ``CAST`` omits the program's casts to a lower precision.
            is_wide: Whether to run all calls in float32, with autocast off.
            given: Values by key, which replace the recorded inputs.
            leaf: A function that is applied to each floating-point input that none of the calls makes.
            falls_back: Whether a call that fails runs again as recorded, because its kernel may reject float32.

        Raises:
            RuntimeError: If a call communicates with other processes.
            Exception: If a kernel raises it, for example because it rejects a dtype.
        """
        indices = sorted(indices)
        if any(map(self.communicates, indices)):
            raise RuntimeError("a call that communicates with other processes cannot run again in one process")
        values: Values = {}
        cut: set[Key] = set()  # the program detached the tensors with these keys
        calls = [self.calls[index] for index in indices]
        copies = any(call.updates_statistics or any(one.is_written for one in call.outputs) for call in calls)
        for index, call in zip(indices, calls, strict=True):
            tensors = []
            for one in call.inputs:
                tensor = values.get(one.key)
                if tensor is None:
                    tensor = (given or {}).get(one.key, one.tensor).detach()
                    if tensor.is_floating_point():
                        tensor = leaf(tensor.float() if is_wide and tensor.dtype in LOWER else tensor)
                    tensor = tensor.clone() if copies else tensor
                    values[one.key] = tensor
                tensors.append(tensor.detach() if one.key in cut and self.gradient_of(index) != index else tensor)
            if call.name == "aten::detach" and call.outputs[0].key in values:
                cut.add(call.outputs[0].key)  # a tensor and its detach() have the same key, and both may be read later
                continue
            module = self._modules.name(call.module)
            ops = frozenset(op for place, op in rules if place in ("", module) or module.startswith(f"{place}."))
            is_left_out = CAST in ops and is_cast(self.op(index))
            rule_ops = ops - {CAST}
            try:
                made = call.run(tensors, _kernels(rule_ops) if rule_ops else None, is_wide or is_left_out)
            except Exception:
                if not falls_back:
                    raise
                made = call.run([one.tensor.detach().clone() for one in call.inputs], None, False)
            for output, tensor in zip(call.outputs, made, strict=True):
                values[output.key] = tensor.float() if is_wide and tensor.dtype in LOWER else tensor
        return values


@cache
def _kernels(ops: frozenset[str]) -> KernelPolicy:
    return Policy(dict.fromkeys(ops, "fp32")).kernels
