"""The picture of what tune tried."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from polycast.debug.picture import BLUE, RED
from polycast.debug.tuning.proof import Trial


def draw_trials(trials: Sequence[Trial], best: Trial, allowed: float) -> Figure:
    """Return a figure: the final loss of each plan over the time of a step. What was taken back is hollow.

    Args:
        trials: The plans, float32 and the built-in one first.
        best: The one that is marked as the result.
        allowed: How much higher than in float32 the final loss may be.
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    ran = [trial for trial in trials if trial.runs]
    finite = [trial.loss for trial in ran if math.isfinite(trial.loss)]
    reference = trials[0].loss
    low, high = min([*finite, reference - allowed]), max([*finite, reference + allowed])
    top = high + 0.1 * (high - low)  # where losses are that are not finite
    axes.axhspan(reference - allowed, reference + allowed, color="0.93", zorder=0)
    axes.axhline(reference, color="black", linewidth=0.5, zorder=1)
    for trial in ran:
        is_finite = math.isfinite(trial.loss)
        place = trial.seconds * 1e3, trial.loss if is_finite else top
        axes.plot(
            *place,
            "o" if is_finite else "^",
            color=RED if trial.complaint else BLUE,
            fillstyle="none" if trial.complaint else "full",
            markersize=12 if trial is best else 7,
        )
        label = f"{trial.name}{'' if is_finite else ', not finite'}"
        axes.annotate(label, place, xytext=(4, 6), textcoords="offset points", rotation=30, fontsize="small")
    axes.set_ylim(low - 0.1 * (high - low), top + 0.3 * (high - low))
    axes.margins(x=0.15)
    axes.ticklabel_format(useOffset=False)
    axes.set_xlabel("milliseconds a step")
    axes.set_ylabel("final loss, over the seeds")
    title = "full: keeps the loss; hollow: taken back; large: the result; gray: as far from float32 as is allowed"
    axes.set_title(title, fontsize="medium")
    return figure
