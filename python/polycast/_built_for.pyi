TORCH: str
SOURCES: str
