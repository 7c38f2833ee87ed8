"""A search for a better policy, with the evidence for it."""
