"""Gradient scaling without syncs, for optimizers that skip by themselves.

``scaler`` has the gradient scaler, over ``stepping``, a gradient's way through a step, and ``recording``, which keeps
what ``record`` knows of each optimizer. ``arguments`` checks what it is given. ``findings`` says what checks of
gradients find, ``clipping`` clips the norm, ``sharding`` brings together what ranks find, ``visibility`` says who can
see gradients within a step, and ``wrapping`` unwraps optimizers. ``torch_foreach`` has the operators on devices without
kernels of ours. ``schedule`` has learning rates that do not advance at skipped steps.
"""
