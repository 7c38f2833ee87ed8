"""The operator schemas of the installed PyTorch, read from files of its wheel without importing `torch`.

The recorded releases show which overloads PyTorch casts.
"""

import re
from collections.abc import Collection, Iterable
from importlib.metadata import version
from pathlib import Path

import torchgen
import yaml
from torchgen.model import BaseTy, BaseType, FunctionSchema, OptionalType, SchemaKind

from .categories import DEFAULT, FUNCTIONAL, VIEW, Signature, join_name
from .versions import Version
from .yaml_nodes import LOADER

RELEASES = Path(__file__).parents[1] / "python" / "polycast" / "policy" / "releases.yaml"

_FUNC = re.compile(r"^- func: ((\w+)(?:\.(\w+))?\(.*)$", re.MULTILINE)
_AUTOCAST_KEY = re.compile(r"^ *(Autocast\w+),", re.MULTILINE)


class Schemas:
    """The ATen schemas of one PyTorch release. The overload without a name is called "default"."""

    def __init__(
        self,
        text: str,
        release: Version,
        autocast_keys: Iterable[str] = (),
        cast_by_torch: Collection[str] = (),
        torch: object = None,
    ) -> None:
        self.release = release
        self._cast_by_torch = cast_by_torch
        self.torch = torch  # None means that `torch` is not imported
        self.autocast_keys = tuple(autocast_keys)
        self._schemas: dict[str, dict[str, str]] = {}
        self._parsed: dict[tuple[str, str], FunctionSchema] = {}
        for match in _FUNC.finditer(text):
            self._schemas.setdefault(match[2], {})[match[3] or DEFAULT] = match[1]
        self.ops = sorted(self._schemas)

    @classmethod
    def installed(cls, torch: object = None) -> "Schemas":
        """Read the schemas of the installed PyTorch, and the overloads that a recorded release casts.

        Args:
            torch: The `torch` module, if the caller has imported it, to check the public names of ops.
        """
        root = Path(torchgen.__file__).parent
        schemas = (root / "packaged" / "ATen" / "native" / "native_functions.yaml").read_text(encoding="utf-8")
        header = (root.parent / "torch" / "include" / "c10" / "core" / "DispatchKey.h").read_text(encoding="utf-8")
        records = yaml.load(RELEASES.read_text(encoding="utf-8"), Loader=LOADER).values()
        cast = {name for record in records for name, row in record.get("ops", {}).items() if isinstance(row, dict)}
        major, minor = version("torch").split(".")[:2]
        return cls(schemas, (int(major), int(minor)), _AUTOCAST_KEY.findall(header), cast, torch)

    def overloads(self, op: str) -> list[str]:
        """Return the names of an op's overloads. The list is empty if this release does not have the op."""
        return list(self._schemas.get(op, ()))

    def find(self, op: str, overload: str) -> FunctionSchema:
        """Return the parsed schema of one overload. Raise a ``KeyError`` if this release lacks it."""
        if (op, overload) not in self._parsed:
            self._parsed[op, overload] = FunctionSchema.parse(self._schemas[op][overload])
        return self._parsed[op, overload]

    def signature(self, op: str, overload: str) -> Signature:
        """Return the signature of one overload. Raise a ``KeyError`` if this release lacks it."""
        schema = self.find(op, overload)
        arguments = schema.arguments.flat_all
        dtype = BaseType(BaseTy.ScalarType)
        variant = schema.kind().name
        aliases = [argument.annotation for argument in arguments if argument.annotation is not None]
        if variant == FUNCTIONAL and any(annotation.is_write for annotation in aliases):  # `record_stream` has one.
            variant = SchemaKind.mutable.name
        elif variant == FUNCTIONAL and aliases and join_name(op, overload) not in self._cast_by_torch:
            variant = VIEW
        return Signature(
            variant,
            tuple(argument.name for argument in arguments),
            sum(2 if part.type.is_list_like() is not None else 1 for part in arguments if part.type.is_tensor_like()),
            any(argument.type == OptionalType(dtype) for argument in arguments),
            bool(arguments) and arguments[-1].type == dtype,
        )
