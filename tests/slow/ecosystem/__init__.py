"""The package in the trainers that people use: a table of trainers and recipes, compared with PyTorch.

``recipes`` has what is trained and how, ``cells`` the table and the processes it runs in, and ``trainers`` one module
for each package. `make ecosystem` makes an environment of them all and prints the table.
"""
