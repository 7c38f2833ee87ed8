"""Policy files: YAML in which no key is a duplicate."""

import os
from pathlib import Path
from typing import Any

import yaml

from polycast.policy.errors import PolicyError, Problem


class _Loader(yaml.SafeLoader):  # yaml.CSafeLoader crashes where lists are nested too deep
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            is_text = isinstance(key, yaml.ScalarNode)
            if not is_text or key.value in seen:
                duplicate = f"duplicate key '{key.value}'; remove one of the two"
                problem = duplicate if is_text else "a key that is not text; write a name as the key"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        content: dict[Any, Any] = super().construct_mapping(node, deep)
        return content


def load(path: str | os.PathLike[str]) -> Any:
    """Return the content of a YAML file.

    Raises:
        PolicyError: If the file cannot be read, or is not valid YAML.
    """
    file, place = os.fspath(path), ""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        what, remedy = "not UTF-8 text", "save it as UTF-8"
    except (OSError, ValueError) as error:
        cause = (getattr(error, "strerror", None) or str(error)).lower()
        what, remedy = f"cannot be read: {cause}", "name a readable file"
    else:
        try:
            return yaml.load(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            place = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}"
            what, _, remedy = f"not valid YAML: {error.problem or error.context}".partition("; ")
            remedy = remedy or "correct this line or its indentation"
        except RecursionError:
            what, remedy = "nested too deep", "write rules as in {softmax: {cuda: fp32}}"
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
            # PyYAML raises built-in errors for values such as 2026-99-99, which it reads as a date.
            what = f"not valid YAML: {error}".replace("\n", " ")
            remedy = "write names, categories and dtypes as plain text"
    raise PolicyError([Problem(file, place, what, remedy)])


def save(content: object, path: str | os.PathLike[str]) -> None:
    """Write a value to a YAML file."""
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    Path(path).write_text(text, encoding="utf-8")
