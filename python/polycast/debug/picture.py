"""The picture of a comparison."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from polycast.debug.calls import BACKWARD, FORWARD, STEP
from polycast.debug.measure import Error

BLUE, RED = "#4c72b0", "#c44e52"
MARKERS = "os^"  # of errors that grow the most


def draw_errors(errors: Sequence[Error], non_finite: Error | None, growing: Sequence[Error]) -> Figure:
    """Return a figure: over the calls in order, the error so far, and what each op itself adds, by phase.

    Args:
        errors: One for each call.
        non_finite: The one to mark as not finite.
        growing: Those to mark as growing, the worst first.
    """
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    so_far = [math.nan if row.so_far is None or row.so_far == 0 else row.so_far for row in errors]
    local = [math.nan if row.local is None or row.local == 0 else row.local for row in errors]
    axes.plot(so_far, color="black", linewidth=0.8, label="error so far, against the reference")
    axes.scatter(range(len(local)), local, s=8, color=BLUE, label="local error, of the op itself")
    for phase, color in ((FORWARD, "none"), (BACKWARD, "#eeeeee"), (STEP, "#dddddd")):
        places = [place for place, row in enumerate(errors) if row.site.phase == phase]
        if places:
            axes.axvspan(places[0], places[-1] + 1, color=color, zorder=-1)
            axes.annotate(phase, (places[0], 1), xycoords=("data", "axes fraction"), va="bottom")
    if non_finite is not None:
        axes.axvline(errors.index(non_finite), color=RED, label=f"not finite: {non_finite.site}")
    for row, marker in zip(growing, MARKERS, strict=False):
        if row.so_far is not None and math.isfinite(row.so_far):
            label = f"grows the most: {row.site.op} in '{row.site.module}'"
            axes.plot(errors.index(row), row.so_far, marker, color=RED, fillstyle="none", label=label)
    axes.set_yscale("log")
    axes.set_xlabel("calls, by their place in the comparison")
    axes.set_ylabel("relative error")
    figure.legend(loc="outside lower center", fontsize="small")
    return figure
