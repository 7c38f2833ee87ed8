"""The errors of the commands; ``errors.txt`` has the status and the last line of each command."""

import shlex
import sys
from pathlib import Path

import pytest
from polycast.cli.commands import main

from tests.support.recorded_errors import RecordedError

# The current folder contains `FOLDER`, `BINARY`, `SCRIPT` and `RULES`.
WRONG = """
op / op --nonsense / op "" / softmax --device nowhere / softmax --device / diff / diff --nonsense / diff a b c / -x
diff FOLDER torch-2.11 / diff BINARY torch-2.11 / diff built-in built-in --device nowhere
trace / trace --nonsense / trace scirpt.py / trace FOLDER / trace -m no.such.module / trace -m SCRIPT
check / check --nonsense / check "" / check FOLDER / check BINARY / verify rulez / verify --devcie cuda
verify --device gpu / verify cuda / --verison / help
bisect --repeat 3 / bisect --godo fp32 -- true / bisect --repeat 0 -- true / bisect --good nonsense -- true
bisect --good BINARY -- true / bisect -- FOLDER / bisect -- no-such-program / bisect no-such-program / bisct -- true
trase x.py / softmx / bisect -- "" / bisect --output FOLDER -- true / bisect --output FOLDER/no/rules.yaml -- true
"""


@pytest.mark.parametrize("typed", WRONG.strip().replace("\n", " / ").split(" / "))
def test_a_usage_error_prints_one_line_and_writes_nothing(
    typed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    recorded_error: RecordedError,
) -> None:
    """A wrong command prints one line without a traceback, because ``main`` raises only ``SystemExit``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", sys.argv)
    Path("FOLDER").mkdir()
    Path("BINARY").write_bytes(bytes(range(256)))
    Path("SCRIPT").write_text("print('it runs')\n")
    Path("RULES").write_text("ops: {softmax: fp32}\n")
    with recorded_error():
        try:
            status = main(shlex.split(typed))
        except SystemExit as end:
            status = int(str(end.code))
        printed, said = capfd.readouterr()
        assert printed == ""
        raise ValueError(f"status {status}: {said.splitlines()[-1]}")
    assert {path.name for path in Path().iterdir()} == {"FOLDER", "BINARY", "SCRIPT", "RULES"}
    assert Path("RULES").read_text() == "ops: {softmax: fp32}\n"
