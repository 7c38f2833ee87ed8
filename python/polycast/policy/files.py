"""A reader of policy files, which are YAML without duplicate keys."""

import os
from pathlib import Path
from typing import Any

import yaml

from polycast.policy.errors import PolicyError, Problem


class _Loader(yaml.BaseLoader):  # `yaml.CBaseLoader` crashes if lists are nested too deeply
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            is_text = isinstance(key, yaml.ScalarNode)
            if not is_text or key.value in seen:
                duplicate = f"expected different keys, got '{key.value}' twice; remove one of the two"
                problem = duplicate if is_text else "expected a name as the key, got a list or a mapping; write a name"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        content: dict[Any, Any] = super().construct_mapping(node, deep)
        return content

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        """Return a scalar as a string; None for null or a missing value."""
        return None if node.style is None and node.value in ("", "~", "null") else super().construct_scalar(node)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the content of a YAML file.

    Raises:
        PolicyError: If the file cannot be read, is not valid YAML, or has a key that is a duplicate or not a string.
    """
    file, place = os.fspath(path), ""
    try:
        return yaml.load(Path(file).read_text(encoding="utf-8"), Loader=_Loader)
    except UnicodeDecodeError:
        what, remedy = "expected UTF-8 text, got other bytes", "save the file as UTF-8"
    except (OSError, ValueError) as error:
        cause = (getattr(error, "strerror", None) or str(error)).lower()
        what, remedy = f"the file cannot be read: {cause}", "name a readable file"
    except RecursionError:
        what, remedy = "the file is nested too deeply", "write rules as in {softmax: {cuda: fp32}}"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f"line {mark.line + 1}"
        parts = (getattr(error, part, None) for part in ("context", "problem"))
        what, _, remedy = (", ".join(filter(None, parts)) or str(error)).replace("\n", " ").partition("; ")
        if not remedy:  # this is a problem of PyYAML
            what, remedy = f"expected valid YAML, got an error: {what}", "correct this line"
    raise PolicyError([Problem(file, place, what, remedy)])
