"""Progress on the standard error: a bar on a terminal, or lines."""

import io
import sys

import pytest
from polycast.debug import progress
from polycast.debug.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    with Progress("bisect") as bar:
        bar.advance()
        bar.say("good: linear")
    return stream.getvalue()


def test_without_a_terminal_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO(), monkeypatch) == "bisect: 1 runs\ngood: linear\n"


def test_without_tqdm_a_terminal_shows_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert shown(Terminal(), monkeypatch) == "bisect: 1 runs\ngood: linear\n"


def test_with_tqdm_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    text = shown(Terminal(), monkeypatch)
    assert "1run" in text and "\ngood: linear\n" in text.replace("\r", "\n")


def test_a_program_without_standard_error_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("bisect") as bar:
        bar.advance()
        bar.say("nobody reads it")
    assert bar.done == 1
