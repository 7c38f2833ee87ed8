"""Files that a command writes at its end."""

import os
from pathlib import Path


def check_file(path: Path) -> None:
    """Raise for a file that could not be written later.

    Raises:
        ValueError: It is a folder, or in none, or may not be written.
    """
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise ValueError(f"{path} is a folder" if path.is_dir() else f"there is no folder for {path}")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{path} cannot be written; see its permissions")
