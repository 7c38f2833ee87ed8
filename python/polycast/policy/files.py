"""Files of rules: YAML, in which each key is there once."""

import os
from pathlib import Path
from typing import Any, NoReturn

import yaml

from polycast.policy.errors import PolicyError, Problem


class _Loader(yaml.SafeLoader):  # the one in C crashes where texts are nested too deep
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"duplicate key '{key.value}'", problem_mark=key.start_mark)
            seen.add(f"{key.value}")
        content: dict[Any, Any] = super().construct_mapping(node, deep)
        return content


def load(path: str | os.PathLike[str]) -> Any:
    """Return the content of a YAML file.

    Raises:
        PolicyError: The file cannot be read, or is no YAML.
    """
    file = os.fspath(path)

    def fail(place: str, what: str, remedy: str) -> NoReturn:
        raise PolicyError([Problem(file, place, what, remedy)]) from None

    try:
        return yaml.load(Path(file).read_text(encoding="utf-8"), Loader=_Loader)
    except UnicodeDecodeError:
        fail("", "not UTF-8 text", "save it as UTF-8")
    except (OSError, ValueError) as error:
        fail("", f"cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}", "name a readable file")
    except yaml.MarkedYAMLError as error:
        place = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}"
        fail(place, f"broken YAML: {error.problem or error.context}", "fix the syntax here")
    except yaml.YAMLError as error:
        fail("", f"broken YAML: {error}".replace("\n", " "), "remove the character")


def save(content: object, path: str | os.PathLike[str]) -> None:
    """Write a value to a YAML file."""
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    Path(path).write_text(text, encoding="utf-8")
