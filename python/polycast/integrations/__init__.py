"""Adapters for the trainers of other packages, each in a module of its own.

``import polycast`` imports none of these modules. The modules ``accelerate``, ``timm`` and ``transformers`` set our
scaler in a trainer, and ``lightning`` has a precision plugin.
"""

__all__: list[str] = []
