"""Why a text is no filter of SQL92."""

from __future__ import annotations

from orbitmq.native._core import ffi, lib


def refusal(text: str) -> str | None:
    """None: it is one."""
    encoded = text.encode(errors="surrogatepass")
    fault = ffi.new("struct sql_fault *")
    program = lib.sql_compile(encoded, len(encoded), fault)
    if program != ffi.NULL:
        lib.sql_free(program)
        return None
    if fault.memory:
        return "the broker has no memory for the filter"
    found = encoded[fault.at : fault.at + fault.size].decode(errors="replace") or "the end"
    why = f"expected {_said(fault.expected)}" if fault.expected != ffi.NULL else _said(fault.why)
    return f"the filter cannot be read at byte {fault.at}, {found!r}: {why}"


def _said(text: object) -> str:
    return str(ffi.string(text).decode()) if text != ffi.NULL else ""
