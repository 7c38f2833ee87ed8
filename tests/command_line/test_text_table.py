"""Tables fit the terminal: cells wrap, then columns go below."""

import pytest
from polycast._text_table import lines_of, width_of

ROWS = [("op", "category", "devices"), ("conv2d", "fp32", "cpu, cuda, xpu"), ("層正規化", "bf16", "é\u0301")]
# The width of the terminal, and the lines.
FITTED = {
    30: """
op        category  devices
conv2d    fp32      cpu, cuda,
                    xpu
層正規化  bf16      éé
""",
    20: """
op        category
conv2d    fp32
層正規化  bf16

op        devices
conv2d    cpu, cuda,
          xpu
層正規化  éé
""",
    10: """
op    cate
      gory
conv  fp32
2d
層正  bf16
規化

op    devi
      ces
conv  cpu,
2d    cuda
      ,
      xpu
層正  éé
規化
""",
}


@pytest.mark.parametrize("width", FITTED)
def test_a_table_is_no_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = lines_of(ROWS)
    assert "\n".join(lines).replace("e\u0301", "é").replace("é\u0301", "éé") == FITTED[width].strip("\n")
    assert all(width_of(line) <= width for line in lines)


def test_a_terminal_of_one_column_shows_every_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    letters = "".join("".join(row) for row in ROWS[:2])
    assert set("".join(lines_of(ROWS[:2])).replace(" ", "")) == set(letters.replace(" ", ""))
