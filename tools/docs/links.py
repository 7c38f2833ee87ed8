"""The links of a site within it: pages and files, and places in pages."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The places in a page, and its links with their lines."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = {"", "top"}
        self.links: list[tuple[int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        for name, value in attrs:
            if name == "id":
                self.places.add(value or "")
            elif name in ("href", "src") and value is not None:
                self.links.append((self.getpos()[0], value))


def check(folder: Path) -> tuple[int, list[str]]:
    """Return how many links a site has within it, and those that are broken, as in "ops/mm.html:12: no page x.html"."""
    read: dict[Path, _Page] = {}
    for path in folder.rglob("*.html"):
        page = read[path.resolve()] = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    count, broken = 0, []
    for path, page in read.items():
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place, name = f"{path.relative_to(folder.resolve())}:{line}", unquote(parts.fragment)
            if not target.exists():
                broken.append(f"{place}: there is no {link}")
            elif target in read and name not in read[target].places:
                broken.append(f"{place}: there is no place '{name}' in {parts.path or 'the page'}")
    return count, broken
