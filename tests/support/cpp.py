"""How torch compiles C++ extensions."""

import re
from pathlib import Path

EXTENSION = "torch/utils/cpp_extension.py"


def standard(headers: Path) -> str:
    """Return the C++ standard that torch compiles extensions with; `headers` is the folder that holds torch/."""
    match = re.search(r"common_cflags \+= \['-std=(c\+\+\d+)'", (headers / EXTENSION).read_text(encoding="utf-8"))
    assert match is not None, f"{EXTENSION} of torch {headers.name} does not say the C++ standard"
    return match[1]
