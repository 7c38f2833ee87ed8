"""Builds the compiled module, and says what depends on its torch. All other settings are in pyproject.toml.

The build runs the generator first, so an edited policy.yaml is always part of it.

Note [The torch of a build]

The package is compiled against the torch of the environment that it is installed into. So torch is not among the
requirements of the build, for which pip would download another one. pip's build isolation hides that environment but
runs its Python, so `find_environment` finds it. uv and `python -m build` run another Python. They need their options
against isolation.

A wheel that is built from a checkout names its torch in its version (0.2.0+torch2.13), so that an index can hold
several, and requires that torch. A wheel that is built from a source distribution does neither. pip demands that it has
the version of the source distribution. And pip caches it under that version, so an environment with another torch may
be given it. There it must not require its own torch, which pip would download. Importing it raises an error with the
remedy.
"""

import sys

# pip runs this file before it compares its Python with that which the package requires.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(f"polycast needs Python 3.10 or newer, and this is {sys.version.split()[0]}.")
if sys.platform != "linux":
    sys.exit(f"polycast supports Linux only, and this is {sys.platform}.")

import fcntl
import hashlib
import os
import shutil
import site
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import setuptools
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

VERSION = "0.2.0"
ROOT = Path(__file__).parent
CSRC = ROOT / "csrc"
GENERATED = ROOT / "generated" / "autocast"
REMEDY = (
    "Run: pip install torch jinja2 pyyaml ninja 'setuptools>=77' && pip install --no-build-isolation . "
    "(with uv: uv pip install)"
)
COMPILER = os.environ.get("CXX", "c++").split()[0]
# The compiler may vectorize loops over elements: square roots set no errno, and no operation traps.
VECTORIZE = ["-O3", "-fno-math-errno", "-fno-trapping-math"]


def find_environment() -> None:
    """Append the packages of the environment whose Python runs this. See Note [The torch of a build]."""
    if find_spec("torch") is None:
        user = [site.getusersitepackages()] if sys.prefix == sys.base_prefix else []  # a virtual environment has none
        for folder in site.getsitepackages() + user:
            site.addsitedir(folder)


find_environment()
sys.path.insert(0, str(ROOT))
# The environment may not be activated. Its ninja is in the folder of its scripts.
os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{sysconfig.get_path('scripts')}"
if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(f"polycast needs setuptools 77 or newer, and {setuptools.__version__} is installed. {REMEDY}")
try:
    import jinja2  # noqa: F401
    import torch
    import yaml  # noqa: F401
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ModuleNotFoundError as error:
    sys.exit(f"polycast is compiled against the installed torch, and {sys.prefix} has no '{error.name}'. {REMEDY}")

from codegen.__main__ import main as generate  # noqa: E402
from codegen.versions import SUPPORTED  # noqa: E402

# The messages of the compiled module show the paths of sources below these folders.
PREFIXES = [ROOT, Path(torch.__file__).parents[1]]
# Each torch has its own folder of objects, so the environments of the Makefile do not rebuild each other's.
BUILD = f"build/torch-{torch.__version__}"
MAJOR, MINOR = torch.__version__.split(".")[:2]
if (int(MAJOR), int(MINOR)) not in SUPPORTED:
    sys.exit(f"polycast needs torch{SUPPORTED}, and {sys.prefix} has torch {torch.__version__}.")
if "sdist" not in sys.argv and not (ROOT / "PKG-INFO").exists():  # a source distribution holds that file
    VERSION += f"+torch{MAJOR}.{MINOR}"
    REQUIRED_TORCH = f"=={MAJOR}.{MINOR}.*"
else:
    REQUIRED_TORCH = str(SUPPORTED)


class Build(BuildExtension):
    """Generates the sources, compiles them with ninja, and records the torch and the sources that were used."""

    def run(self) -> None:
        for tool, remedy in ((COMPILER, "install g++, or set CXX"), ("ninja", "pip install ninja")):
            if shutil.which(tool) is None:
                sys.exit(f"polycast is compiled by a C++17 compiler and ninja, and '{tool}' is not found: {remedy}.")
        if generate([], torch) != 0:
            sys.exit(1)
        if self.editable_mode:  # setuptools uses a new folder each time, so everything would be compiled again
            self.build_temp = f"{BUILD}/temp.{self.plat_name}-{sys.implementation.cache_tag}"
        (extension,) = self.extensions
        extension.sources = units(Path(self.build_temp) / "csrc")
        try:
            super().run()
        except RuntimeError as error:  # ninja has printed the cause
            sys.exit(f"error: {error}")
        # In an editable install the compiled module is among the sources.
        package = ROOT / "python" / "polycast" if self.inplace else Path(self.build_lib) / "polycast"
        built_for = package / "_built_for.py"
        facts = {
            "VERSION": VERSION,
            "TORCH": torch.__version__,
            "PYTHON": sys.implementation.cache_tag,
            "SOURCES": digest(),
        }
        text = "".join(f'{name} = "{value}"\n' for name, value in facts.items())
        built_for.write_text(text, encoding="utf-8")


class Copy(build_py):
    """Copies the Python files, after removing those of an earlier build."""

    def run(self) -> None:
        shutil.rmtree(Path(self.build_lib) / "polycast", ignore_errors=True)
        super().run()


class Sources(sdist):
    """Adds what the build needs to the package: the policy, the generator, and the C++."""

    def make_distribution(self) -> None:
        found = (path for top in ("codegen", "csrc", "generated") for path in sorted((ROOT / top).rglob("*")))
        files = [path for path in found if path.is_file() and path.suffix != ".pyc"]
        for pattern in (
            "tests/*",
            "python/polycast/_built_for.py",
        ):  # setuptools adds a test; an editable install writes
            self.filelist.exclude_pattern(pattern)
        self.filelist.extend(str(path.relative_to(ROOT)) for path in [ROOT / "policy.yaml", *files])
        super().make_distribution()


def units(folder: Path) -> list[str]:
    """Return the files to compile: the generated ones, and three files that include all of csrc.

    Small files would each spend most of their time on torch's headers: a clean build takes 86 seconds of processor time
    this way, and 183 seconds with each file of csrc by itself. The longest comes first, to keep all cores busy.
    """
    folder.mkdir(parents=True, exist_ok=True)
    apart = {name: sorted((CSRC / name).glob("*.cpp")) for name in ("multi_tensor", "bindings")}
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
    """Return a digest of the C++ sources, so that torch.compile's cache holds no code from other kernels."""
    files = sorted(path for top in (CSRC, GENERATED) for path in top.rglob("*.*"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def wait_for_other_builds() -> None:
    """Lock this tree until the process ends, because two builds at once would write the same files.

    The process owns the lock, so it can run this file several times.
    """
    path = ROOT / "build" / ".lock"
    path.parent.mkdir(exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT)  # never closed, because that would release the lock
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"Another process builds in {ROOT}; waiting for it.", file=sys.stderr, flush=True)
        fcntl.lockf(lock, fcntl.LOCK_EX)


wait_for_other_builds()
setuptools.setup(
    version=VERSION,
    install_requires=[f"torch{REQUIRED_TORCH}", "pyyaml"],
    ext_modules=[
        CppExtension(
            "polycast._C",
            [],
            include_dirs=[str(CSRC)],
            define_macros=[("AT_PER_OPERATOR_HEADERS", None)],  # with it torch's headers include few operators
            extra_compile_args=[
                *("-g0", "-Wall", "-fvisibility=hidden", "-fopenmp", *VECTORIZE),
                *(f"-ffile-prefix-map={prefix}/=" for prefix in PREFIXES),
            ],
            extra_link_args=["-fopenmp"],
        )
    ],
    cmdclass={"build_ext": Build, "build_py": Copy, "sdist": Sources},
    options={"build": {"build_base": BUILD}},
)
