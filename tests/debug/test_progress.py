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
    with Progress("tune", total=4) as bar:
        bar.advance()
        bar.expect(3)
        bar.say("linear: taken back")
    return stream.getvalue()


def test_without_a_terminal_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO(), monkeypatch) == "tune: 1 runs of about 4, 0 s left\nlinear: taken back\n"


def test_without_tqdm_a_terminal_shows_lines_with_the_time_that_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert shown(Terminal(), monkeypatch) == "tune: 1 runs of about 4, 0 s left\nlinear: taken back\n"


def test_with_tqdm_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    text = shown(Terminal(), monkeypatch)
    assert "1/3" in text and "\nlinear: taken back\n" in text.replace("\r", "\n")


def test_a_program_without_standard_error_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("tune") as bar:
        bar.advance()
        bar.say("nobody reads it")
    assert bar.done == 1
