"""The script of ``make dist``, which creates the distributed files in ``build/dist/``, and installs and uses each file.

    python -m tests.slow.dist 2.9.0 2.13.0

``make build`` creates a wheel for each of these PyTorch releases. The script compares the files and metadata of the
wheels and the source distribution with the checkout. It installs each file into a new environment, trains a model
there for one step, and runs ``polycast verify``. The script needs the network, and takes minutes per release.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
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


def main(releases: list[str]) -> None:
    """Create, check, install and use the files, and print a line for each. The first failure ends the program."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    minors = {release: release.rpartition(".")[0] for release in releases}
    for release, minor in minors.items():
        run(["make", "--no-print-directory", "build", f"TORCH={release}"], ROOT)
        (wheel,) = (ROOT / "build" / f"wheel-{release}").glob("*.whl")
        report(Path(shutil.copy(wheel, DIST)), check_wheel(wheel, minor))
    with TemporaryDirectory() as folder:  # The egg-info folder must not be among the sources.
        run([sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", DIST], ROOT)
    (source,) = DIST.glob("*.tar.gz")
    report(source, check_source_distribution(source))
    with TemporaryDirectory(dir=ROOT / "build") as folder:
        for release, minor in minors.items():
            wanted = f"{version()}+torch{minor}"
            named = ("--no-index", "--no-deps", "--find-links", DIST, f"polycast=={wanted}")
            use(release, Path(folder) / release, wanted, *named)
        use(releases[0], Path(folder) / "source", version(), "--no-build-isolation", "--no-deps", source)


def use(release: str, folder: Path, wanted: str, *named: Any) -> None:
    """Install and use the package in a new environment that also has the packages of the Makefile's environment."""
    base = ROOT / (".venv" if release == "2.9.0" else f".venv-{release}")
    run([base / "bin" / "python", "-m", "venv", folder])
    (own,) = folder.glob("lib/python*/site-packages")
    (above,) = base.glob("lib/python*/site-packages")
    (own / "base.pth").write_text(f"{above}\n", encoding="utf-8")
    new = folder / "bin" / "python"
    run([new, "-m", "pip", "uninstall", "-qy", "setuptools"])
    run([new, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed", *named])
    assert run([new, "-W", "error", "-c", USE], folder).strip() == wanted
    run([folder / "bin" / "polycast", "verify", "--device", "cpu"], folder)
    print(f"{wanted}, installed and used", flush=True)


def report(path: Path, count: int) -> None:
    print(f"{path.relative_to(ROOT)}, {path.stat().st_size / 1e6:.1f} MB, {count} files", flush=True)


def run(command: Iterable[Any], folder: Path | None = None) -> str:
    """Run a command without the variables ``PYTHON*`` and ``VIRTUAL_ENV*``. Return its output, or exit if it fails."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit("usage: python -m tests.slow.dist RELEASE..., such as 2.9.0"))
