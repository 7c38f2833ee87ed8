"""The errors that tests expect, with their full texts: one file for each folder of tests, ``errors.txt``.

``pytest --rewrite-errors FOLDER`` writes the errors that the tests of the folder raise. Read the diff before you commit
the file. For a text that depends on the PyTorch release, use ``pytest.raises(match=...)`` instead.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAME = "errors.txt"
_HEAD = re.compile(r"^# (test_\S+\.py::.*)$", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_NUMBER = re.compile(r" #\d+$")
_found: dict[Path, dict[str, str]] = {}  # The tests of this run raised these errors.
_ran: set[tuple[Path, str]] = set()  # These tests of this run expect errors.
deselected: list[pytest.Item] = []  # This run collected these tests and deselected them.


def read(path: Path) -> dict[str, str]:
    """Return the text of each error in a file, by the name of the test."""
    pieces = _HEAD.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
    return {name: text.strip("\n") for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


class RecordedError:
    """The recorded errors of one test. The second error is recorded as ``name #2``, and so on."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._path = request.path.with_name(NAME)
        self._name = f"{request.path.name}::{request.node.name}"
        self._rewrites = bool(request.config.getoption("rewrite_errors"))
        self._hidden = {str(Path(__file__).parents[2]): "."}
        if "tmp_path" in request.fixturenames:
            self._hidden = {str(request.getfixturevalue("tmp_path")): "TMP_PATH", **self._hidden}
        self._calls = Counter[str]()
        _ran.add((self._path, self._name))

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Assert that the block raises the error with the recorded type and text. ``--rewrite-errors`` records it."""
        self._calls[self._name] += 1
        number = self._calls[self._name]
        name = self._name if number == 1 else f"{self._name} #{number}"
        with pytest.raises(BaseException) as caught:  # The code below checks the type and the text.
            yield
        text = f"{type(caught.value).__name__}: {caught.value}"
        for hidden, shown in self._hidden.items():
            text = text.replace(hidden, shown)
        text = _ADDRESS.sub("0x...", text).strip("\n")
        if self._rewrites:
            _found.setdefault(self._path, {})[name] = text
            return
        recorded = read(self._path).get(name)
        assert recorded is not None, f"{self._path} has no error of {name}; run pytest --rewrite-errors"
        assert text == recorded


def rewrite(items: list[pytest.Item]) -> None:
    """Replace the errors of the tests that ran, and remove the errors of tests that no longer record errors.
    Other errors remain."""
    every = [(item.path.with_name(NAME), item) for item in (*items, *deselected)]
    files = {(path, item.path.name) for path, item in every}
    tests = {
        (path, f"{item.path.name}::{item.name}")
        for path, item in every
        if "recorded_error" in getattr(item, "fixturenames", ())
    }
    for path in {path for path, _ in every}:
        kept = {
            name: text
            for name, text in read(path).items()
            if ((path, file := name.partition("::")[0]) not in files and path.with_name(file).exists())
            or (path, _NUMBER.sub("", name)) in tests - _ran
        }
        if errors := kept | _found.get(path, {}):
            blocks = [f"# {name}\n{errors[name]}\n" for name in sorted(errors)]
            path.write_text("\n".join(blocks), encoding="utf-8")
        else:
            path.unlink(missing_ok=True)
