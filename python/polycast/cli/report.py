"""What a report of a bug needs: versions, devices, kernels, policies, and the environment."""

from collections import Counter

import polycast
from polycast import backends
from polycast._compiled import DEVICES
from polycast._text_table import lines_of
from polycast.collect_env import facts
from polycast.policy.rules import BUILT_IN


def text() -> str:
    """Return the report."""
    return "\n".join([*lines_of([*facts().items()]), "", *lines_of(_devices())])


def _devices() -> list[tuple[str, ...]]:
    count = Counter(rule.device for rule in BUILT_IN)
    installed = polycast.installed()
    rows: list[tuple[str, ...]] = [("device", "dispatch key", "lower precision", "rules", "kernels")]
    for device in DEVICES.values():
        dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in device.lower_precision)
        state = "installed" if device.name in installed else _why_not(device.name)
        rows.append((device.name, device.dispatch_key, dtypes, str(count[device.name]), state))
    return rows


def _why_not(device: str) -> str:
    late = [package for package, types in backends.LATE.items() if backends.device_type_of(device) in types]
    return f"when {late[0]} is imported" if late else "on request"
