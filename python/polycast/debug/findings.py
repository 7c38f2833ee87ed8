"""Infinities and NaNs that were found, and what may avoid them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from polycast._grammar.categories import UNLISTED
from polycast.debug.calls import BACKWARD, WIDE, Call, Site, text
from polycast.debug.measure import Magnitude
from polycast.policy.policy import Policy, PolicyError

CAST = "_to_copy"
# Whether a smaller scale may avoid what overflows in backward, by whether a scaler skipped the step.
_SCALE = {
    True: "usual in the first steps of a GradScaler: it skipped this one, and finds a smaller scale by itself; ",
    False: "a smaller scale may avoid it, which GradScaler finds by itself; ",
}
FLOAT32 = ("fp32", "float32", "float64", "fp32_set_opt_dtype", "fp32_append_dtype")


@dataclass(frozen=True)
class Finding:
    """An op whose result is infinite or NaN though what it was given was not.

    An op that was given NaNs is a finding, too, where no op of the watch made them.
    """

    step: int
    """How many steps were read before it."""
    site: Site
    """The op below autograd and autocasting."""
    call: Call | None
    """The call that autocasting met and that the op is a part of; in backward, of the forward whose gradient it is."""
    inputs: tuple[Magnitude, ...]
    """Of its floating-point tensors, in the order of its arguments."""
    result: Magnitude
    remedy: str
    """A rule that may avoid it, or why none does."""
    skipped: bool
    """Whether a scaler skipped the step."""

    @property
    def op(self) -> str:
        """The op as policies name it."""
        return named(self.site, self.call)

    def __str__(self) -> str:
        """Return a few lines."""
        what = "NaN" if math.isnan(self.result.value) else "infinite"
        given = ", ".join(f"{text(one.dtype)} up to {one.value:.3g}" for one in self.inputs)
        rule = UNLISTED if self.call is None else self.call.rule
        origin = f" ({self.call.origin})" if self.call is not None and self.call.origin else ""
        relation = "whose gradient this is" if self.site.phase == BACKWARD else "which runs it"
        of = self.op if named(self.site, None) == self.op else f"{self.op}, {relation}"
        return (
            f"step {self.step}: {what} in {text(self.result.dtype)}: {self.site}\n"
            f"  given {given or 'no floating-point tensor'}; rule of {of}: {rule}{origin}\n"
            f"  {self.remedy}"
        )


class Flushed(NamedTuple):
    """A cast to float16 that made zeros of values that are none: the share of all its elements."""

    step: int
    site: Site
    share: float

    def __str__(self) -> str:
        """Return a line."""
        return f"step {self.step}: {self.share:.1%} became zero in float16: {self.site}"


def named(site: Site, call: Call | None) -> str:
    """Return an op as policies name it: the one that was called, which may run several."""
    return (site if call is None else call.site).op.partition(".")[0]


def remedy_of(
    site: Site,
    call: Call | None,
    inputs: Sequence[Magnitude],
    result: Magnitude,
    wider: bool | None,
    skipped: bool,
) -> str:
    """Return what may avoid a finding.

    Args:
        site: The op below autograd and autocasting.
        call: The call that it is a part of, as Finding has it.
        inputs: What it was given.
        result: What it returned.
        wider: Whether the op alone gives finite results in a wider dtype, from the same values; None where that is
            unknown.
        skipped: Whether a scaler skipped the step.
    """
    if any(math.isnan(one.value) for one in inputs):
        return "it was given NaNs that no op of the watch made: look at the data, the weights and old gradients"
    if not all(math.isfinite(one.value) for one in inputs):
        return "it was given infinities that no op of the watch made, as from a row that is masked as a whole"
    if all(one.dtype in WIDE for one in (*inputs, result)):
        return "no rule would have avoided it: it computes in float32"
    if wider is False:
        return "no rule would have avoided it: in a wider dtype it is not finite either"
    op, scale = named(site, call), _SCALE[skipped] if site.phase == BACKWARD else ""
    if op == CAST:
        return f"{scale}the program itself casts it, which no rule changes"
    try:
        Policy({op: "fp32"})
    except PolicyError as error:
        return f"{scale}no rule can avoid it: {str(error).splitlines()[0]}"
    if call is not None and call.rule in FLOAT32:
        return f"{scale}no rule of {op} would have avoided it: it has {call.rule} already"
    rule = f'{{"{op}": "fp32"}}'
    how = f"polycast.Policy({rule})"
    if call is not None and call.origin.startswith("module: "):  # whose rules decide over all others
        how = f'polycast.assign(model, {{"{call.site.module}": {rule}}})'
    if wider and site.phase != BACKWARD:
        return f"in float32 the op alone is finite: {how}"
    return f"{scale}may be avoided by {how}"
