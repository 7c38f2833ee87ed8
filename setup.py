"""Names the sources of the compiled module; everything else is in pyproject.toml.

Building runs the generator first, so that an edited policy.yaml cannot be left out of a build.
"""

import hashlib
import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
# Loops over elements become vector instructions: no square root sets errno, and no operation traps.
VECTORIZE = ["-O3", "-fno-math-errno", "-fno-trapping-math"]
sys.path.insert(0, str(ROOT))

try:
    import jinja2  # noqa: F401
    import torch
    import yaml  # noqa: F401
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ModuleNotFoundError as error:
    sys.exit(
        f"polycast is built against the torch that is installed, and '{error.name}' is not. "
        "Run: pip install torch jinja2 pyyaml ninja setuptools && pip install --no-build-isolation ."
    )

from codegen.__main__ import main as generate  # noqa: E402


class Build(BuildExtension):
    """Generates, compiles with ninja, and records for which torch, and from which sources, it compiled."""

    def run(self) -> None:
        if generate([]) != 0:
            sys.exit(1)
        (extension,) = self.extensions
        extension.sources = sources()
        super().run()
        built_for = Path(self.build_lib) / "polycast" / "_built_for.py"
        built_for.write_text(f'TORCH = "{torch.__version__}"\nSOURCES = "{digest()}"\n', encoding="utf-8")


def sources() -> list[str]:
    """Return the C++ sources, relative to this folder as setuptools wants them."""
    return sorted(str(path.relative_to(ROOT)) for top in ("csrc", "generated") for path in (ROOT / top).rglob("*.cpp"))


def digest() -> str:
    """Return a digest of the C++ sources: what torch.compile has compiled with other kernels must not be used again."""
    files = sorted(path for top in ("csrc", "generated/autocast") for path in (ROOT / top).rglob("*.*"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


setup(
    ext_modules=[
        CppExtension(
            "polycast._C",
            sources(),
            include_dirs=[str(ROOT / "csrc")],
            extra_compile_args=["-g0", "-Wall", "-fvisibility=hidden", "-fopenmp", *VECTORIZE],
            extra_link_args=["-fopenmp"],
        )
    ],
    cmdclass={"build_ext": Build},
    # One folder of objects for each torch: the environments of the Makefile do not rebuild each other's.
    options={"build": {"build_base": f"build/torch-{torch.__version__}"}},
)
