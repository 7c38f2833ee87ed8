"""Gradient scaling without syncs, for optimizers that skip by themselves.

``grad_scaler`` has the gradient scaler, ``optimizer_state`` its state of each optimizer and its passes over gradients,
``meshes`` the reductions over ranks, and ``arguments`` checks. ``torch_foreach`` has the operators on devices without
kernels of ours. ``schedule`` has learning rates that do not advance at skipped steps.
"""
