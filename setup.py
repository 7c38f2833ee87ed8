"""The build of the compiled module, and the version and requirements that depend on the installed PyTorch.

`pyproject.toml` has all other settings.

The build runs the generator first, so it always includes edits of `policy.yaml`.

Note [Which PyTorch does a build use?]

The package must be compiled against the PyTorch of the environment in which it is installed. If PyTorch were a build
requirement, pip would download another PyTorch. pip's build isolation hides the environment's packages, but runs the
environment's Python, so this file adds the packages again. uv and `python -m build` run another Python. They therefore
need `--no-build-isolation` and `--no-isolation`, respectively.

A wheel from a checkout requires the PyTorch release that its version names, as in `0.2.0+torch2.13`. So an index can
have a wheel for each release. The version of a wheel from a source distribution names no release. pip caches such a
wheel under the version of the source distribution, and may install it next to another PyTorch. Importing polycast then
raises an error with the remedy.
"""

import sys

# pip runs this file before it checks the Python version that the package requires.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(f"Python: expected 3.10 or newer, got {sys.version.split()[0]}; use a newer one.")
if sys.platform != "linux":
    sys.exit(f"platform: expected linux, got {sys.platform}; build polycast on Linux.")

import hashlib
import os
import shutil
import site
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import setuptools
from setuptools.command.build_py import build_py

VERSION = "0.2.0"
ROOT = Path(__file__).parent
CSRC = ROOT / "csrc"
GENERATED = ROOT / "generated" / "autocast"
REMEDY = (
    "Run: pip install torch jinja2 pyyaml ninja 'setuptools>=77' && pip install --no-build-isolation . "
    "(with uv: uv pip install)"
)
COMPILER = os.environ.get("CXX", "c++").split()[0]

if find_spec("torch") is None:  # See Note [Which PyTorch does a build use?].
    for folder in site.getsitepackages() + ([site.getusersitepackages()] if sys.prefix == sys.base_prefix else []):
        site.addsitedir(folder)
sys.path.insert(0, str(ROOT))
# If the environment is not activated, the folder of its scripts, which has ninja, may not be in `PATH`.
os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{sysconfig.get_path('scripts')}"
if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(f"setuptools: expected 77 or newer, got {setuptools.__version__}. {REMEDY}")
try:
    import jinja2  # noqa: F401
    import torch
    import yaml  # noqa: F401
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ModuleNotFoundError as error:
    sys.exit(f"{error.name}: expected an installed package, got none in {sys.prefix}. {REMEDY}")

from codegen.__main__ import main as generate  # noqa: E402
from codegen.versions import SUPPORTED  # noqa: E402

# Each PyTorch has its own folder of objects, so the environments of the `Makefile` do not rebuild each other's objects.
BUILD = f"build/torch-{torch.__version__}"
MAJOR, MINOR = torch.__version__.split(".")[:2]
if (int(MAJOR), int(MINOR)) not in SUPPORTED:
    sys.exit(f"torch: expected {SUPPORTED}, got {torch.__version__} in {sys.prefix}; upgrade torch.")
if "sdist" not in sys.argv and not (ROOT / "PKG-INFO").exists():  # only a source distribution has `PKG-INFO`
    VERSION += f"+torch{MAJOR}.{MINOR}"
    REQUIRED_TORCH = f"=={MAJOR}.{MINOR}.*"
else:
    REQUIRED_TORCH = str(SUPPORTED)


class Build(BuildExtension):
    """The command that generates and compiles the sources, and records the versions and the digest of the sources."""

    def run(self) -> None:
        for tool, remedy in ((COMPILER, "install g++, or set CXX"), ("ninja", "run: pip install ninja")):
            if shutil.which(tool) is None:
                sys.exit(f"{tool}: expected a program in PATH that compiles polycast, got none; {remedy}.")
        if generate([], torch) != 0:
            sys.exit(1)
        if self.editable_mode:  # setuptools would use a new folder each time, and compile everything again
            self.build_temp = f"{BUILD}/temp.{self.plat_name}-{sys.implementation.cache_tag}"
        (extension,) = self.extensions
        extension.sources = units(Path(self.build_temp) / "csrc")
        try:
            super().run()
        except RuntimeError as error:  # ninja has printed the compiler's errors
            sys.exit(f"error: {error}")
        # In an editable install the compiled module is in the folder of the sources.
        package = ROOT / "python" / "polycast" if self.inplace else Path(self.build_lib) / "polycast"
        facts = {"VERSION": VERSION, "TORCH": torch.__version__, "PYTHON": sys.implementation.cache_tag}
        text = "".join(f'{name} = "{value}"\n' for name, value in (facts | {"SOURCES": digest()}).items())
        (package / "_built_for.py").write_text(text, encoding="utf-8")


class Copy(build_py):
    """The command that copies the Python files, after it has removed the files of an earlier build."""

    def run(self) -> None:
        shutil.rmtree(Path(self.build_lib) / "polycast", ignore_errors=True)
        super().run()


def units(folder: Path) -> list[str]:
    """Write three files that include all of `csrc/`, and return the files to compile: these and the generated ones.

    A small file spends most of its compile time on PyTorch's headers. A clean build takes 86 seconds of processor time
    with three files, and 183 seconds with each file separately. The slowest file is first, so that all cores are busy.
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
    """Return a digest of the C++ sources, which is part of the keys of the on-disk caches of `torch.compile`."""
    files = sorted(path for top in (CSRC, GENERATED) for path in top.rglob("*.*"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


setuptools.setup(
    version=VERSION,
    install_requires=[f"torch{REQUIRED_TORCH}", "pyyaml"],
    ext_modules=[
        CppExtension(
            "polycast._C",
            [],
            include_dirs=[str(CSRC)],
            define_macros=[("AT_PER_OPERATOR_HEADERS", None)],  # the macro reduces the includes of PyTorch's headers
            extra_compile_args=[
                *("-g0", "-Wall", "-fvisibility=hidden", "-fopenmp"),
                # The compiler vectorizes loops over elements if square roots set no errno and nothing traps.
                *("-O3", "-fno-math-errno", "-fno-trapping-math"),
                # These options remove the folders from paths of sources in messages of the compiled module.
                *(f"-ffile-prefix-map={prefix}/=" for prefix in (ROOT, Path(torch.__file__).parents[1])),
            ],
            extra_link_args=["-fopenmp"],
        )
    ],
    cmdclass={"build_ext": Build, "build_py": Copy},
    options={"build": {"build_base": BUILD}},
)
