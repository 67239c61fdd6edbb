"""Builds the native half: the cffi module over the C core, and the small extension module for per-message calls.

The one place for compiler flags. Asserts stay in release builds (CPython's own flags define NDEBUG). Set ORBITMQ_WERROR=1 to
make warnings errors, ORBITMQ_CFLAGS for further flags (sanitizers, crash points).
"""

import os
from functools import cached_property
from multiprocessing.pool import ThreadPool
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-g", "-UNDEBUG", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow", "-Wvla"]
if os.environ.get("ORBITMQ_WERROR") == "1":
    FLAGS.append("-Werror")
FLAGS += os.environ.get("ORBITMQ_CFLAGS", "").split()

# cffi writes C that shadows and leaves parameters unused; only our own files are held to those warnings.
CFFI_FLAGS = ["-Wno-unused-parameter", "-Wno-shadow"]

# Of both extensions; knows no Python. Only the second has the rest.
CORE = sorted(str(path) for path in Path("native").glob("*.c") if not path.name.startswith("fast_"))
FAST = sorted(str(path) for path in Path("native").glob("fast_*.c"))


class BuildExt(build_ext):
    """build_ext that gives every extension the flags above, compiles the core once for both, and as many files at a time as
    there are processors."""

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
        ext.extra_compile_args = FLAGS + (CFFI_FLAGS if ext.name.endswith("._core") else [])
        ext.extra_link_args = ["-pthread", *os.environ.get("ORBITMQ_CFLAGS", "").split()]
        # What is older than one of these is built again.
        ext.depends = [*CORE, *map(str, Path("native").glob("**/*.h"))]
        if self.force or self._is_old(ext):
            ext.extra_objects = self.core
        super().build_extension(ext)

    @cached_property
    def core(self) -> list[str]:
        """The objects of the core."""
        return self.compiler.compile(
            CORE, output_dir=str(Path(self.build_temp, "core")), include_dirs=["native"], debug=self.debug, extra_postargs=FLAGS
        )

    def _is_old(self, ext: Extension) -> bool:
        made = Path(self.get_ext_fullpath(ext.name))
        return not made.exists() or any(
            Path(each).stat().st_mtime > made.stat().st_mtime for each in (*ext.sources, *ext.depends)
        )


setup(
    cffi_modules=["native/build_core.py:ffibuilder"],
    ext_modules=[
        Extension(
            "orbitmq.native._fast",
            sources=FAST,
            include_dirs=["native"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
