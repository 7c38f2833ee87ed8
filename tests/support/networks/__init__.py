"""Small models with planted culprits, to try bisect on."""
