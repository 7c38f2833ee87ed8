"""Whether polycast keeps its promises on a device that is here; each module imports only those above it.

Nothing in it needs more than torch, so an installed wheel runs it.
"""
