"""The calls that autocast intercepts, by the ops below them: which call an op is a part of, or the gradient of."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from polycast.debug.calls import LOWER, Call, Site
from polycast.debug.observer import Op
from polycast.debug.ops import is_cast
from polycast.policy.rules import qualified
from polycast.torch_internals import current_autograd_node, schema_of

_MAKERS = 8


class CallsOfOps:
    """The recorded calls of a step.

    Args:
        calls: The calls, in order.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._by_order = {call.order: call for call in calls}
        self._by_node = sorted((call for call in calls if call.given), key=lambda call: call.node)

    def of(self, op: Op) -> Call | None:
        """Return the recorded call that an op is a part of; in backward, the call whose gradient it computes.

        A gradient has the dtype of its tensor, which was set by the last call with a rule that made the tensor.
        """
        if op.node is None or op.call is not None:
            return None if op.call is None else self._by_order.get(op.call)
        nodes = op.makers if is_cast(op.function) else (op.node, *op.makers)
        found = [call for node in nodes if (call := self._of_node(node)) is not None and not _is_view_or_cast(call)]
        return next((call for call in found if call.is_ruled), found[0] if found else self._of_node(op.node))

    def _of_node(self, node: int) -> Call | None:
        index = bisect_right(self._by_node, node, key=lambda call: call.node) - 1
        return self._by_node[index] if index >= 0 else None


def makers_of(op: Op) -> tuple[int, ...]:
    """Return the autograd nodes that made the tensor whose gradient an op gives, and what the tensor was made from.

    They are the nodes whose own gradients have the gradient's dtype: a float32 branch next to a float16 branch made
    nothing.
    """
    if op.node is None or op.outputs[0].dtype not in LOWER:
        return ()
    dtype = op.outputs[0].dtype
    found: list[int] = []
    node: Any = current_autograd_node()
    while node is not None and len(found) < _MAKERS:
        functions = [function for function, _ in node.next_functions if function is not None]
        node = next((one for one in functions if any(put.dtype is dtype for put in one._input_metadata)), None)
        if node is not None:
            found.append(node._sequence_nr())
    return tuple(found)


def _is_view_or_cast(call: Call) -> bool:
    operator, _, overload = qualified(call.site.op).partition(".")
    schema = schema_of(operator, overload)
    aliases = [argument.alias_info for argument in schema.arguments if argument.alias_info is not None]
    return operator == "aten::_to_copy" or (aliases != [] and not any(alias.is_write for alias in aliases))


def op_name(site: Site, call: Call | None) -> str:
    """Return an op as policies name it: the op that was called, which may run several."""
    return (site if call is None else call.site).op.partition(".")[0]
