"""Writes texts to a folder or to single files, all or none, or compares them."""

import difflib
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import EEXIST, EISDIR, ENOENT
from pathlib import Path

# The first line of each generated file contains this. A file without it is never changed or removed.
MARK = b"codegen`. Do not edit."


def differences(files: dict[str, str], folder: Path) -> str:
    """Return a unified diff from the folder to `files`, or "" if they are equal.

    Raises:
        OSError: The folder holds a file that is not generated.
    """
    present = _present(folder)
    names = sorted(present | files.keys())
    return "".join(
        line for name in names for line in _diff(folder / name, files.get(name, ""), f"{folder.name}/{name}")
    )


def differences_of(files: dict[Path, str]) -> str:
    """Return a unified diff from single files to what they should hold, or "" if they hold it.

    For a file that does not exist there is a line instead.

    Raises:
        OSError: One of them is not generated.
    """
    for path in files:
        _check(path)
    missing = "".join(f"{path} does not exist\n" for path in files if not path.exists())
    return missing + "".join(
        line for path, text in files.items() if path.exists() for line in _diff(path, text, str(path))
    )


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
    _replace({folder / name: (files[name], folder) for name in changed}, [folder / name for name in stale])
    return sorted(changed), sorted(stale)


def write_single(files: dict[Path, str]) -> list[Path]:
    """Write files into folders that may hold others, all or none, as `write` does. Return those that changed.

    Raises:
        OSError: One of them cannot be written, or is there and not generated.
    """
    for path in files:
        _check(path)
    changed = [path for path, text in files.items() if not _holds(path, text)]
    _replace({path: (files[path], path.parent) for path in changed}, [])
    return changed


def _replace(files: dict[Path, tuple[str, Path]], stale: list[Path]) -> None:
    """Write texts, each by way of a staging folder in a folder of its file system, and remove the stale files."""
    with ExitStack() as stack:
        folders = dict.fromkeys(folder for _, folder in files.values())
        staging = {at: stack.enter_context(tempfile.TemporaryDirectory(prefix=".codegen-", dir=at)) for at in folders}
        staged = {path: Path(staging[folder]) / str(index) for index, (path, (_, folder)) in enumerate(files.items())}
        for path, place in staged.items():
            place.write_text(files[path][0], encoding="utf-8")
            place.chmod(0o644)
        with _interrupts_held_back():
            for path in files:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    raise IsADirectoryError(EISDIR, "Is a directory", str(path))
            for path, place in staged.items():
                place.replace(path)
            for path in stale:
                path.unlink()


def _present(folder: Path) -> set[str]:
    """Return the names of the files in a folder. Raise OSError if one of them is not generated."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        if not _is_generated(path):
            raise OSError(EEXIST, "is not generated, and only generated files may lie in this folder", str(path))
    return {path.relative_to(folder).as_posix() for path in files}


def _diff(path: Path, new: str, name: str) -> Iterator[str]:
    old = path.read_bytes().decode(errors="backslashreplace") if path.exists() else ""
    return difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name)


def _check(path: Path) -> None:
    """Raise OSError if a single file has no folder, or is there and not generated."""
    if not path.parent.is_dir():
        raise FileNotFoundError(ENOENT, "its folder does not exist", str(path))
    if path.exists() and not _is_generated(path):
        raise OSError(EEXIST, "is not generated; remove it, or name another file", str(path))


def _is_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK in file.readline(200)


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
