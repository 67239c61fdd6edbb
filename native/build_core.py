"""Describes the native half, one shared object that holds two Python modules over one C core:

    orbitmq.native._core    cffi's: the functions and structs that native/cdef declares, for calls that are rare
    orbitmq.native._types   native/python: types whose methods are called once a message, for which cffi would cost too much

The second module is loaded from the first one's file (native/_types.py). cdef is split by noun. Its files are joined in
alphabetical order, so a type that several nouns share is in 00_types.h.
"""

from pathlib import Path

from cffi import FFI

# pip builds from the project's root, where sources must be named relative to setup.py.
ROOT = Path("native")
ROOMS = ("base", "format", "shared", "actors", "client", "check", "remoting", "python")

ffibuilder = FFI()
ffibuilder.cdef("\n".join(path.read_text() for path in sorted(ROOT.glob("cdef/*.h"))))
ffibuilder.set_source(
    "orbitmq.native._core",
    (ROOT / "core_glue.c.inc").read_text(),
    sources=[str(path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.c"))],
    include_dirs=[str(ROOT)],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],
    py_limited_api=True,
)
