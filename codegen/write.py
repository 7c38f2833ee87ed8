"""Writes texts to files, or compares them."""

import difflib
from collections.abc import Iterator, Mapping
from errno import EEXIST, EISDIR, ENOENT
from pathlib import Path

# The first line of each generated file contains this. A file without it is never changed or removed.
MARK = b"codegen`. Do not edit."


def differences(files: Mapping[Path, str], folder: Path | None = None) -> str:
    """Return a unified diff from the files to the texts that they should hold, or "" if they are equal.

    Raises:
        OSError: One of them, or another file of the folder that they fill, is not generated.
    """
    stale = _stale(files, folder)
    return "".join(line for path in sorted({*files, *stale}) for line in _diff(path, files.get(path, ""), folder))


def write(files: Mapping[Path, str], folder: Path | None = None) -> tuple[list[Path], list[Path]]:
    """Have files hold these texts, and a folder hold no other files. Return the files written and those removed.

    An unchanged file keeps its time stamp, so nothing that depends on it is rebuilt.

    Raises:
        OSError: A file cannot be written, or is there and not generated.
    """
    stale = _stale(files, folder)
    changed = [path for path, text in files.items() if not (path.is_file() and path.read_bytes() == text.encode())]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8", newline="")
    for path in stale:
        path.unlink()
    return sorted(changed), stale


def _stale(files: Mapping[Path, str], folder: Path | None) -> list[Path]:
    """Return the files of a folder that are not among these. Raise OSError if one of all cannot be replaced."""
    present = sorted(path for path in folder.rglob("*") if path.is_file()) if folder is not None else []
    for path in [*present, *files]:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "Is a directory", str(path))
        if folder is None and not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "its folder does not exist", str(path))
        if path.is_file() and not _is_generated(path):
            raise OSError(EEXIST, "is not generated; remove it, or name another file or folder", str(path))
    return [path for path in present if path not in files]


def _diff(path: Path, new: str, folder: Path | None) -> Iterator[str]:
    name = str(path if folder is None else path.relative_to(folder.parent))
    old = path.read_bytes().decode(errors="backslashreplace") if path.exists() else ""
    return difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name)


def _is_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK in file.readline(200)
