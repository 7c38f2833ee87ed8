"""The cells of the table, one for each trainer and recipe.

Each training run has its own process, because trainers have state that lasts as long as the process.
"""

import functools
import multiprocessing
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import polycast
import torch

from tests.slow.ecosystem.recipes import RECIPES, Kit, Recipe, Trained

Train = Callable[[Kit], Trained]
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}
# The processes are children of a server that has imported all modules, so that each process starts fast.
PROCESSES = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Cell:
    """A trainer and a recipe."""

    package: str
    recipe: Recipe
    train: Train
    stock: Train  # The trainer or PyTorch's loop, with the same seed and data.
    line: str  # A user adds this line, if any, in addition to our optimizer and scaler.
    needs_line: bool  # If true, the cell never runs without the line.

    def __str__(self) -> str:
        return f"{self.package}, {self.recipe.name}"


class Outcome(NamedTuple):
    """The verdict on a cell, the difference from stock PyTorch, and the added line or the reason of a failure."""

    verdict: str  # This is "unchanged", "one line" or "no".
    difference: float
    why: str


CELLS: list[Cell] = []


def trainer(
    package: str,
    train: Train,
    stock: Train | None = None,
    *,
    line: str = "",
    needs_line: bool = False,
    recipes: Iterable[Recipe] = RECIPES,
) -> None:
    """Add a cell to ``CELLS`` for each recipe of a trainer."""
    CELLS.extend(Cell(package, recipe, train, stock or train, line, needs_line) for recipe in recipes)


def outcome(cell: Cell) -> Outcome:
    """Compare a cell with stock PyTorch, without and then with its line. Return the first match or the last outcome."""
    found = Outcome("no", float("nan"), "")
    for verdict in ["one line"] if cell.needs_line else ["unchanged", "one line"] if cell.line else ["unchanged"]:
        try:
            stock = trained(cell.stock, Kit(replace(cell.recipe, resume=0), ours=False, line=False, folder=Path()))
            ours = trained(cell.train, Kit(cell.recipe, ours=True, line=verdict == "one line", folder=Path()))
        except Exception as failure:  # The trainer may raise any error.
            found = Outcome("no", found.difference, f"{type(failure).__name__}: {failure}".splitlines()[0])
            continue
        differs = difference(ours, stock)
        why = mismatch(cell.recipe, ours, stock, differs)
        if not why:
            return Outcome(verdict, differs, cell.line if verdict == "one line" else "")
        found = Outcome("no", differs, why)
    return found


def difference(ours: Trained, stock: Trained) -> float:
    """Return the largest difference of the weights and losses, relative to the largest value of the same tensor."""
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


def mismatch(recipe: Recipe, ours: Trained, stock: Trained, differs: float) -> str:
    """Return the reason why a training run differs too much from stock PyTorch, or ""."""
    if ours.dtype != str(recipe.dtype):
        return f"the model ran in {ours.dtype}, not in {recipe.dtype}"
    if abs(ours.rate - stock.rate) > 1e-6 * stock.rate:
        return f"the learning rate ends at {ours.rate:.6g}, not at {stock.rate:.6g}"
    return "" if differs <= TOLERANCE[recipe.precision] else f"differs by {differs:.1e}"


@functools.cache
def trained(train: Train, kit: Kit) -> Trained:
    """Run a training function in a new process, and return its results. Equal arguments reuse the results."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, PROCESSES) as pool:
        # Tensors are pickled by value, because they outlive the process.
        done: Trained = pickle.loads(pool.submit(_alone, train, replace(kit, folder=Path(folder))).result())
        return done


def _alone(train: Train, kit: Kit) -> bytes:
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # This hides C++ output as well.
    if not kit.ours:
        polycast.uninstall()
    return pickle.dumps(train(kit))
