"""Makes what a release hands out, in build/dist/, and installs and uses each file: `make dist`.

    python -m tests.slow.dist 2.9.0 2.13.0

For each of these PyTorch releases `make build` makes a wheel. The files and the metadata of the wheels and of the
source distribution are compared with the checkout. Each wheel, and the source distribution, is installed into a new
environment, where a step is trained and `polycast verify` runs. It needs the network, and minutes for each release.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from tests.support.packages import check_source_distribution, check_wheel, version
from tests.support.snippets import ROOT

DIST = ROOT / "build" / "dist"
USE = """
import torch, polycast
from importlib.metadata import version
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
before = model.weight.detach().clone()
optimizer, scaler = polycast.syncfree.AdamW(model.parameters()), polycast.GradScaler("cpu", init_scale=256.0)
with polycast.autocast("cpu", dtype=torch.float16):
    result = model(torch.randn(4, 8))
assert result.dtype is torch.float16
scaler.scale(result.float().square().mean()).backward()
scaler.step(optimizer)
scaler.update()
assert not torch.equal(model.weight, before)
assert polycast.__version__ == version("polycast")
print(polycast.__version__)
"""


def main() -> int:
    """Take the steps and print the seconds of each; the first that fails ends the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="+", help="a PyTorch release, such as 2.9.0")
    releases = parser.parse_args().release
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    for release in releases:
        make_wheel(release)
    source = source_distribution()
    with TemporaryDirectory(dir=ROOT / "build") as folder:
        for release in releases:
            minor = release.rpartition(".")[0]
            named = ("--no-index", "--no-deps", "--find-links", DIST, f"polycast=={version()}+torch{minor}")
            use(release, Path(folder) / release, f"{version()}+torch{minor}", *named)
        use(releases[0], Path(folder) / "source", version(), "--no-build-isolation", "--no-deps", source)
    return 0


def python(release: str) -> Path:
    """Return the Python of the Makefile's environment."""
    return ROOT / (".venv" if release == "2.9.0" else f".venv-{release}") / "bin" / "python"


def make_wheel(release: str) -> None:
    """Have make build the wheel for a PyTorch release, check it, and copy it."""
    start = perf_counter()
    run(["make", "--no-print-directory", "build", f"TORCH={release}"], ROOT)
    (built,) = (ROOT / "build" / f"wheel-{release}").glob("*.whl")
    report(Path(shutil.copy(built, DIST)), check_wheel(built, release.rpartition(".")[0]), start)


def source_distribution() -> Path:
    """Make the source distribution, check it, and return its path."""
    start = perf_counter()
    with TemporaryDirectory() as folder:  # otherwise setuptools leaves a folder among the sources
        run([sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", DIST], ROOT)
    (path,) = DIST.glob("*.tar.gz")
    report(path, check_source_distribution(path), start)
    return path


def use(release: str, folder: Path, wanted: str, *named: Any) -> None:
    """Install the package into a new environment over the packages of another one, and use it there."""
    start, base = perf_counter(), python(release)
    run([base, "-m", "venv", folder])
    (own,) = folder.glob("lib/python*/site-packages")
    (above,) = base.parents[1].glob("lib/python*/site-packages")
    (own / "base.pth").write_text(f"{above}\n", encoding="utf-8")
    new = folder / "bin" / "python"
    run([new, "-m", "pip", "uninstall", "-qy", "setuptools"])
    run([new, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed", *named])
    assert run([new, "-W", "error", "-c", USE], folder).strip() == wanted
    run([folder / "bin" / "polycast", "verify", "--device", "cpu"], folder)
    print(f"{wanted}, installed and used: {perf_counter() - start:.0f} s", flush=True)


def report(path: Path, count: int, start: float) -> None:
    size = path.stat().st_size / 1e6
    print(f"{path.relative_to(ROOT)}, {size:.1f} MB, {count} files: {perf_counter() - start:.0f} s", flush=True)


def run(command: Iterable[Any], folder: Path | None = None) -> str:
    """Run a command without the caller's environment, and return what it prints."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
