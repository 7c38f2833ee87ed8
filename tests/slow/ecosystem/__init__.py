"""The package in popular trainers: a table of trainers and recipes, compared with PyTorch.

``recipes`` defines the tasks, ``cells`` the table and its processes, and ``trainers`` has one module for each package.
`make ecosystem` creates an environment with all packages and prints the table.
"""
