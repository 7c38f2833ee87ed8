"""Loss curves beside those of float32."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

Curve = Sequence[float]
FINAL = "the final loss"
Check = Callable[[Curve, Curve], object]
FLOOR = 0.01  # the least that the spread counts, as a share of the loss: a few seeds may agree by chance


def final(curve: Curve) -> float:
    """Return the mean of the last tenth of a curve, of one loss at least."""
    return fmean(curve[-max(1, len(curve) // 10) :])


class Tolerance:
    """How much higher the losses of a plan may be than those of float32.

    Two figures are compared: the final loss, which is the mean of the last tenth of a curve, and the mean of the whole
    curve, whose difference is the area between two curves for each step. In both, the plan's mean over the seeds may be
    higher than that of float32 by `times` the spread: the standard deviation of the figure over the seeds in float32,
    or 1 % of its mean, whichever is more. A lower loss is never too low. A loss that is not finite is a failure.

    Args:
        reference: The curves of float32, by seed.
        times: How many times the spread.
        check: Replaces the comparison: it is called with the curve of a plan and that of float32 for the same seed, and
            returns whether the former is good enough.
    """

    def __init__(self, reference: Mapping[int, Curve], times: float, check: Check | None = None) -> None:
        self.reference, self.times = reference, times
        self._check = check
        self.margins = dict[str, float]()
        """How much higher each figure may be."""
        for name, figure in _FIGURES.items():
            figures = [figure(curve) for curve in reference.values()]
            spread = stdev(figures) if len(figures) > 1 else 0.0
            self.margins[name] = times * max(spread, FLOOR * abs(fmean(figures)))

    def complaint(self, curves: Mapping[int, Curve]) -> str:
        """Return what is wrong with the curves of a plan for some of the seeds, or an empty text.

        With k of n seeds the means may differ by sqrt(n / k) times as much, since they vary as much more.
        """
        for seed, curve in curves.items():
            wrong = next((step for step, loss in enumerate(curve) if not math.isfinite(loss)), None)
            if wrong is not None:
                return f"the loss of seed {seed} is {curve[wrong]} at step {wrong}"
            if len(curve) != len(self.reference[seed]):
                return f"seed {seed} has {len(curve)} losses, and {len(self.reference[seed])} in float32"
            kept = True if self._check is None else self._check(curve, self.reference[seed])
            if kept is None:
                raise TypeError(
                    "check returned None; return a true value if the losses are good enough, else a false one"
                )
            if not kept:
                return f"the check returns false for seed {seed}"
        if self._check is not None or not curves:
            return ""
        for name, figure in _FIGURES.items():
            excess = fmean(figure(curve) - figure(self.reference[seed]) for seed, curve in curves.items())
            allowed = self.margins[name] * math.sqrt(len(self.reference) / len(curves))
            if excess > allowed:
                return f"{name} is {excess:.3g} higher than in float32, and {allowed:.3g} is allowed"
        return ""


_FIGURES: dict[str, Callable[[Curve], float]] = {FINAL: final, "the mean of the losses": fmean}
