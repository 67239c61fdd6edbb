"""Builds the native half: the cffi module over the C core, and the small extension module for per-message calls.

The one place for compiler flags. Asserts stay in release builds (CPython's own flags define NDEBUG). Set ORBITMQ_WERROR=1 to
make warnings errors, ORBITMQ_CFLAGS for further flags (sanitizers, crash points).
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-g", "-UNDEBUG", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow", "-Wvla"]
if os.environ.get("ORBITMQ_WERROR") == "1":
    FLAGS.append("-Werror")
FLAGS += os.environ.get("ORBITMQ_CFLAGS", "").split()

# cffi writes C that shadows and leaves parameters unused; only our own files are held to those warnings.
CFFI_FLAGS = ["-Wno-unused-parameter", "-Wno-shadow"]


class BuildExt(build_ext):
    """build_ext that gives every extension the flags above."""

    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = FLAGS + (CFFI_FLAGS if ext.name.endswith("._core") else [])
        ext.extra_link_args = ["-pthread", *os.environ.get("ORBITMQ_CFLAGS", "").split()]
        ext.depends = [str(path) for path in Path("native").glob("**/*.h")]
        super().build_extension(ext)


core = sorted(str(path) for path in Path("native").glob("*.c"))
setup(
    cffi_modules=["native/build_core.py:ffibuilder"],
    ext_modules=[
        Extension(
            "orbitmq.native._fast",
            sources=core,
            include_dirs=["native"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
