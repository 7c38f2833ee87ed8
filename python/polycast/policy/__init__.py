"""What a policy says: rules for ops, by category and device. Questions to the table that is registered."""

from polycast._compiled import Row
from polycast._grammar.categories import UNLISTED
from polycast.policy.queries import categories, category, devices, in_force, notes, op_rows, ops, resolved

__all__ = ["UNLISTED", "Row", "categories", "category", "devices", "in_force", "notes", "op_rows", "ops", "resolved"]


def __dir__() -> list[str]:
    return __all__
