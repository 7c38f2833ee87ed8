"""Adapters for the trainers of other packages, each in a module of its own.

``import polycast`` imports none of them. ``accelerate``, ``timm`` and ``transformers`` use our scaler through them, and
``lightning`` has a precision plugin.
"""

__all__: list[str] = []
