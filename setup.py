"""Builds the native half (native/build_core.py says what it contains).

This is the only place for compiler flags. Asserts stay in release builds (CPython's own flags define NDEBUG). Set
ORBITMQ_WERROR=1 to make warnings errors, ORBITMQ_CFLAGS for further flags (sanitizers, crash points).
"""

import os
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-g", "-UNDEBUG", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow", "-Wvla"]
if os.environ.get("ORBITMQ_WERROR") == "1":
    FLAGS.append("-Werror")
FLAGS += os.environ.get("ORBITMQ_CFLAGS", "").split()

if sys.platform != "linux":
    sys.exit(f"orbitmq cannot be built on {sys.platform}: it needs Linux, for its futexes, sealed memory files and pidfds")


class BuildExt(build_ext):
    """build_ext that gives the extension the flags above, and compiles as many files at a time as there are processors."""

    def build_extensions(self) -> None:
        compile_in_turn = self.compiler.compile
        processors = len(os.sched_getaffinity(0))

        def compile_at_once(sources: list[str], **options: object) -> list[str]:
            with ThreadPool(processors) as pool:
                made = pool.map(lambda source: compile_in_turn([source], **options), sources, chunksize=1)
            return [each for objects in made for each in objects]

        self.compiler.compile = compile_at_once
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = FLAGS
        ext.extra_link_args = ["-pthread", *os.environ.get("ORBITMQ_CFLAGS", "").split()]
        ext.depends = [str(path) for path in Path("native").glob("**/*.h")]
        super().build_extension(ext)


setup(
    cffi_modules=["native/build_core.py:ffibuilder"],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
