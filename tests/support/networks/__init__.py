"""Small real networks to try bisect and tune on: trainings that work, broken ones, and models with planted culprits."""
