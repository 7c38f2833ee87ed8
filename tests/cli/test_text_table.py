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
