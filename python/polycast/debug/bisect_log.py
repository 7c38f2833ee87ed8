"""The log of a bisection: a line of JSON for each run. A search is deterministic, so it continues by its log."""

import json
import os
import shlex
from collections import defaultdict, deque
from pathlib import Path
from typing import Any, NamedTuple

import torch


class Run(NamedTuple):
    """One run of the program under some rules."""

    status: int
    """0 for good; 125 if it cannot be tested; up to 127 for bad; 128 and the number of the signal that killed it."""
    seconds: float
    message: str
    """How it ended, with the end of its output."""


class Log:
    """The runs of a search, of this process and of earlier ones.

    Args:
        path: The file; None writes none. The runs of an existing file are replayed.
        search: The description of the search, as JSON. An existing file must have the same one.

    Raises:
        ValueError: If the file is not a log, or the log of another search.
        OSError: If the file cannot be written.
    """

    def __init__(self, path: Path | None, search: dict[str, Any]) -> None:
        self._path = path
        self._runs: defaultdict[str, deque[Run]] = defaultdict(deque)
        search |= {"torch": torch.__version__, "the folder": str(Path.cwd())}
        if path is None or not path.exists() or not path.stat().st_size:
            self._write(search)
            return
        before = self._read(path)
        different = [name for name in search if before.get(name) != search[name]]
        if different:
            what = [f"{name} is {_text(before.get(name))} there and {_text(search[name])} here" for name in different]
            raise ValueError(f"{path} is the log of another search: {'; '.join(what)}")
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)  # without a line that a killed process has not finished

    def _read(self, path: Path) -> dict[str, Any]:
        """Read the runs, and return the description of the search."""
        try:
            lines = path.read_text("utf-8").splitlines(keepends=True)
            search, *runs = [json.loads(line) for line in lines if line.endswith("\n")]
            for digest, *fields in runs:
                self._runs[digest].append(Run(*fields))
            return {**search}
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
        except (ValueError, TypeError):
            raise ValueError(f"{path} is not a log of polycast bisect; pass a file that it wrote") from None

    def replay(self, digest: str) -> Run | None:
        """Return the next run of the file under rules with a digest."""
        return self._runs[digest].popleft() if self._runs[digest] else None

    def add(self, digest: str, run: Run) -> Run:
        """Write a run, and return it."""
        self._write([digest, *run])
        return run

    def _write(self, line: object) -> None:
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:  # a full disk does not name the file
                raise OSError(error.errno, error.strerror, str(self._path)) from None


def _text(value: object) -> str:
    return shlex.join(value) if isinstance(value, list) else str(value)
