"""Trainers of other packages, each in a module of its own: polycast in a few lines over what the package makes public.

``import polycast`` imports none of them. ``accelerate`` and ``transformers`` are given the scaler, ``lightning`` a
precision plugin, and ``torchtitan`` what its checkpoints save.
"""
