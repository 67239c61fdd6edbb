"""Copies the docstrings of the extension module into the stub native/_types.pyi. tests/client/test_help.py compares them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

from orbitmq.native import _types

STUB = Path(__file__).resolve().parent.parent / "native" / "_types.pyi"
USERS_MEET = ("Message", "Pending", "PendingBatch", "ProducerBase")


def documented(text: str) -> str:
    """The stub's text with the docstrings that the extension module has now."""
    lines = text.splitlines()
    # From the end on, so that the line numbers before a change stay valid.
    for kind in reversed([each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]):
        if kind.name in USERS_MEET:
            for member in reversed([each for each in kind.body if isinstance(each, ast.FunctionDef)]):
                if not member.name.startswith("_"):
                    doc = inspect.getdoc(getattr(getattr(_types, kind.name), member.name))
                    _put(lines, member, doc or "")
    return "\n".join(lines) + "\n"


def _put(lines: list[str], member: ast.FunctionDef, doc: str) -> None:
    indent = " " * (member.col_offset + 4)
    body = member.body[0]
    head = lines[body.lineno - 1][: body.col_offset].rstrip()
    quoted = doc.replace("\\", "\\\\").replace('"""', '\\"""')
    closing = '\n"""' if "\n" in doc else '"""'
    text = textwrap.indent(f'"""{quoted}{closing}', indent, lambda line: bool(line.strip())).splitlines()
    lines[body.lineno - 1 : body.end_lineno] = [*([head] if head else []), *text]


if __name__ == "__main__":
    STUB.write_text(documented(STUB.read_text()))
