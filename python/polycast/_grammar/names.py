"""Names of ops and overloads, as in "pow" and "pow.Scalar". The overload that torch calls "" is "default" here."""

DEFAULT = "default"


def join_name(op: str, overload: str | None) -> str:
    """Return the name of an overload. The default overload, or none, has the name of its op."""
    return op if overload in (None, DEFAULT) else f"{op}.{overload}"


def split_name(name: str) -> tuple[str, str | None]:
    """Return the op and the overload of a name that may mean all overloads of an op: None."""
    op, _, overload = name.partition(".")
    return op, overload or None


def split_overload(name: str) -> tuple[str, str]:
    """Return the op and the overload of a name that means one overload."""
    op, overload = split_name(name)
    return op, overload or DEFAULT
