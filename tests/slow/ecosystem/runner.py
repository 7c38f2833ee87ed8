"""Runs cells, each training in a process of its own: trainers keep state for the life of a process."""

import functools
import multiprocessing
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import polycast
import torch

from tests.slow.ecosystem.cells import Cell, Outcome, Train, mismatch
from tests.slow.ecosystem.recipes import Kit, Trained

TIMEOUT = 180
# Children of one server that has imported everything, so that each starts at once and none shares a process.
PROCESSES = multiprocessing.get_context("forkserver")


class TrainingError(Exception):
    """A training raised, crashed or hung; the text is its last line."""


def outcome(cell: Cell) -> Outcome:
    """Run a cell: beside stock with our parts alone, then with the one line, if it is needed."""
    differs, why = float("nan"), ""
    try:
        stock = trained(cell.beside, Kit(replace(cell.recipe, resume=0), ours=False, line=False, folder=Path()))
    except TrainingError as failure:
        return Outcome("no", differs, f"stock: {failure}")
    for verdict in ["one line"] if cell.needs_line else ["unchanged", "one line"] if cell.line else ["unchanged"]:
        try:
            ours = trained(cell.train, Kit(cell.recipe, ours=True, line=verdict == "one line", folder=Path()))
        except TrainingError as failure:
            why = str(failure)
            continue
        differs, why = mismatch(cell, ours, stock)
        if not why:
            return Outcome(verdict, differs, cell.line if verdict == "one line" else ours.notes)
    return Outcome("no", differs, why)


@functools.cache
def trained(train: Train, kit: Kit) -> Trained:
    with tempfile.TemporaryDirectory() as folder:
        result: Trained = in_process(_train, train, replace(kit, folder=Path(folder)))
        return result


def in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a fresh process, or raise TrainingError."""
    return Job(PROCESSES, function, *arguments).result()


class Job:
    """A function in a process that has been started."""

    def __init__(self, context: BaseContext, function: Callable[..., Any], *arguments: Any) -> None:
        self._receiver, sender = context.Pipe(duplex=False)
        make: Any = context
        self._process = make.Process(target=_send, args=(sender, function, *arguments))
        self._process.start()
        sender.close()

    def result(self) -> Any:
        """Wait; raise TrainingError where the function raised, or the process crashed or hung."""
        try:
            if not self._receiver.poll(TIMEOUT):
                raise TrainingError(f"no end within {TIMEOUT} s")
            result, error = pickle.loads(self._receiver.recv_bytes())
        except EOFError:
            self._process.join()
            raise TrainingError(f"the process ended with {self._process.exitcode}") from None
        finally:
            self._process.kill()
            self._process.join()
        if error:
            raise TrainingError(error)
        return result


def _send(sender: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what C++ prints, too
    try:
        message = function(*arguments), ""
    except Exception as error:
        if "ECOSYSTEM_TRACEBACKS" in os.environ:
            traceback.print_exc()
        message = None, f"{type(error).__name__}: {error}".splitlines()[0]
    sender.send_bytes(pickle.dumps(message))  # by value: the tensors outlive this process


def _train(train: Train, kit: Kit) -> Trained:
    if not kit.ours:
        polycast.uninstall()
    return train(kit)
