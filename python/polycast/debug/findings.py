"""Infinities and NaNs that were found, and what would have avoided them."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from polycast.debug.calls import text
from polycast.debug.values import BACKWARD, Site
from polycast.policy.policy import Policy, PolicyError

WIDE = (torch.float32, torch.float64)
CAST = "_to_copy"
FLOAT32 = ("fp32", "float32", "float64", "fp32_set_opt_dtype", "fp32_append_dtype")


@dataclass(frozen=True)
class Finding:
    """An op whose result is infinite or NaN though what it was given was not.

    That NaNs were given is a finding too where no op of the watch made them. Magnitudes are the largest absolute values
    of its floating-point tensors, in the order of its arguments.
    """

    step: int
    """How many steps were read before it."""
    site: Site
    op: str
    """The op as policies name it: the one that was called, which may run several; for backward, that of its forward."""
    rule: str
    origin: str
    inputs: tuple[torch.dtype, ...]
    magnitudes: tuple[float, ...]
    outputs: tuple[torch.dtype, ...]
    result: float
    """The magnitude of the result: infinite, or NaN."""
    remedy: str
    """A rule that may avoid it, or why there is none."""

    def __str__(self) -> str:
        """Return a few lines."""
        what = "NaN" if math.isnan(self.result) else "infinite"
        given = ", ".join(
            f"{text(kind)} up to {most:.3g}" for kind, most in zip(self.inputs, self.magnitudes, strict=True)
        )
        rule = f"{self.rule} ({self.origin})" if self.origin else self.rule
        return (
            f"step {self.step}: {what} in {', '.join(dict.fromkeys(map(text, self.outputs)))}: {self.site}\n"
            f"  given {given or 'no floating-point tensor'}; rule of {self.op}: {rule}\n"
            f"  {self.remedy}"
        )


class Flushed(NamedTuple):
    """A cast to float16 that made zeros of values that are none: the share of all its elements."""

    step: int
    site: Site
    share: float


def remedy_of(finding: Finding, wider: bool | None, module: str | None = None) -> str:
    """Return what may avoid a finding: the op alone was tried, not the program.

    Args:
        finding: It.
        wider: Whether the op gives finite results in a wider type, from the same values; None where that is unknown.
        module: The name of the module that made the call, where a module's rule decides: its own come before that.
    """
    if any(map(math.isnan, finding.magnitudes)):
        return "it was given NaNs from outside of the watch: look at the data and the weights"
    if not all(map(math.isfinite, finding.magnitudes)):
        return "it was given infinities that no op of the watch made, as from a row that is masked as a whole"
    if all(kind in WIDE for kind in (*finding.inputs, *finding.outputs)):
        return "no rule would have avoided it: it computes in float32"
    if wider is False:
        return "no rule would have avoided it: in a wider type it is not finite either"
    if finding.op == CAST:
        return "the program itself casts it, which no rule changes"
    scale = "a smaller scale may avoid it, which GradScaler finds by itself; " if finding.site.phase == BACKWARD else ""
    try:
        Policy({finding.op: "fp32"})
    except PolicyError as error:
        return f"{scale}no rule can avoid it: {str(error).splitlines()[0]}"
    if finding.rule in FLOAT32:
        return f"{scale}no rule of {finding.op} would have avoided it: it has {finding.rule} already"
    rule = f'{{"{finding.op}": "fp32"}}'
    how = f"polycast.Policy({rule})" if module is None else f'polycast.assign(model, {{"{module}": {rule}}})'
    return f"{scale}may be avoided by {how}"
