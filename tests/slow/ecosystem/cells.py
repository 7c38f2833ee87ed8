"""The table: which trainer runs which recipe, and what came of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from tests.slow.ecosystem.recipes import RECIPES, Kit, Recipe, Trained

Train = Callable[[Kit], Trained]
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}


@dataclass(frozen=True)
class Cell:
    """A trainer and a recipe."""

    package: str
    recipe: Recipe
    train: Train
    beside: Train  # stock, of the same seed and data: the trainer itself, or torch's loop where it cannot
    line: str  # what a user adds to a training that runs on stock torch, beside our optimizer and scaler
    needs_line: bool  # there is no way without

    def __str__(self) -> str:
        return f"{self.package}, {self.recipe.name}"


class Outcome(NamedTuple):
    """What came of a cell: the difference is that of weights and losses, by the largest of each."""

    verdict: str  # "unchanged", "one line" or "no"
    difference: float
    why: str


CELLS: list[Cell] = []


def trainer(
    package: str,
    *,
    beside: Train | None = None,
    beside_for: Callable[[Recipe], bool] = lambda _: True,
    line: str = "",
    needs_line: bool = False,
    recipes: Iterable[Recipe] = RECIPES,
) -> Callable[[Train], Train]:
    """Register a trainer with its recipes; it is called in a process of its own."""

    def register(train: Train) -> Train:
        for recipe in recipes:
            other = beside if beside is not None and beside_for(recipe) else train
            CELLS.append(Cell(package, recipe, train, other, line, needs_line))
        return train

    return register


def named(name: str, **changes: object) -> Recipe:
    """Return a recipe of the table, changed."""
    (recipe,) = (recipe for recipe in RECIPES if recipe.name == name)
    return replace(recipe, **changes)  # type: ignore[arg-type]


def difference(ours: Trained, stock: Trained) -> float:
    """Return the largest difference of weights and losses, relative to the largest weight and loss."""
    if len(ours.losses) != len(stock.losses):
        return float("inf")
    pairs = [*zip(ours.weights, stock.weights, strict=True), (torch.tensor(ours.losses), torch.tensor(stock.losses))]
    differences = []
    for found, wanted in pairs:
        finite = wanted.isfinite()
        if not torch.equal(finite, found.isfinite()):
            return float("inf")
        found, wanted = found[finite].double(), wanted[finite].double()
        differences.append(float((found - wanted).abs().max() / wanted.abs().max()))
    return max(differences)


def mismatch(cell: Cell, ours: Trained, stock: Trained) -> tuple[float, str]:
    """Return by how much a training differs from stock's, and why that is too much, or nothing."""
    differs = difference(ours, stock)
    if ours.dtype != cell_dtype(cell.recipe):
        return differs, f"the model ran in {ours.dtype}, not in {cell_dtype(cell.recipe)}"
    if abs(ours.rate - stock.rate) > 1e-6 * stock.rate:
        return differs, f"the learning rate ends at {ours.rate:.6g}, not at {stock.rate:.6g}"
    if not differs <= TOLERANCE[cell.recipe.precision]:
        return differs, f"differs by {differs:.1e}"
    return differs, ""


def cell_dtype(recipe: Recipe) -> str:
    return str(recipe.dtype)
