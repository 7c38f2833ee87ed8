"""The writing of generated files, which changes neither current files nor files that codegen did not generate."""

import os
from pathlib import Path

import pytest

from codegen import write as writing
from codegen.write import MARK

HEAD = f"# {MARK.decode()}\n"
OLD = {"a.txt": HEAD + "one\ntwo\n", "deep/b.txt": HEAD + "é\n", "deep/stale.txt": HEAD + "old\n"}
NEW = {"a.txt": HEAD + "one\ntwo\n", "deep/b.txt": HEAD + "é\r\nnew\n", "new/c.txt": HEAD + "more\n"}


def write(files: dict[str, str], folder: Path) -> tuple[list[str], list[str]]:
    """Write files, and return the names of the written and the removed files."""
    changed = writing.changes({folder / name: text for name, text in files.items()}, folder)
    writing.write(changed)
    names = [[str(path.relative_to(folder)) for path in changed if (changed[path] is None) == gone] for gone in (0, 1)]
    return names[0], names[1]


def differences(files: dict[str, str], folder: Path) -> str:
    changed = writing.changes({folder / name: text for name, text in files.items()}, folder)
    return writing.differences(changed, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a generated folder whose files have old modification times."""
    write(OLD, tmp_path / "generated")
    for path in (tmp_path / "generated").rglob("*"):
        os.utime(path, ns=(1, 1))
    return tmp_path / "generated"


def _content(folder: Path) -> dict[str, bytes | None]:
    """Return the bytes of each file in a folder, and None for each of its folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def _bytes(files: dict[str, str]) -> dict[str, bytes | None]:
    folders: dict[str, bytes | None] = {name.split("/")[0]: None for name in files if "/" in name}
    return {**folders, **{name: text.encode() for name, text in files.items()}}


def test_changed_files_are_written_stale_ones_removed_and_unchanged_ones_keep_their_time(folder: Path) -> None:
    assert write(OLD, folder) == ([], [])
    assert write(NEW, folder) == (["deep/b.txt", "new/c.txt"], ["deep/stale.txt"])
    assert _content(folder) == _bytes(NEW)
    assert [name for name in NEW if (folder / name).stat().st_mtime_ns == 1] == ["a.txt"]
    assert differences(NEW, folder) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [("notes.txt", ""), ("deep/.hidden", f"Mine.\n{HEAD}"), ("a.txt", "mine\n")],
    ids=["an empty file", "a mark below the first line", "a replaced file"],
)
def test_a_folder_with_a_foreign_file_is_not_changed(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    before = _content(folder)
    for function in (write, differences):
        with pytest.raises(FileExistsError, match=f"not a generated file; .*: '{folder / name}'$"):
            function(NEW, folder)
    assert _content(folder) == before


def test_a_file_in_the_path_of_a_folder_or_a_folder_in_the_path_of_a_file_is_not_changed(folder: Path) -> None:
    with pytest.raises(FileExistsError, match=r"\[Errno 17\] File exists"):
        write(NEW, folder / "a.txt")
    with pytest.raises(IsADirectoryError, match=r"\[Errno 21\] expected a file, got a folder; .*: '.*/deep'"):
        write({"a.txt": HEAD, "deep": HEAD}, folder)
    assert _content(folder) == _bytes(OLD)


# Each case has a file's old and new text below the mark, and the diff below its two header lines.
DIFFERENCES: dict[str, tuple[bytes | None, str | None, str]] = {
    "no difference": (b"one\n", "one\n", ""),
    "a line": (b"one\ntwo\nthree\n", "one\n2\nthree\n", f"@@ -1,4 +1,4 @@\n {HEAD} one\n-two\n+2\n three\n"),
    "a new file": (None, "one\n", f"@@ -0,0 +1,2 @@\n+{HEAD}+one\n"),
    "a stale file": (b"one\n", None, f"@@ -1,2 +0,0 @@\n-{HEAD}-one\n"),
    "line ends": (b"one\r\n", "one\n", f"@@ -1,2 +1,2 @@\n {HEAD}-one\r\n+one\n"),
    "not UTF-8": (b"\xff\n", None, f"@@ -1,2 +0,0 @@\n-{HEAD}-\\xff\n"),
}


@pytest.mark.parametrize(("old", "new", "expected"), DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_the_difference_of_a_file_is_a_unified_diff(
    tmp_path: Path, old: bytes | None, new: str | None, expected: str
) -> None:
    folder = tmp_path / "generated"
    if old is not None:
        folder.mkdir()
        (folder / "f").write_bytes(HEAD.encode() + old)
    names = "--- generated/f\n+++ generated/f\n" if expected else ""
    assert differences({} if new is None else {"f": HEAD + new}, folder) == names + expected
