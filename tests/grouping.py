"""Which tests one worker runs, one after the other: those of a module that share a fixture which has an end, a broker for
example. Otherwise each worker would make one of its own for the few of these tests that it gets."""

from __future__ import annotations

import inspect

import pytest


class Grouping:
    """A pytest plugin. Tests with a mark `xdist_group` of their own keep it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("xdist_group") is None and _shares(item):
                module = item.getparent(pytest.Module)
                assert module is not None
                item.add_marker(pytest.mark.xdist_group(module.nodeid))


def _shares(item: pytest.Item) -> bool:
    known = getattr(item, "_fixtureinfo", None)
    used = [] if known is None else [known.name2fixturedefs.get(name, ()) for name in item.fixturenames]
    return any(each[-1].scope == "module" and inspect.isgeneratorfunction(each[-1].func) for each in used if each)
