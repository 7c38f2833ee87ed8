TORCH: str
SOURCES: str
LIKE: dict[str, str | None]
