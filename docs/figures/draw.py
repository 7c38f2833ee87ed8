"""Draws the figures of README.md and the pages, from real runs: `python docs/figures/draw.py [FOLDER]`.

Each follows the light or dark mode of the page, and is narrow enough for a phone. The broken model is the first one
on the page about debugging.
"""

import io
import math
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import polycast
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import nn

matplotlib.rcParams.update({
    "svg.hashsalt": "polycast",  # the same file for the same figure
    "svg.fonttype": "none",  # text, in the reader's font; the alternatives are as wide as the first
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.monospace": ["DejaVu Sans Mono", "Menlo", "Consolas", "monospace"],
    "font.size": 10,
})  # fmt: skip
HERE = Path(__file__).parent
BLUE, RED, GREY, GREEN = "#4c72b0", "#c44e52", "#888888", "#55a868"
INK, PAPER = "#000000", "#ffffff"  # matplotlib's own
WIDTH = 5.2  # inches; a page of the site has 7.5, a phone 3.5
# The color on a dark page for each color on a light one.
DARK = {INK: "#d4d6d9", PAPER: "#131416", BLUE: "#8ab0ea", RED: "#f08a8e", GREY: "#9a9da1", GREEN: "#7fce92",
        "#eeeeee": "#26282c", "#dddddd": "#36393d"}  # fmt: skip


def the_broken_model() -> dict[str, Any]:
    """Run the first block of the page about debugging; return the names that it defines."""
    page = (HERE.parent / "debugging.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    exec(re.findall(r"(?ms)^```python\n(.*?)^```$", page)[0], names)
    return names


def plain(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def failing(names: dict[str, Any]) -> Figure:
    """Training in float16 with a NaN loss, the output of watch, and training under its rule, one below the other."""
    train = names["train"]
    reference, fixed = train(torch.float32), train(torch.float16, policy={"matmul": "fp32"})
    broken = train(torch.float16)
    torch.manual_seed(0)
    model, (inputs, labels) = names["Attention"](), names["batch"]()
    with polycast.debug.watch(model) as found, polycast.autocast("cpu", dtype=torch.float16):
        nn.functional.cross_entropy(model(inputs), labels)
    output = re.sub(r" (result up to|rule of|polycast.Policy)", r"\n    \1", str(found))

    figure = Figure(figsize=(WIDTH, 5.9), layout="constrained")
    above, middle, below = figure.subplots(3, 1, height_ratios=(1, 1.2, 1))
    for axes, losses, color, label in (
        (above, broken, RED, "float16"),
        (below, fixed, BLUE, "float16, with the rule"),
    ):
        plain(axes).plot(reference, color=GREY, linestyle="--", linewidth=1, label="float32")
        axes.plot(losses, color=color, linewidth=2, label=label)
        lost = [math.isnan(loss) for loss in losses]
        if any(lost):
            axes.fill_between(
                range(len(losses)), 0, 1, lost, transform=axes.get_xaxis_transform(), color=color, alpha=0.15
            )
            text = f"float16: NaN in {sum(lost)} of {len(losses)} steps"
            axes.text(0.5, 0.5, text, color=color, ha="center", va="center", transform=axes.transAxes)
        axes.set(xlabel="step", ylabel="loss", xlim=(-0.5, len(losses) - 0.5))
        axes.legend(frameon=False, loc="upper right")
    above.set_title("1. The loss is NaN", loc="left", fontweight="bold")
    middle.set_title("2. watch names the op, and a rule for it", loc="left", fontweight="bold")
    middle.axis("off")
    text = middle.text(0, 0.97, output, family="monospace", fontsize=9.5, va="top", transform=middle.transAxes)
    text.set(in_layout=False, linespacing=1.5)
    below.set_title("3. With this rule it learns", loc="left", fontweight="bold")
    return figure


def formats(_: dict[str, Any]) -> Figure:
    """The normal numbers of each format on one axis, and its next number after 1."""
    figure = Figure(figsize=(WIDTH, 2.3), layout="constrained")
    axes = plain(figure.subplots())
    dtypes = (torch.float16, torch.bfloat16, torch.float32)
    for place, (dtype, color) in enumerate(zip(dtypes, (RED, BLUE, GREY), strict=True)):
        info = torch.finfo(dtype)
        axes.plot([info.tiny, info.max], [place, place], color=color, linewidth=9, solid_capstyle="butt")
        axes.plot([info.smallest_normal * info.eps, info.tiny], [place, place], color=color, linewidth=3, alpha=0.5)
        text = f"{info.tiny:.1e} to {info.max:.3g}; next to 1: 1 + {info.eps:.1e}"
        axes.text(1, place + 0.25, text, ha="center", fontsize=9)
    axes.set(xscale="log", xlim=(1e-47, 1e41), ylim=(-0.5, 2.7), xlabel="magnitude (thin: subnormal numbers)")
    axes.set_yticks(range(3), [str(dtype).removeprefix("torch.") for dtype in dtypes])
    return figure


def scaling(_: dict[str, Any]) -> Figure:
    """The gradients of a small model, with and without the scale, and the range of float16."""
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.Tanh())), nn.Linear(128, 10))
    nn.functional.cross_entropy(model(torch.randn(256, 128)), torch.randint(10, (256,))).backward()  # type: ignore[no-untyped-call]
    exact = torch.cat([p.grad.flatten().abs() for p in model.parameters() if p.grad is not None])
    exact = exact[exact > 0] * 1e-4  # as if the loss were a mean over many tokens
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    axes = plain(figure.subplots())
    info = torch.finfo(torch.float16)
    smallest = info.smallest_normal * info.eps
    for factor, color in ((1, RED), (65536, BLUE)):
        lost = float(((exact * factor).half() == 0).float().mean())
        name = "gradients" if factor == 1 else f"times {factor}"
        values = torch.log10(exact * factor).numpy()
        axes.hist(values, bins=120, color=color, alpha=0.6, label=f"{name}: {lost:.0%} become zero in float16")
    axes.axvspan(torch.tensor(smallest).log10().item(), torch.tensor(info.max).log10().item(), color=GREEN, alpha=0.12)
    axes.text(1.5, axes.get_ylim()[1] * 0.5, "what float16\ncan hold", color=GREEN, ha="center")
    axes.set(xlabel="magnitude, power of ten", ylabel="gradients", xlim=(-15, 6))
    axes.set_ylim(top=axes.get_ylim()[1] * 1.35)
    axes.legend(frameon=False, loc="upper left")
    return figure


def overflow(_: dict[str, Any]) -> Figure:
    """The squares of 1 to 1000 in each format, and their errors."""
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    x = torch.linspace(1, 1000, 400, dtype=torch.float64)
    for dtype, color, style in ((torch.float32, GREY, "-"), (torch.bfloat16, BLUE, "--"), (torch.float16, RED, "-")):
        squares = (x.to(dtype) ** 2).double()
        name = str(dtype).removeprefix("torch.")
        plain(left).plot(x, squares, color=color, linestyle=style, label=name)
        error = ((squares - x**2).abs() / x**2).where(squares.isfinite(), torch.nan)
        plain(right).plot(x, error, color=color, linewidth=0.8, label=name)
    left.axvspan(256, 1000, color=RED, alpha=0.15, linewidth=0)
    left.text(680, 0.4e5, "float16: infinite\nfrom 256 on", color=RED, ha="center", fontsize=8)
    left.set(xlabel="x", ylabel="x squared", xlim=(0, 1000))
    left.legend(frameon=False, loc="upper left")
    right.set(xlabel="x", ylabel="relative error", yscale="log", xlim=(0, 1000))
    return figure


def precedence(_: dict[str, Any]) -> Figure:
    """The nested scopes of rules, with the overriding one innermost."""
    places = (
        "built-in policy: policy.yaml",
        "process: polycast.use(...), POLYCAST_POLICY",
        "outer region",
        "inner region",
        "outer module: polycast.assign(...)",
        "inner module",
    )
    figure = Figure(figsize=(WIDTH, 3.4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for depth, place in enumerate(places):
        inset = 0.02 + 0.035 * depth
        corner, width, height = (inset, 0.08 + 0.03 * depth), 1 - 2 * inset, 0.9 - 0.15 * depth
        axes.add_patch(Rectangle(corner, width, height, color=BLUE, alpha=0.12, linewidth=0))
        axes.add_patch(Rectangle(corner, width, height, edgecolor=GREY, fill=False))
        top = 0.98 - 0.12 * depth
        axes.text(inset + 0.015, top - 0.065, place, va="center")
    axes.text(0.5, 0.012, "From the inside out: the first rule for the op decides.", ha="center")
    return figure


FIGURES = (failing, formats, overflow, scaling, precedence)


def svg(figure: Figure) -> str:
    """Return the SVG text of a figure, with colors for light and dark pages."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    rules = [f"text {{fill: {DARK[INK]}}}"]
    for place in ("fill", "stroke"):
        rules += [f'[style*="{place}: {light}"] {{{place}: {dark} !important}}' for light, dark in DARK.items()]
    dark = ["@media (prefers-color-scheme: dark) {", *rules, "}"]
    style = "\n".join(["<style>", "text {white-space: pre}", *dark, "</style>"])  # text may be indented
    return file.getvalue().replace("</metadata>", f"</metadata>\n{style}", 1)


def main(folder: Path) -> None:
    """Write each figure as NAME.svg."""
    warnings.filterwarnings("ignore", message="step 0: infinite", category=UserWarning)
    names = the_broken_model()
    for draw in FIGURES:
        (folder / f"{draw.__name__}.svg").write_text(svg(draw(names)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
