"""Makes what a release hands on, and proves it, in build/dist/: `make dist`.

    python -m tools.dist 2.9.0 2.13.0

For each of these torch releases, which requirements/ has a file for, `make build` makes a wheel. The files and metadata
of the wheels and of the source distribution are compared with what they must be. Each is installed into a new
environment, where the README's first example and parts of `polycast verify` run. It takes the network for torch, where
an environment is missing, and minutes for each torch that nothing is compiled for yet.
"""

import argparse
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from tests.support.packages import check_source_distribution, check_wheel, version
from tests.support.snippets import ROOT, blocks
from tools.installs import Base, base_of, environment, progress, run
from tools.newcomer import source_distribution

DIST = ROOT / "build" / "dist"
# Of `polycast verify`: graphs need another device, and times prove nothing on a machine that compiles.
PARTS = ("rules", "steps", "reads")


def main() -> int:
    """Take the steps, and print the seconds of each; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="+", help="of torch, such as 2.9.0")
    releases, start = parser.parse_args().release, perf_counter()
    shutil.rmtree(DIST, ignore_errors=True)
    for release in releases:
        make_wheel(release)
    source = source_distribution(DIST)
    report(source, check_source_distribution(source))
    with TemporaryDirectory(dir=ROOT / "build") as folder:
        for release in releases:
            base = base_of(python(release))
            named = ("--find-links", DIST, "polycast", f"torch=={base.release}.*")
            prove(base, Path(folder) / release, f"{version()}+torch{base.release}", *named)
        prove(base_of(python(releases[0])), Path(folder) / "source", version(), "--no-build-isolation", source)
    print(f"{(perf_counter() - start) / 60:.1f} minutes")
    return 0


def python(release: str) -> Path:
    """Return the Python of the Makefile's environment."""
    return ROOT / (".venv" if release == "2.9.0" else f".venv-{release}") / "bin" / "python"


def make_wheel(release: str) -> None:
    """Have make build the wheel for a torch, check it, and copy it."""
    with progress(f"make build TORCH={release}"):
        run(["make", "--no-print-directory", "build", f"TORCH={release}"], ROOT)
    (built,) = (ROOT / "build" / f"wheel-{release}").glob("*.whl")
    DIST.mkdir(parents=True, exist_ok=True)
    report(Path(shutil.copy(built, DIST)), check_wheel(built, release.rpartition(".")[0]))


def report(path: Path, count: int) -> None:
    print(f"{path.relative_to(ROOT)}, {path.stat().st_size / 1e6:.1f} MB, {count} files", flush=True)


def prove(base: Base, folder: Path, wanted: str, *named: Any) -> None:
    """Install the package into a new environment, without an index, and use it there."""
    with progress(f"{wanted} installed beside torch {base.torch}"):
        made = environment(base, folder)
        made.pip("install", "--quiet", "--no-index", *named)
        made.check(wanted)
        run([made.python, "-W", "error", "-c", blocks("README.md", "python")[0]], folder)
        run([folder / "bin" / "polycast", "verify", *PARTS, "--device", "cpu"], folder)


if __name__ == "__main__":
    sys.exit(main())
