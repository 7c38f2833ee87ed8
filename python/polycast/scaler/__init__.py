"""Gradient scaling without host reads, for optimizers that skip by themselves.

``scaler`` has the gradient scaler, ``arguments`` the checks of what it is given, and ``record`` what it knows of one
optimizer. ``clipping`` computes and clips the norm of gradients. ``sharding`` brings together what ranks find.
``visibility`` says who can see gradients within a step. ``wrapping`` unwraps optimizers. ``elsewhere`` has the
operators on devices without kernels of ours. ``schedule`` has learning rates that follow the steps that were taken.
"""
