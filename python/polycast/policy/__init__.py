"""Queries of the built-in policy and of the active policies."""

from polycast.policy.categories import UNLISTED
from polycast.policy.query import categories, category, current, devices, resolved, rules
from polycast.policy.rules import Rule

__all__ = ["UNLISTED", "Rule", "categories", "category", "current", "devices", "resolved", "rules"]


def __dir__() -> list[str]:
    return __all__
