"""Writes the generated files, or compares them with new texts."""

import difflib
from collections.abc import Iterator, Mapping
from errno import EEXIST, EISDIR, ENOENT
from pathlib import Path

# The first line of each generated file contains this mark. A file without it is never changed or removed.
MARK = b"codegen`. Do not edit."


def differences(files: Mapping[Path, str], folder: Path | None = None) -> str:
    """Return a unified diff from the content of files to new texts, or "" if they are equal.

    Args:
        files: The new text of each file.
        folder: The folder that contains these files and must contain no others, if there is one.

    Raises:
        OSError: If one of the files, or another file of the folder, is not generated.
    """
    stale = _stale(files, folder)
    return "".join(line for path in sorted({*files, *stale}) for line in _diff(path, files.get(path, ""), folder))


def write(files: Mapping[Path, str], folder: Path | None = None) -> tuple[list[Path], list[Path]]:
    """Write texts to files, and remove the other files of a folder. Return the written and the removed files.

    A file with the same text is not written again, so that the build does not recompile it.

    Args:
        files: The new text of each file.
        folder: The folder that contains these files and must contain no others, if there is one.

    Raises:
        OSError: If a file cannot be written, or exists and is not generated.
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
    """Return the other files of a folder. Raise OSError if one of them, or of these files, cannot be replaced."""
    present = sorted(path for path in folder.rglob("*") if path.is_file()) if folder is not None else []
    for path in [*present, *files]:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "Is a directory", str(path))
        if folder is None and not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "its folder does not exist; create it first", str(path))
        if path.is_file() and not _is_generated(path):
            raise OSError(EEXIST, "not a generated file; remove it, or name another file or folder", str(path))
    return [path for path in present if path not in files]


def _diff(path: Path, new: str, folder: Path | None) -> Iterator[str]:
    name = str(path if folder is None else path.relative_to(folder.parent))
    old = path.read_bytes().decode(errors="backslashreplace") if path.exists() else ""
    return difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name)


def _is_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK in file.readline(200)
