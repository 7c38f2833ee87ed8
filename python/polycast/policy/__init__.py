"""What a policy says: rules for ops, by category and device. Questions to the built-in one and to those in force."""

from polycast._grammar.categories import UNLISTED
from polycast.policy.queries import categories, category, devices, in_force, notes, ops, resolved, rules
from polycast.policy.rules import Rule

__all__ = ["UNLISTED", "Rule", "categories", "category", "devices", "in_force", "notes", "ops", "resolved", "rules"]


def __dir__() -> list[str]:
    return __all__
