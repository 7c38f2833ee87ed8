"""Installs the package in each way that users have: `python -m tools.installs PYTHON...`, before a release.

Each PYTHON is that of an environment with a torch, such as .venv-2.13.0/bin/python. Nothing is installed there: the
package goes into new environments that see its packages. Each must train a step then, and hold no torch of its own.
The ways: wheels for all environments, built at the same time in one source tree; a source distribution; an editable
installation; uv. It takes the network, and for each environment minutes: everything is compiled. `make dist` installs
the wheels of an index.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from tools.newcomer import unpack

# Newer than a polycast that an environment may have, which pip would take for this one.
VERSION = "99.0"
USE = """
import torch, polycast
from importlib.metadata import version
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
before = model.weight.detach().clone()
optimizer, scaler = polycast.syncfree.AdamW(model.parameters()), polycast.GradScaler(init_scale=256.0)
with polycast.autocast("cpu", dtype=torch.float16):
    result = model(torch.randn(4, 8))
assert result.dtype is torch.float16
scaler.scale(result.float().square().mean()).backward()
scaler.step(optimizer)
scaler.update()
assert not torch.equal(model.weight, before)
assert polycast.__version__ == version("polycast")
print(polycast.__version__, torch.__version__)
"""


@dataclass(frozen=True)
class Base:
    """An environment with a torch, and the version of it."""

    python: Path
    torch: str

    @property
    def release(self) -> str:
        return ".".join(self.torch.split(".")[:2])

    @property
    def wheel(self) -> str:
        """The version of a wheel that is built here."""
        return f"{VERSION}+torch{self.release}"


@dataclass(frozen=True)
class Environment:
    """A new environment that sees the packages of another one."""

    base: Base
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        (site,) = self.folder.glob("lib/python*/site-packages")
        return site

    def pip(self, *arguments: Any) -> str:
        return run([self.python, "-m", "pip", "--disable-pip-version-check", *arguments])

    def check(self, version: str) -> None:
        """Raise unless the package works here in this version, and no other was installed."""
        held = {path.name.partition("-")[0] for path in self.site.glob("*.dist-info") if not path.is_symlink()}
        assert held == {"pip", "polycast"}, held
        used = run([self.python, "-c", USE], self.folder)
        assert used.split() == [version, self.base.torch], used
        assert "lower_precision_fp" in run([self.folder / "bin" / "polycast", "conv2d"], self.folder)


def main() -> int:
    """Take the ways, print the seconds of each; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+", type=Path, help="the Python of an environment with a torch")
    bases = [base_of(python.absolute()) for python in parser.parse_args().python]
    with TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["PIP_CACHE_DIR"] = os.environ["UV_CACHE_DIR"] = str(place / "cache")
        tree = unpack(place)
        (tree / "setup.py").write_text(renumbered((tree / "setup.py").read_text(encoding="utf-8")), encoding="utf-8")
        source = source_distribution(tree, place / "source")
        (tree / "PKG-INFO").unlink()  # with it the tree would be that of a source distribution
        for base in bases:
            stays(base, tree)
        wheels(bases, tree, place)
        for number, base in enumerate(bases):
            print(f"{base.python}: torch {base.torch}")
            editable(environment(base, place / f"editable-{number}"), tree)
            by_uv(environment(base, place / f"uv-{number}"), tree, place)
        from_source(bases, source, place)
    return 0


def base_of(python: Path) -> Base:
    return Base(python, run([python, "-c", "import torch; print(torch.__version__)"]).strip())


def environment(base: Base, folder: Path) -> Environment:
    """Return a new environment with a pip of its own and links to the packages of its base, but to no polycast."""
    run([base.python, "-m", "venv", folder])
    made = Environment(base, folder)
    if "setuptools" in made.pip("list"):
        made.pip("uninstall", "--yes", "setuptools")
    code = "import json, sys; print(json.dumps([path for path in sys.path if path.endswith('-packages')]))"
    for path in (
        path for place in json.loads(run([base.python, "-c", code])) for path in sorted(Path(place).iterdir())
    ):
        own = path.name.startswith(("polycast", "pip", "__")) or path.suffix == ".pth"
        if not own and not os.path.lexists(made.site / path.name):
            (made.site / path.name).symlink_to(path)
    return made


def renumbered(setup: str) -> str:
    head, _, rest = setup.partition('VERSION = "')
    return f'{head}VERSION = "{VERSION}{rest[rest.index(chr(34)) :]}'


def source_distribution(tree: Path, folder: Path) -> Path:
    with progress("the same under another version"):
        run([sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder], tree)
    return folder


def stays(base: Base, tree: Path) -> None:
    """Have pip say what it would install into the environment itself: the package alone."""
    with progress(f"pip install --dry-run beside torch {base.torch}"):
        report = run([base.python, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", tree])
    found = [(item["metadata"]["name"], item["metadata"]["version"]) for item in json.loads(report)["install"]]
    assert found == [("polycast", base.wheel)], found


def wheels(bases: list[Base], tree: Path, place: Path) -> None:
    """Build a wheel for each environment, all at the same time, and the first one twice."""
    folders = [place / f"wheels-{number}" for number in range(len(bases) + 1)]
    with progress(f"{len(folders)} builds at once in one source tree"):
        builds = [
            subprocess.Popen(
                [base.python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, tree],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for base, folder in zip([*bases, bases[0]], folders, strict=True)
        ]
        for build in builds:
            printed, _ = build.communicate()
            if build.returncode != 0:
                sys.exit(f"failed: {build.args!r}\n{printed[-6000:]}")
    for base, folder in zip([*bases, bases[0]], folders, strict=True):
        (wheel,) = folder.glob("*.whl")
        assert f"-{base.wheel}-" in wheel.name, wheel


def editable(made: Environment, tree: Path) -> None:
    with progress("  pip install -e ."):
        made.pip("install", "-e", tree)
        made.check(made.base.wheel)


def by_uv(made: Environment, tree: Path, place: Path) -> None:
    """uv does not see what the environment shares, so it is asked for the package alone, and for all in the base."""
    uv = place / "uv" / "bin" / "uv"
    if not uv.exists():
        run([sys.executable, "-m", "venv", place / "uv"])
        run([place / "uv" / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"])
    with progress("  uv pip install --no-build-isolation ."):
        install = [uv, "pip", "install", "--no-build-isolation", "--python"]
        planned = run([*install, made.base.python, "--dry-run", tree], stderr=subprocess.STDOUT)
        changes = [line.split()[1] for line in planned.splitlines() if line.startswith((" + ", " - ", " ~ "))]
        assert {name.partition("==")[0] for name in changes} == {"polycast"}, planned
        run([*install, made.python, "--no-deps", tree])
        made.check(made.base.wheel)


def from_source(bases: Iterable[Base], folder: Path, place: Path) -> None:
    """Install a source distribution from an index. pip may give the wheel of another torch, which must say so."""
    for number, base in enumerate(bases):
        made = environment(base, place / f"source-{number}")
        install = ("install", "--no-build-isolation", "--no-index", "--find-links", folder, f"polycast=={VERSION}")
        with progress(f"the source distribution beside torch {base.torch}"):
            made.pip(*install)
            facts = made.site / "polycast" / "_built_for.py"
            if f'TORCH = "{base.torch}"' not in facts.read_text(encoding="utf-8"):
                refused = subprocess.run([made.python, "-c", USE], cwd=made.folder, capture_output=True, text=True)
                assert "install it again" in refused.stderr, refused.stderr
                made.pip(*install, "--force-reinstall", "--no-deps", "--no-cache-dir")
            made.check(VERSION)


class progress:  # noqa: N801
    """Prints what is done, and then the seconds that it took."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        print(f"{self.name}: ", end="", flush=True)
        self.start = perf_counter()

    def __exit__(self, kind: object, *_: object) -> None:
        print("failed" if kind else f"{perf_counter() - self.start:.0f} s", flush=True)


def run(command: Iterable[Any], folder: Path | None = None, stderr: int = subprocess.PIPE) -> str:
    """Run a command without the caller's environment, and return what it prints."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=stderr, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout[-6000:]}{(done.stderr or '')[-6000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
