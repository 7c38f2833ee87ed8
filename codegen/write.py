"""The generated files on disk, which are written or compared with new texts."""

import difflib
from collections.abc import Mapping
from errno import EEXIST, EISDIR, ENOENT
from pathlib import Path

# The first line of each generated file contains this mark. The generator never changes other files.
MARK = b"codegen`. Do not edit."


def changes(files: Mapping[Path, str], folder: Path | None = None) -> dict[Path, str | None]:
    """Return the new text of each file that differs, and None for each file to remove.

    A file whose text does not change is omitted, so that the build does not recompile it.

    Args:
        files: The new text of each file.
        folder: The folder of the files, if it must not contain other files.

    Raises:
        OSError: If a path is a folder or a file that was not generated. If its parent is missing, and `folder` is None.
    """
    present = [path for path in folder.rglob("*") if path.is_file()] if folder is not None else []
    for path in [*sorted(present), *files]:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "expected a file, got a folder; remove it, or name another file", str(path))
        if folder is None and not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "its folder does not exist; create it first", str(path))
        if path.is_file() and MARK not in path.read_bytes().partition(b"\n")[0]:
            raise OSError(EEXIST, "this is not a generated file; remove it, or name another file or folder", str(path))
    changed = {path: text for path, text in files.items() if not path.is_file() or path.read_bytes() != text.encode()}
    return {path: changed.get(path) for path in sorted({*changed, *present} - (files.keys() - changed.keys()))}


def differences(changed: Mapping[Path, str | None], folder: Path | None = None) -> str:
    """Return the changes as a unified diff, in which file names begin with the folder's name, if there is one."""
    lines: list[str] = []
    for path, text in changed.items():
        name = str(path if folder is None else path.relative_to(folder.parent))
        old = path.read_bytes().decode(errors="backslashreplace") if path.exists() else ""
        lines += difflib.unified_diff(old.splitlines(True), (text or "").splitlines(True), name, name)
    return "".join(lines)


def write(changed: Mapping[Path, str | None]) -> None:
    """Write the new texts, and remove the files whose text is None."""
    for path, text in changed.items():
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
