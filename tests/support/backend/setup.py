"""Builds the package of the device, as a vendor would: `pip install --no-build-isolation .`"""

from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="mimic",
    version="0",
    packages=["mimic"],
    # -g0: without debug symbols it is built in less time and memory. To debug it, leave the option out.
    ext_modules=[CppExtension("mimic._C", sorted(map(str, Path("csrc").glob("*.cpp"))), extra_compile_args=["-g0"])],
    cmdclass={"build_ext": BuildExtension},
    entry_points={"torch.backends": ["mimic = mimic:register"]},
)
