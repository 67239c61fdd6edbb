"""Goal: tests that share a module's broker run in one worker, and others are free; of tests/interop, one worker has the judge,
and others run those that ask another client. Method: pytest collects a module with tests of each kind, and that folder."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.grouping import Grouping

INTEROP = Path(__file__).parent / "interop"
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
        self.tests: dict[str | None, set[str]] = defaultdict(set)
        self.fixtures: dict[str, tuple[str, ...]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            mark = item.get_closest_marker("xdist_group")
            self.groups[item.name] = None if mark is None else mark.args[0]
            test = item.nodeid.rpartition("/")[2]
            self.tests[self.groups[item.name]].add(test)
            self.fixtures[test] = tuple(getattr(item, "fixturenames", ()))


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


def test_the_groups_of_interop() -> None:
    seen = Seen()
    arguments = ["--collect-only", "-qq", "-p", "no:cacheprovider", f"--rootdir={INTEROP.parents[1]}", str(INTEROP)]
    assert pytest.main(arguments, plugins=[seen]) == 0
    of = {group: {test.partition("::")[0] for test in tests} for group, tests in seen.tests.items()}
    assert of["client5"] == {"test_client5.py"} and of["tests/interop/test_go.py"] == {"test_go.py"}
    assert all(group == "interop" or len(files) == 1 for group, files in of.items()), of
    judged = {test for test, names in seen.fixtures.items() if {"judge", "victim", "tools"}.intersection(names)}
    assert judged and judged == seen.tests["interop"]
