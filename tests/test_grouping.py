"""Goal: tests that share a module's broker run in one worker, and others are free. Method: pytest collects a module with tests
of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.grouping import Grouping

MODULE = """
import pytest

@pytest.fixture(scope="module")
def broker():
    yield 1

@pytest.fixture
def topic(broker):
    return 2

@pytest.fixture(scope="module")
def build():
    return 3

@pytest.fixture
def folder():
    yield 4

def test_direct(broker): pass
def test_through_another(topic): pass
def test_nothing(): pass
def test_without_an_end(build): pass
def test_of_its_own(folder): pass
@pytest.mark.xdist_group("named")
def test_named(broker): pass
"""


class Seen:
    def __init__(self) -> None:
        self.groups: dict[str, str | None] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            mark = item.get_closest_marker("xdist_group")
            self.groups[item.name] = None if mark is None else mark.args[0]


def test_who_is_one_group(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(MODULE)
    seen = Seen()
    arguments = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}", str(tmp_path)]
    assert pytest.main(arguments, plugins=[Grouping(), seen]) == 0
    assert seen.groups == {
        "test_direct": "test_shared.py",
        "test_through_another": "test_shared.py",
        "test_nothing": None,
        "test_without_an_end": None,
        "test_of_its_own": None,
        "test_named": "named",
    }
