"""A policy in a line."""

from collections import Counter

from polycast.policy.policy import Policy
from polycast.policy.rows import Casts

SHOWN = 3  # a policy of more ops is counted in a line


def summary(policy: Policy) -> str:
    """Return a policy in a line: each op, or of many ops how many have a category.

    Example:
        >>> import polycast
        >>> summary(polycast.Policy({"mm": "fp32", "softmax": {"cpu": "input_dtype"}}))
        'mm fp32, softmax input_dtype on cpu'
        >>> summary(polycast.Policy({"mm": "fp32", "bmm": "fp32", "sum": "fp32", "dot": "fp32"}))
        'fp32 for 4 ops'
    """
    rules = policy.rules
    if len(rules) > SHOWN:
        said = Counter(_category(value) for value in rules.values())
        return ", ".join(f"{category} for {count} ops" for category, count in said.most_common())
    return ", ".join(f"{op} {_text(value)}" for op, value in rules.items()) or "no rule"


def _category(value: Casts) -> str:
    values = {value} if isinstance(value, str) else {str(part) for part in value.values()}
    return values.pop() if len(values) == 1 else "by device"


def _text(value: Casts) -> str:
    return value if isinstance(value, str) else ", ".join(f"{part} on {device}" for device, part in value.items())
