"""``python -m polycast``: its output and its errors."""

import platform
import re
from pathlib import Path

import polycast
import pytest
import torch
from polycast._extension import DEVICES
from polycast.cli.commands import main
from polycast.collect_env import report
from polycast.policy.rules import BUILT_IN, Rules

from tests.support.process import run_python

UNLISTED = "unlisted: autocast leaves the op alone; the ops that it runs follow their own rules."


def table(lines: list[str]) -> dict[str, list[str]]:
    """Return the cells of each line of a table, keyed by the line's first cell."""
    return {first: rest for first, *rest in (line.replace(", ", ",").split() for line in lines)}


def test_without_an_op_it_prints_the_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    facts, (_, *rows) = (part.splitlines() for part in capsys.readouterr().out.split("\n\n"))
    assert [*table(rows)] == [*DEVICES]
    for name, (key, dtypes, count, *kernels) in table(rows).items():
        assert key == DEVICES[name].dispatch_key
        assert [f"torch.{dtype}" for dtype in dtypes.split(",")] == [*map(str, DEVICES[name].lower_precision)]
        assert int(count) == sum(rule.device == name for rule in BUILT_IN)
        assert (kernels == ["installed"]) == (name in polycast.installed())
    told = {line[:13].strip(): line[15:] for line in facts}
    assert told["polycast"].startswith(f"{polycast.__version__}, built for torch ")
    assert told["torch"].startswith(torch.__version__)
    assert told["Python"] == f"{platform.python_version()}, {platform.platform()}"
    assert "cpu" in told["devices found"].split(", ")
    assert told["policy"] == "built-in"


def test_the_report_lists_the_environment_and_the_overriding_policies() -> None:
    with polycast.use("torch-2.11"):
        assert re.search(r"^policy         built-in, with other rules for \d+ ops$", report(), re.MULTILINE)
    told = run_python("-m", "polycast", POLYCAST_POLICY="torch-2.11", POLYCAST_INSTALL="0").stdout
    assert re.search(r"^policy         built-in$", told, re.MULTILINE)  # Without kernels, no rules apply.
    assert re.search(r"^environment    POLYCAST_INSTALL=0, POLYCAST_POLICY=torch-2.11$", told, re.MULTILINE)
    assert re.search(r"^cuda .* on request$", told, re.MULTILINE)


@pytest.mark.parametrize("op", ["Conv2d", "pow.Tensor_Scalar", "LSTM", "softmax"])
def test_an_op_is_printed_as_a_table_of_its_rules(op: str, capsys: pytest.CaptureFixture[str]) -> None:
    rules = polycast.policy.rules(op)
    assert main(["op", op]) == 0
    table, *notes = capsys.readouterr().out.split("\n\n")
    assert table.strip() == str(rules)
    everywhere = len(rules) == len(DEVICES) * len({rule.name for rule in rules})
    assert (f"On every other device it is {UNLISTED}" in "".join(notes)) != everywhere
    assert main(["op", op, "--device", "cuda"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(str(Rules(rule for rule in rules if rule.device == "cuda"))) and UNLISTED not in told


def test_an_op_that_no_device_lists_is_printed_without_and_with_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["torch.add"]) == 0
    assert capsys.readouterr().out == f"torch.add: unlisted on every device.\n\n{UNLISTED}\n"
    with polycast.use(polycast.Policy({"mul": "fp32"})):
        assert main(["mul"]) == 0
    assert "mul  all     fp32      Policy: mul" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("release", "category"), [("2.11", "unlisted"), ("2.12", "fp32")])
def test_an_op_is_printed_for_a_release(release: str, category: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["op", "rms_norm", "-d", "cuda", "--torch", release]) == 0
    first, *_ = capsys.readouterr().out.partition("\n\n")
    assert f" {category} " in f"{first} " and polycast.policy.category("rms_norm", "cuda", torch=release) == category


def test_all_problems_of_the_policy_in_the_environment_are_printed(tmp_path: Path) -> None:
    broken = tmp_path / "mine.yaml"
    broken.write_text("ops: {sofmax: fp32, relu: fp23}\n", encoding="utf-8")
    problems = (
        f"{broken}: ops.sofmax: expected an op, got 'sofmax'; did you mean 'softmax'?\n"
        f"{broken}: ops.relu: expected a category, or a dtype that a rule can cast to, got 'fp23'; did you mean "
        "'fp32'?\n"
    )
    imported = run_python("-c", "import polycast", POLYCAST_POLICY=str(broken))
    named = f"ImportError: POLYCAST_POLICY names {broken}, which cannot be used:\n{problems}"
    assert (imported.returncode, imported.stderr.count(named)) == (1, 1)
    command = run_python("-m", "polycast", "softmax", POLYCAST_POLICY=str(broken))
    assert (command.returncode, command.stderr) == (2, named.replace("ImportError", "error"))


def test_an_interrupt_prints_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> tuple[str, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr(polycast, "installed", interrupt)
    assert main([]) == 130
    assert capsys.readouterr() == ("", "")
