"""Dtypes as people write them: the one table of their spellings."""

# The floating-point dtypes that ops are cast to, each with the other names that torch and trainers' switches have.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "float16": ("fp16", "f16", "half"),
    "bfloat16": ("bf16",),
    "float32": ("fp32", "f32", "float", "single"),
    "float64": ("fp64", "f64", "double"),
}
# From each spelling to torch's name.
NAMES = {spelling: name for name, spellings in SPELLINGS.items() for spelling in (name, *spellings)}


def plain(text: str) -> str:
    """Return the name of a dtype in lower case, without the module that it is in."""
    return text.strip().lower().removeprefix("torch.")


def dtype_named(text: str) -> str | None:
    """Return torch's name of the floating-point dtype that a text spells; None if it spells none of them.

    Example:
        >>> from polycast._grammar.dtypes import dtype_named
        >>> dtype_named("bf16"), dtype_named("torch.half"), dtype_named("int8")
        ('bfloat16', 'float16', None)
    """
    return NAMES.get(plain(text))
