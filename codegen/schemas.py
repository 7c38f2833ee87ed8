"""The operator schemas of the installed torch, read from the file that its wheel packages, without importing torch."""

import re
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from torchgen.model import FunctionSchema

from codegen.versions import Release

_FUNC = re.compile(r"^- func: ((\w+)(?:\.(\w+))?\(.*)$", re.MULTILINE)


class Schemas:
    """The ATen schemas of one torch release. An op's overload without a name is called 'default'."""

    def __init__(self, text: str, release: Release) -> None:
        self.release = release
        self._schemas: dict[str, dict[str, str]] = {}
        self._parsed: dict[tuple[str, str], FunctionSchema] = {}
        for match in _FUNC.finditer(text):
            self._schemas.setdefault(match[2], {})[match[3] or "default"] = match[1]

    @classmethod
    def installed(cls) -> "Schemas":
        """Read the schemas of the torch that is installed beside this interpreter."""
        spec = find_spec("torchgen")
        assert spec is not None  # it is imported above
        assert spec.origin is not None
        packaged = Path(spec.origin).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
        major, minor = version("torch").split(".")[:2]
        return cls(packaged.read_text(encoding="utf-8"), (int(major), int(minor)))

    @cached_property
    def ops(self) -> list[str]:
        return sorted(self._schemas)

    def overloads(self, op: str) -> list[str]:
        """Return the names of an op's overloads, empty for an op that this torch does not have."""
        return list(self._schemas.get(op, ()))

    def find(self, op: str, overload: str) -> FunctionSchema:
        """Return the parsed schema of one overload; KeyError where this torch has none."""
        if (op, overload) not in self._parsed:
            self._parsed[op, overload] = FunctionSchema.parse(self._schemas[op][overload])
        return self._parsed[op, overload]
