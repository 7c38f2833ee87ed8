"""Runs cells, each training in a process of its own: trainers keep state for the life of a process."""

import contextlib
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
from pathlib import Path
from typing import Any

import polycast
import torch

from tools.ecosystem.cells import Cell, Outcome, Train, mismatch
from tools.ecosystem.recipes import Kit, Trained

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
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_send, args=(sender, function, *arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(TIMEOUT):
            raise TrainingError(f"no end within {TIMEOUT} s")
        result, error = pickle.loads(receiver.recv_bytes())
    except EOFError:
        process.join()
        raise TrainingError(f"the process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if error:
        raise TrainingError(error)
    return result


def _send(sender: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    torch.set_num_threads(1)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
            message = function(*arguments), ""
    except Exception as error:
        if "ECOSYSTEM_TRACEBACKS" in os.environ:
            traceback.print_exc(file=sys.stderr)
        message = None, f"{type(error).__name__}: {error}".splitlines()[0]
    sender.send_bytes(pickle.dumps(message))  # by value: the tensors outlive this process


def _train(train: Train, kit: Kit) -> Trained:
    if not kit.ours:
        polycast.uninstall()
    return train(kit)
