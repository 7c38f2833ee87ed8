"""The recorded releases, as the package ships them."""

import re
from functools import cache
from pathlib import Path

from polycast_grammar.errors import Location, PolicyError, Problem
from polycast_grammar.history import Record, number_of, read_history
from polycast_grammar.versions import VersionRange

RECORDED = Path(__file__).parent / "releases"
_RELEASE = re.compile(r"(?:torch[-_ ]?)?(\d+)(?:\.(\d+))?[\w.+]*", re.ASCII | re.IGNORECASE)


@cache
def history() -> dict[str, Record]:
    """Return the records by their names, in the order of the releases.

    Example:
        >>> from polycast.policy.records import history
        >>> history()["torch-2.12"].category("rms_norm", "default", "cuda")
        'fp32'
    """
    return read_history(RECORDED)


def is_release(name: str) -> bool:
    """Return whether a text names a release of torch, recorded or not; the name of a file has a suffix.

    Example:
        >>> from polycast.policy.records import is_release
        >>> is_release("torch-2.11"), is_release("torch-2.11.yaml")
        (True, False)
    """
    return _RELEASE.fullmatch(name) is not None and not name.endswith((".yaml", ".yml"))


def releases_with(op: str, overload: str | None) -> VersionRange | None:
    """Return the releases that have an op, or an overload of it, of those that some release has not; None for others.

    Example:
        >>> from polycast.policy.records import releases_with
        >>> str(releases_with("cholesky", None)), releases_with("softmax", "int")
        ('<2.14', None)
    """
    absent = [
        record.number
        for record in history().values()
        for name, part in record.absent
        if name == op and overload in (None, part)
    ]
    present = [record.number for record in history().values() if record.number not in absent]
    if not absent or not present:
        return None
    first = min(present) if min(absent) < min(present) else None
    return VersionRange(first, min((number for number in absent if number > max(present)), default=None))


def find(name: str) -> Record:
    """Return the record of a release.

    Raises:
        PolicyError: There is none; the message lists those there are.
    """
    if name in history():
        return history()[name]
    match = _RELEASE.fullmatch(name)
    major, minor = (int(part or 0) for part in match.groups()) if match else (0, 0)

    def distance(other: str) -> int:
        return abs((major - number_of(other)[0]) * 1000 + minor - number_of(other)[1])

    nearest = min(history(), key=distance)
    what = f"no release of that name is recorded, only {', '.join(history())}"
    raise PolicyError([Problem(Location("history", 1, 1, name), what, f"the nearest is {nearest}")])
