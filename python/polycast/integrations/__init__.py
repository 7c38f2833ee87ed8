"""Trainers of other packages, each in a module of its own: polycast in a few lines over what the package makes public.

``import polycast`` imports none of them. ``accelerate``, ``timm`` and ``transformers`` are given the scaler, ``timm``
also the optimizers, and ``lightning`` a precision plugin.
"""

__all__: list[str] = []
