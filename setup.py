"""Builds the compiled module: its sources, its flags, and the torch that it is for. The rest is in pyproject.toml.

Building runs the generator first, so that an edited policy.yaml cannot be left out of a build.
"""

import fcntl
import hashlib
import os
import sys
from pathlib import Path
from shutil import rmtree

import setuptools
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CSRC = ROOT / "csrc"
GENERATED = ROOT / "generated" / "autocast"
REMEDY = "Run: pip install torch jinja2 pyyaml ninja 'setuptools>=77' && pip install --no-build-isolation ."
# Loops over elements become vector instructions: no square root sets errno, and no operation traps.
VECTORIZE = ["-O3", "-fno-math-errno", "-fno-trapping-math"]
sys.path.insert(0, str(ROOT))

if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(f"polycast is built by setuptools 77 or newer, and {setuptools.__version__} is installed. {REMEDY}")
try:
    import jinja2  # noqa: F401
    import torch
    import yaml  # noqa: F401
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ModuleNotFoundError as error:
    sys.exit(f"polycast is built against the torch that is installed, and '{error.name}' is not. {REMEDY}")

from codegen.__main__ import main as generate  # noqa: E402
from polycast_grammar.versions import SUPPORTED  # noqa: E402

# What a message of the compiled module says of a source is its path below one of these.
PREFIXES = [ROOT, Path(torch.__file__).parents[1]]
# One folder of objects for each torch: the environments of the Makefile do not rebuild each other's.
BUILD = f"build/torch-{torch.__version__}"
# A wheel serves the release that it was compiled for; an sdist is compiled where it is installed.
REQUIRED_TORCH = str(SUPPORTED) if "sdist" in sys.argv else f"=={'.'.join(torch.__version__.split('.')[:2])}.*"


class Build(BuildExtension):
    """Generates, compiles with ninja, and records for which torch, and from which sources, it compiled."""

    def run(self) -> None:
        if generate([], torch) != 0:
            sys.exit(1)
        # Ninja lies beside Python, and is found there also where the environment is not activated.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        if self.editable_mode:  # setuptools gives it an empty folder, in which all would be compiled each time
            self.build_temp = f"{BUILD}/temp.{self.plat_name}-{sys.implementation.cache_tag}"
        (extension,) = self.extensions
        extension.sources = units(Path(self.build_temp) / "csrc")
        try:
            super().run()
        except RuntimeError as error:  # ninja has said what is wrong
            sys.exit(f"error: {error}")
        # An editable install has the compiled module among the sources.
        package = ROOT / "python" / "polycast" if self.inplace else Path(self.build_lib) / "polycast"
        built_for = package / "_built_for.py"
        built_for.write_text(f'TORCH = "{torch.__version__}"\nSOURCES = "{digest()}"\n', encoding="utf-8")


class Copy(build_py):
    """Copies the Python files, and leaves none from an earlier build that is gone since."""

    def run(self) -> None:
        for package in ("polycast", "polycast_grammar"):
            rmtree(Path(self.build_lib) / package, ignore_errors=True)
        super().run()


def units(folder: Path) -> list[str]:
    """Return what is compiled: the generated files, and of csrc three files that include its own.

    Most of what a small file takes to compile is torch's headers. The longest comes first, so that none is left over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    apart = {name: sorted((CSRC / name).glob("*.cpp")) for name in ("kernels", "bindings")}
    others = sorted(set(CSRC.rglob("*.cpp")).difference(*apart.values()))
    files = []
    for name, sources in (("others", others), *apart.items()):
        text = "".join(f'#include "{path.relative_to(CSRC)}"\n' for path in sources)
        unit = folder / f"{name}.cpp"
        if not unit.exists() or unit.read_text(encoding="utf-8") != text:
            unit.write_text(text, encoding="utf-8")
        files.append(str(unit))
    return files + [str(path.relative_to(ROOT)) for path in sorted(GENERATED.glob("*.cpp"))]


def digest() -> str:
    """Return a digest of the C++ sources: what torch.compile has compiled with other kernels must not be used again."""
    files = sorted(path for top in (CSRC, GENERATED) for path in top.rglob("*.*"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def wait_for_other_builds() -> None:
    """Hold a lock of this tree until the process ends: two builds at once would write the same files.

    The lock is the process's own, which may run this file several times.
    """
    path = ROOT / "build" / ".lock"
    path.parent.mkdir(exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT)  # never closed, which would give the lock back
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"Another process builds in {ROOT}; waiting for it.", file=sys.stderr, flush=True)
        fcntl.lockf(lock, fcntl.LOCK_EX)


wait_for_other_builds()
setuptools.setup(
    install_requires=[f"torch{REQUIRED_TORCH}", "pyyaml", "wrapt>=1.14"],
    ext_modules=[
        CppExtension(
            "polycast._C",
            [],
            include_dirs=[str(CSRC)],
            define_macros=[("AT_PER_OPERATOR_HEADERS", None)],  # torch's headers then include few operators
            extra_compile_args=[
                *("-g0", "-Wall", "-fvisibility=hidden", "-fopenmp", *VECTORIZE),
                *(f"-ffile-prefix-map={prefix}/=" for prefix in PREFIXES),
            ],
            extra_link_args=["-fopenmp"],
        )
    ],
    cmdclass={"build_ext": Build, "build_py": Copy},
    options={"build": {"build_base": BUILD}},
)
