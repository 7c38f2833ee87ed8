"""Builds the site: `make docs`, or `python -m tools.docs [FOLDER]` in an environment that has requirements/docs.txt.

The pages of docs/ and those that are generated meet in FOLDER/source, and Sphinx makes HTML of them in a folder of the
release, FOLDER/html/0.2.0/. FOLDER/html/latest/ has a page for each that leads there. A warning or a broken link fails.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import polycast

from tools.docs import links, pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RELEASE = polycast.__version__.partition("+")[0]
REDIRECT = """<!DOCTYPE html>
<meta charset="utf-8">
<title>polycast</title>
<link rel="canonical" href="{0}">
<script>location.replace("{0}" + location.search + location.hash)</script>
<meta http-equiv="refresh" content="0; url={0}">
<a href="{0}">{0}</a>
"""


def build(folder: Path) -> Path:
    """Build the site, and return the folder of its home page.

    Raises:
        subprocess.CalledProcessError: Sphinx has a warning or an error, which it printed.
    """
    source, html = folder / "source", folder / "html"
    for old in (source, html, folder / "doctrees"):  # Sphinx warns of a page only when it reads it
        shutil.rmtree(old, ignore_errors=True)
    for path in DOCS.rglob("*"):
        if path.suffix in (".md", ".png", ".svg"):
            target = source / path.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":  # in a clone one table has the ops; on the site each has a page
                text = path.read_text(encoding="utf-8").replace("](../generated/op_reference.md)", "](ops/index.md)")
                target.write_text(text, encoding="utf-8")
            else:
                shutil.copyfile(path, target)
    # What the pages lead to and include, at the same place beside them.
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    shutil.copyfile(ROOT / "CHANGELOG.md", folder / "CHANGELOG.md")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    contributing = contributing.replace("](docs/", "](").replace("](generated/op_reference.md)", "](ops/index.md)")
    (folder / "CONTRIBUTING.md").write_text(contributing, encoding="utf-8")
    for name, text in pages.generated().items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    site = html / RELEASE
    options = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2", "--conf-dir", str(DOCS)]
    command = [sys.executable, "-m", "sphinx", *options, "-d", str(folder / "doctrees"), str(source), str(site)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    print(done.stderr.replace(str(source), "docs"), file=sys.stderr, end="")
    done.check_returncode()
    for page in [*site.rglob("*.html")]:
        place = page.relative_to(site)
        _redirect(html / "latest" / place, f"{'../' * len(place.parts)}{RELEASE}/{place}")
    _redirect(html / "index.html", f"{RELEASE}/index.html")
    return site


def _redirect(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(REDIRECT.format(target), encoding="utf-8")


def main() -> int:
    """Build and check; return the exit status."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve()
    before = time.monotonic()
    try:
        site = build(folder)
    except subprocess.CalledProcessError:
        return 1
    count, broken = links.check(site.parent)
    print("\n".join(broken), file=sys.stderr, end="\n" if broken else "")
    found = len([*site.rglob("*.html")])
    print(f"{site / 'index.html'}: {found} pages, {count} links, {time.monotonic() - before:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
