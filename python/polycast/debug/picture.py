"""Pictures of what autocasting did."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from polycast.debug.calls import BACKWARD, FORWARD, STEP, Call, text
from polycast.debug.measure import Error

COLORS = {"float32": "#c44e52", "bfloat16": "#4c72b0", "float16": "#55a868", "float64": "#8172b3"}
OTHER = "#999999"
ROWS = 40
MARKERS = "os^"  # of errors that grow the most


def draw(calls: Sequence[Call]) -> Figure:
    """Return a figure: over the calls in order, the type that each computed in by its module, and the bytes cast."""
    parts = _parts([call.site.module for call in calls])
    places = list(dict.fromkeys(parts))
    figure = Figure(figsize=(10, 2 + 0.25 * len(places)), layout="constrained")
    strip, bars = figure.subplots(2, sharex=True, height_ratios=(max(1, len(places)), 3))
    numbers = range(len(calls))
    kinds = [_computed(call) for call in calls]
    colors = [COLORS.get(kind, OTHER) for kind in kinds]
    rows = [places.index(part) for part in parts]
    strip.scatter(numbers, rows, c=colors, marker="|", s=60)
    strip.set_yticks(range(len(places)), [place or "(outside, or the model)" for place in places])
    strip.invert_yaxis()
    strip.legend(
        handles=[Patch(color=COLORS.get(kind, OTHER), label=kind) for kind in dict.fromkeys(kinds)],
        loc="upper left",
        bbox_to_anchor=(1, 1),
        title="computed in",
    )
    bars.vlines(numbers, 0, [sum(cast.bytes for cast in call.casts) / 1e6 for call in calls], colors="black")
    bars.set_ylim(bottom=0)
    bars.set_ylabel("MB cast")
    bars.set_xlabel("calls, in order")
    return figure


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
    axes.scatter(range(len(local)), local, s=8, color=COLORS["bfloat16"], label="local error, of the op itself")
    for phase, color in ((FORWARD, "none"), (BACKWARD, "#eeeeee"), (STEP, "#dddddd")):
        places = [place for place, row in enumerate(errors) if row.site.phase == phase]
        if places:
            axes.axvspan(places[0], places[-1] + 1, color=color, zorder=-1)
            axes.annotate(phase, (places[0], 1), xycoords=("data", "axes fraction"), va="bottom")
    if non_finite is not None:
        axes.axvline(errors.index(non_finite), color=COLORS["float32"], label=f"not finite: {non_finite.site}")
    for row, marker in zip(growing, MARKERS, strict=False):
        if row.so_far is not None and math.isfinite(row.so_far):
            label = f"grows the most: {row.site.op} in '{row.site.module}'"
            axes.plot(errors.index(row), row.so_far, marker, color=COLORS["float32"], fillstyle="none", label=label)
    axes.set_yscale("log")
    axes.set_xlabel("calls, by their place in the comparison")
    axes.set_ylabel("relative error")
    figure.legend(loc="outside lower center", fontsize="small")
    return figure


def _parts(modules: Sequence[str]) -> list[str]:
    """Return modules' names without their last parts, so that no more than ROWS of them remain."""
    depths = range(max((module.count(".") for module in modules), default=0) + 1, 0, -1)
    for depth in depths:
        parts = [".".join(module.split(".")[:depth]) for module in modules]
        if len(set(parts)) <= ROWS:
            return parts
    return [module.partition(".")[0] for module in modules]


def _computed(call: Call) -> str:
    """Return the narrowest floating-point type that a call computed in."""
    kinds = [kind for kind in (*call.arrived, *call.returned) if kind.is_floating_point]
    return text(min(kinds, key=lambda kind: kind.itemsize))
