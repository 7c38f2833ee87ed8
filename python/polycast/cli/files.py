"""A check of the files that commands write."""

from pathlib import Path


def require_folder(file: Path) -> None:
    """Check that a file can be written, before the command computes the content.

    Raises:
        ValueError: If the file is a folder, or its folder does not exist.
    """
    if file.is_dir() or not file.parent.is_dir():
        reason = "it is a folder" if file.is_dir() else f"the folder '{file.parent}' does not exist"
        raise ValueError(f"'{file}' cannot be written, because {reason}; name another file")
