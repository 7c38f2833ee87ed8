"""Checks of built-in rules and sync-free steps on a device. An installed wheel can run them."""
