"""What tune found: a plan and what proves it, and the file that holds both."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from polycast import backends
from polycast._calls import in_a_folder
from polycast._text_table import lines_of
from polycast.debug.tuning.choices import category, plan_of
from polycast.debug.tuning.evidence import Evidence
from polycast.debug.tuning.losses import FINAL, Tolerance, final
from polycast.debug.tuning.proof import FLOAT32_NAME, Proof, Trial
from polycast.debug.verification.verifying import facts_of as facts_of_device
from polycast.policy.plan import Plan
from polycast.policy.sides import BUILT_IN_NAME

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 1.25  # by which factor the upper quartile of ratios is above the lower one on a machine that is busy
TUNED_NAME, RATIOS, LOSSES = "tuned", "times the time of", "final losses"
HERE = ("device", "properties", "hardware", "driver", "polycast", "torch", "torch_xla")
"""The facts of the device and of the packages."""
_KEY = "tuned:"
_NEEDED: dict[str, Callable[[Any], object]] = {
    "dtype": str,
    "tolerance": float,
    "seeds": list,
    LOSSES: lambda found: [fmean(many) for many in found.values()],
    RATIOS: lambda found: [fmean([many["median"]]) for many in found.values()],
}
"""What a file must tell, and how it is read."""
_OPENING = (
    "# Rules that polycast tune proved. `polycast tune --verify` measures again what stands here and in the notes."
)


@dataclass(frozen=True)
class Tuned:
    """What :func:`tune` found: the fastest plan that keeps the loss; it prints as a table of what was tried."""

    plan: Plan
    """The rules, whose notes hold the evidence. No rules if nothing is faster than the built-in policy."""
    trials: tuple[Trial, ...]
    """All that was tried: float32, the built-in policy, and the plans in the order of their runs."""
    best: Trial
    """The one among them that is the result."""
    facts: Mapping[str, Any]
    """What the file tells beside the rules."""
    stopped: str
    """Why not all was tried; empty if all was."""

    @property
    def name(self) -> str:
        """What the result is: "tuned", or "float32" or "built-in" if no other plan is faster."""
        return self.best.name if self.best in self.trials[:2] else TUNED_NAME

    def table(self) -> str:
        """Return a line for each plan that was tried.

        The final loss is the mean of the last tenth of the steps, over the seeds that ran. The ratios are those of the
        seconds of a step, in turns: the median, and the quartiles where there are several.
        """
        return table_of(self.trials, self.best)

    def __str__(self) -> str:
        """Return what the result is, a table of what was tried, and the rules of a tuned plan."""
        others = [trial for trial in self.trials if trial is not self.best and not trial.complaint]
        nothing = "nothing else is faster" if others else "nothing else is proved"
        found = f"{TUNED_NAME}: {self.best.name}" if self.name == TUNED_NAME else f"{self.name}: {nothing}"
        lines = [found + (f"; {self.stopped}, so not all was tried" if self.stopped else ""), "", self.table()]
        lines += [f"{trial.name}: {trial.reason}" for trial in self.trials if trial.reason]
        return "\n".join(lines + (["", str(self.plan)] if self.name == TUNED_NAME else []))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules to a file for :func:`polycast.use`, with their evidence and the facts as comments.

        Args:
            path: The file, in a folder that exists. It is replaced.
        """
        import yaml

        file = in_a_folder(path)
        self.plan.save(file)
        told = yaml.safe_dump(
            {_KEY[:-1]: dict(self.facts)}, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
        )
        head = "\n".join([_OPENING, "#", *(f"# {line}" for line in told.splitlines())])
        file.write_text(f"{head}\n{file.read_text(encoding='utf-8')}", encoding="utf-8")

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Return a picture of what was tried: the final loss over the time of a step; needs matplotlib.

        Args:
            path: Where to save it, too.
        """
        from polycast.debug.tuning.picture import draw_trials

        file = None if path is None else in_a_folder(path)
        allowed = Tolerance(self.trials[0].curves, self.facts["tolerance"]).margins[FINAL]
        figure = draw_trials(self.trials, self.best, allowed)
        if file is not None:
            figure.savefig(file)
        return figure


def table_of(trials: Sequence[Trial], best: Trial) -> str:
    """Return a line for each trial, of which float32 is the first."""
    float32 = trials[0]
    rows = [("plan", "seeds", "final loss", "ms a step", "times float32's", "peak memory", "")]
    for trial in trials:
        ratio = "" if trial is float32 or not trial.runs else _ratio_of(trial, float32)
        peak = "" if trial.peak is None else f"{trial.peak / 1e6:.0f} MB"
        verdict = trial.complaint.partition(";")[0] or ("the result" if trial is best else "keeps the loss")
        loss, time = (f"{trial.loss:.4g}", f"{trial.seconds * 1e3:.4g}") if trial.runs else ("-", "-")
        rows.append((trial.name, str(len(trial.runs)), loss, time, ratio, peak, verdict))
    return "\n".join([*lines_of(rows), *_doubts(trials, float32)])


def _doubts(trials: Sequence[Trial], float32: Trial) -> Iterator[str]:
    """Yield a line where times that were taken in turns, so under the same load, still differ too much."""
    ratios = {trial.name: trial.ratios(float32) for trial in trials if trial is not float32 and trial.runs}
    name = max(ratios, key=lambda one: ratios[one][2] / ratios[one][0], default="")
    if name and ratios[name][2] > SPREAD * ratios[name][0]:
        low, _, high = ratios[name]
        yield (
            f"the machine was busy: half of the times of '{name}' lie outside of {low:.3g} to {high:.3g} times "
            "float32's; measure again on an idle one"
        )


def _ratio_of(trial: Trial, other: Trial) -> str:
    low, middle, high = trial.ratios(other)
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def note_of(found: Sequence[Evidence]) -> str:
    """Return the note of a rule that decides over some ops in some modules: their calls, magnitudes and worst errors,
    and the milliseconds of one call in each of these modules together, by category."""
    numbers: dict[str, float] = {
        "calls": sum(one.calls for one in found),
        "smallest": min(one.smallest for one in found),
        "largest": max(one.largest for one in found),
        **{name: max(getattr(one, name) for one in found) for name in ("overflow", "flushed", "error")},
    }
    for one in found:
        for name, seconds in one.seconds.items():
            numbers[f"{name}_ms"] = numbers.get(f"{name}_ms", 0.0) + seconds * 1e3
    return " ".join(f"{name}={value:.3g}" for name, value in numbers.items())


def with_notes(plan: Plan, found: Sequence[Evidence]) -> Plan:
    """Return the plan that does the same to the ops of the evidence, which its notes hold."""
    by_key = {one.key: one for one in found}
    categories = {key: category(plan, key) for key in by_key}
    return plan_of(categories, lambda keys: note_of([by_key[key] for key in keys]))


def facts_here(found: Sequence[Evidence]) -> dict[str, str]:
    """Return the facts of the devices of the evidence, and of the packages."""
    devices = dict.fromkeys(backends.device_type_of(one.device) for one in found)
    return {name: text for device in devices for name, text in facts_of_device(device).items() if name in HERE}


def measured(proof: Proof, best: Trial) -> dict[str, Any]:
    """Return what the runs say of float32, of the built-in policy and of the result, as a file holds it."""
    ends = {FLOAT32_NAME: proof.float32, BUILT_IN_NAME: proof.built_in}
    is_end = best in ends.values()
    ran = {name: trial for name, trial in (ends if is_end else ends | {TUNED_NAME: best}).items() if trial.runs}
    return {
        "result": best.name if is_end else f"{TUNED_NAME}, {best.reason}",
        "seeds": [*proof.float32.runs],
        "tolerance": proof.tolerance.times,
        "steps": len(next(iter(proof.float32.runs.values())).losses),
        LOSSES: {name: [_short(final(curve)) for curve in trial.curves.values()] for name, trial in ran.items()},
        "loss": {name: trial.complaint or "within the tolerance" for name, trial in ran.items()},
        "ms a step": {name: _short(trial.seconds * 1e3) for name, trial in ran.items()} | {"of": proof.program.timed},
        RATIOS: {
            name: dict(zip(("low", "median", "high"), map(_short, best.ratios(trial)), strict=True))
            for name, trial in ran.items()
            if trial is not best
        },
        "peak memory": {name: trial.peak for name, trial in ran.items()} | {"of": proof.program.memory},
    }


def _short(number: float) -> float:
    return float(f"{number:.4g}")


def facts_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the facts of a file that :meth:`Tuned.save` wrote.

    Raises:
        ValueError: The file has none.
    """
    import yaml

    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}") from None
    comments = [line.removeprefix("#").removeprefix(" ") for line in lines if line.startswith("#")]
    if _KEY not in comments:
        raise ValueError(f"{path} has no line '# {_KEY}', so tune did not write it; polycast check shows what it is")
    try:
        facts = dict(yaml.safe_load("\n".join(comments[comments.index(_KEY) :]))[_KEY[:-1]])
        for name, read in _NEEDED.items():
            if name not in facts:
                raise ValueError(f"there is no '{name}'")
            try:
                read(facts[name])
            except (AttributeError, LookupError, TypeError, ValueError):
                raise ValueError(f"'{name}' is {facts[name]!r:.60}") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ValueError(f"the comments of {path} are no longer as tune wrote them: {error!s:.100}") from None
    return facts
