"""Gradient scaling without device syncs, for optimizers that skip steps on the device.

``grad_scaler`` has the gradient scaler, and ``optimizer_state`` the scaler's state of each optimizer and its passes
over gradients. ``meshes`` has the reductions over ranks, and ``arguments`` the checks of numbers. ``torch_foreach`` has
the operators for devices without kernels of polycast. ``schedule`` has schedules that do not advance in skipped steps.
"""
