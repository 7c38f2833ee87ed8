"""polycast in popular trainers: a table of trainers and recipes, compared with stock PyTorch.

``recipes`` defines the tasks, and ``cells`` the table and its processes. ``trainers`` has a module for each package.
``make ecosystem`` creates an environment with all packages and prints the table.
"""
