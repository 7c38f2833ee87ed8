"""Gradient scaling without host reads, for optimizers that skip by themselves.

``scaler`` has the gradient scaler; ``step`` how an optimizer is told to skip; ``visibility`` who can see gradients
within a step; ``record`` what was found in its gradients, and its skipped steps; ``clipping`` the norm of gradients;
``sharding`` what the ranks of a mesh agree on; ``schedule`` the learning rates that follow the steps that were taken.
"""
