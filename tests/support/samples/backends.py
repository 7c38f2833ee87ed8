"""The autocast registrations of backends outside of PyTorch: ``backends.yaml``."""

from pathlib import Path

import yaml


def _lists() -> dict[str, dict[str, list[str]]]:
    """Return the overloads of each device by category, with the overloads of the device in its ``like``."""
    found: dict[str, dict[str, list[str]]] = {}
    for device, lists in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).items():
        like = found.get(lists.pop("like", ""), {})
        own = {category: names.split() for category, names in lists.items()}
        found[device] = {name: [*like.get(name, ()), *own.get(name, ())] for name in {**like, **own}}
    return found


LISTS = _lists()
