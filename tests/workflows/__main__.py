"""Prints the workflows of the documents beside the tests and examples that hold them: `python -m tests.workflows`."""

from tests.workflows.table import WORKFLOWS

for row in WORKFLOWS:
    print(" | ".join((row.document, row.section, row.test, row.example)))
