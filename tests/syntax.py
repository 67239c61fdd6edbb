"""The syntax trees of sources, for tests that read the project's own code. Each text is parsed once in a process; the tests
that ask for those of the whole project are one worker's."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.collecting import kept_objects

of_all_sources = pytest.mark.xdist_group("syntax")


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Every node of a module, in the order of ast.walk: the module itself first."""
    with kept_objects():
        return tuple(ast.walk(ast.parse(text)))


def parsed(text: str) -> ast.Module:
    first = nodes(text)[0]
    assert isinstance(first, ast.Module)
    return first
