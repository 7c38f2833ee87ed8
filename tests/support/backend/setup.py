"""The build of the device's package, like a vendor's: ``pip install --no-build-isolation .``"""

from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="mimic",
    version="0",
    packages=["mimic"],
    # -g0 omits debug symbols, which saves build time and memory. Remove the option to debug the extension.
    ext_modules=[CppExtension("mimic._C", sorted(map(str, Path("csrc").glob("*.cpp"))), extra_compile_args=["-g0"])],
    cmdclass={"build_ext": BuildExtension},
    entry_points={"torch.backends": ["mimic = mimic:register"]},
)
