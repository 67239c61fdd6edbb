"""Describes the cffi module `orbitmq.native._core`: its glue and its cdef. setup.py adds the C files that know no Python.

The cdef is split by noun into native/cdef/*.h; build order is alphabetical, so a type that several nouns share stands in
00_types.h.
"""

from pathlib import Path

from cffi import FFI

# pip builds from the project's root, where sources must be named relative to setup.py.
ROOT = Path("native")

ffibuilder = FFI()
ffibuilder.cdef("\n".join(path.read_text() for path in sorted(ROOT.glob("cdef/*.h"))))
ffibuilder.set_source(
    "orbitmq.native._core",
    (ROOT / "core_glue.c.inc").read_text(),
    include_dirs=[str(ROOT)],
)
