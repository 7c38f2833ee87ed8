"""What a policy says: rules for ops, by category and device. Questions to the table that is registered."""

from typing import TYPE_CHECKING

from polycast._compiled import Row
from polycast._grammar.categories import UNLISTED
from polycast._pointers import getattr_of
from polycast.policy.queries import categories, category, devices, in_force, notes, op_rows, ops, resolved

__all__ = ["UNLISTED", "Row", "categories", "category", "devices", "in_force", "notes", "op_rows", "ops", "resolved"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or type checkers would take every name
    __getattr__ = getattr_of(__name__)
