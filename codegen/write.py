"""Writes texts to a folder, all or none, or compares them with it."""

import difflib
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EEXIST, EISDIR
from pathlib import Path

# The first line of each generated file contains this. A file without it is never changed or removed.
MARK = b"Generated from policy.yaml by `python -m codegen`. Do not edit."


def differences(files: dict[str, str], folder: Path) -> str:
    """Return a unified diff from the folder to `files`, or "" if they are equal.

    Raises:
        OSError: The folder holds a file that is not generated.
    """
    present = _present(folder)
    lines: list[str] = []
    for name in sorted(present | files.keys()):
        old = (folder / name).read_bytes().decode(errors="backslashreplace") if name in present else ""
        new = files.get(name, "")
        path = f"{folder.name}/{name}"
        lines += difflib.unified_diff(old.splitlines(True), new.splitlines(True), path, path)
    return "".join(lines)


def write(files: dict[str, str], folder: Path) -> tuple[list[str], list[str]]:
    """Make the folder hold `files` and nothing else. Return the names of the files written, and of those removed.

    The files are first written to a staging folder inside it, then renamed into place. Ctrl-C takes effect before or
    after the renames. So an error or an interrupt leaves the folder as it was. An unchanged file keeps its time stamp,
    so nothing that depends on it is rebuilt.

    Raises:
        OSError: The folder cannot be written, or holds a file that is not generated.
    """
    present = _present(folder)
    changed = [name for name, text in files.items() if not _holds(folder / name, text)]
    stale = present - files.keys()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".codegen-", dir=folder) as staging:
        staged = {name: Path(staging) / str(index) for index, name in enumerate(changed)}
        for name, path in staged.items():
            path.write_text(files[name], encoding="utf-8")
            path.chmod(0o644)
        with _interrupts_held_back():
            for path in [folder / name for name in changed]:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    raise IsADirectoryError(EISDIR, "Is a directory", str(path))
            for name, path in staged.items():
                path.replace(folder / name)
            for name in stale:
                (folder / name).unlink()
    return sorted(changed), sorted(stale)


def _present(folder: Path) -> set[str]:
    """Return the names of the files in a folder. Raise OSError if one of them is not generated."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        with path.open("rb") as file:
            if MARK not in file.readline(200):
                raise OSError(EEXIST, "is not generated, and only generated files may lie in this folder", str(path))
    return {path.relative_to(folder).as_posix() for path in files}


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    # A signal mask would hold for this thread only, and the signal would be delivered to another.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for received_number in received[:1]:
            signal.raise_signal(received_number)
