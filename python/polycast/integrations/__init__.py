"""Trainers of other packages, each in a module of its own: polycast in a few lines over what the package makes public.

``import polycast`` imports none of them. ``accelerate``, ``timm`` and ``transformers`` are given the scaler, ``timm``
the optimizers too, ``lightning`` a precision plugin, and ``torchtitan`` what its checkpoints save.
"""

from typing import TYPE_CHECKING

from polycast._pointers import getattr_of

__all__: list[str] = []

if not TYPE_CHECKING:  # or type checkers would take every name
    __getattr__ = getattr_of(__name__)
