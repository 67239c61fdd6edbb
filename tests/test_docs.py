"""Goal: every link of the documents leads where it points. Method: the index is compared with the folder, and every relative
link of every document is followed, to its heading too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import FOLDERS, ROOT, short, sources

DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
MENTION = re.compile(r"\bdocs/[\w./-]+\.(?:md|py|svg)\b")

ROOMS = [*FOLDERS, "tests", "base", "format", "shared", "check", "python", "litmus", "sanitize", "scripts", "cdef"]
SUFFIXES = (".py", ".pyi", ".c", ".h", ".inc", ".litmus", ".md", ".sh", ".toml", "")  # without one: scripts
INVENTED = {"test_docs.py", "test_tidy.py", "test_own_tests.py"}  # they name sources that do not exist


def prose(text: str) -> str:
    """The text without what is in code; lines keep their numbers."""
    text = FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)
    return CODE.sub(lambda found: "x" + "\n" * found.group().count("\n"), text)


def links(text: str) -> Iterator[tuple[int, str]]:
    """Line and target of every relative link."""
    plain = prose(text)
    for pattern in (INLINE, REFERENCE):
        for found in pattern.finditer(plain):
            if not re.match(r"[a-z][a-z+.-]*:", found.group(1)):
                yield plain.count("\n", 0, found.start()) + 1, found.group(1)


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, made as GitHub makes them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        number = next(n for n in range(len(found) + 1) if (f"{slug}-{n}" if n else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere, or out of the checkout."""
    wrong = []
    for line, target in links(text):
        name, _, anchor = target.partition("#")
        goal = (page.parent / name).resolve() if name else page
        if name and (not goal.exists() or not goal.is_relative_to(ROOT)):
            wrong.append(f"{short(page)}:{line}: {target}: there is no {name}")
        elif anchor and (goal.suffix != ".md" or anchor not in anchors(text if goal == page else goal.read_text())):
            wrong.append(f"{short(page)}:{line}: {target}: {name or 'this page'} has no heading #{anchor}")
    return wrong


def test_the_index_names_every_page() -> None:
    """Goal: nobody has to list the folder to know what there is. Method: the links of docs/README.md against the folder."""
    index = DOCS / "README.md"
    pages = {path for path in DOCS.rglob("*.md") if path != index}
    linked = {(DOCS / target.partition("#")[0]).resolve() for _, target in links(index.read_text())}
    assert not {short(path) for path in pages - linked}, "docs/README.md does not name these pages"


@pytest.mark.parametrize("page", sources(".md"), ids=short)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = broken(page, page.read_text())
    assert not wrong, "\n".join(wrong)


def test_pages_that_the_sources_name_are_there() -> None:
    """Goal: no comment, docstring or hint names a page that was renamed. Method: every `docs/...` in a source."""
    wrong = []
    for path in sources(".py", ".c", ".h", ".md"):
        if path == Path(__file__):
            continue  # names some that do not exist
        for number, line in enumerate(path.read_text().splitlines(), 1):
            wrong += [f"{short(path)}:{number}: {name}" for name in MENTION.findall(line) if not (ROOT / name).exists()]
    assert not wrong, "\n".join(wrong)


def sources_that_are_gone(text: str) -> list[str]:
    """Paths of the project's sources in a text that lead nowhere from the root, native/ or tests/."""
    named = re.findall(rf"(?<![\w./-])((?:{'|'.join(ROOMS)})/[\w/]+\.(?:py|c|h))\b(?!\.\w)", text)
    named = [name for name in named if not name.startswith("shared/bench/")]  # beside a checkout, not in it
    return [name for name in named if not any((ROOT / base / name).exists() for base in ("", "native", "tests"))]


def test_sources_that_are_named_are_there() -> None:
    """Goal: no comment, docstring or page names a source that was moved. Method: every path of one, below a folder of ours."""
    wrong = []
    for path in sources(*SUFFIXES):
        if path.name not in INVENTED:
            wrong += [f"{short(path)}: {name}" for name in sources_that_are_gone(path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_a_source_that_is_gone_is_seen() -> None:
    gone = ["client/nobody.py", "native/actors/nobody.c"]
    assert sources_that_are_gone(" and ".join(gone)) == gone
    there = ["client/client.py", "store/repair/log.py", "shared/ring.h", "cli/test_web_page.py", "x/client/nobody.py"]
    assert not sources_that_are_gone(", ".join(there))


def test_the_page_of_the_architecture_names_every_room() -> None:
    """Goal: a newcomer finds the room of a task. Method: its table of folders within folders, against these."""
    page = (DOCS / "architecture.md").read_text().partition("\n## Folders\n")[2].partition("\n## ")[0]
    named = {room for row in page.splitlines() if row.startswith("| `") for room in re.findall(r"`(\w+/\w+)/`", row)}
    rooms = {str(path.parent.relative_to(ROOT)) for folder in ROOMS for path in (ROOT / folder).glob("*/__init__.py")}
    assert named == {room for room in rooms if not room.startswith(("native/", "scripts/", "tests/"))}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see [there](docs/nowhere.md)", 1),
        ("see [there](README.md#no-such-heading)", 1),
        ("see [here](#no-such-heading)\n\n# Another", 1),
        ("see ![a picture](docs/pictures/none.svg)", 1),
        ("see [this][1]\n\n[1]: none.md", 1),
        ("see [a\nlong text](none.md)", 1),
        ("see [out](../../../etc/none.md)", 1),
        ("see [`code`](README.md), [here](#a-heading-of-x--y) and [it](https://example.org/none)\n\n# A heading of `x` + y", 0),
        ("`[no](link.md)`\n\n```\n[no](link.md)\n```\n", 0),
    ],
)
def test_a_broken_link_is_seen(text: str, found: int) -> None:
    """Goal: the tests above can fail. Method: links of every form, as they would be in a page beside README.md."""
    assert len(broken(ROOT / "page.md", text)) == found


TEST = re.compile(r"(?<![\w-])(?:[\w-]+/)*(test_\w+)(\.py)?(?![\w*])")
HYPOTHETICAL = {"test_orders_are_billed", "test_log_damage.py"}  # a user's test; a file that could be added


@cache
def known_tests() -> set[str]:
    """Paths of the test files below tests/, each also without its first folders, and names of the test functions."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        found |= {"/".join(parts[start:]) for start in range(len(parts))}
        found |= set(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    return found


def absent_tests(text: str) -> list[tuple[int, str]]:
    """Line and name of each test function or test file that a page names and that does not exist."""
    found = []
    for name in TEST.finditer(text):
        wanted = name.group() if name[2] else name[1]
        if wanted not in known_tests() | HYPOTHETICAL:
            found.append((text.count("\n", 0, name.start()) + 1, wanted))
    return found


def test_tests_that_the_pages_name_are_there() -> None:
    """Goal: a page that says which test shows something does not name one that was renamed. Method: every name of a test
    function or a test file in the pages, against tests/."""
    wrong = []
    for page in sources(".md"):
        wrong += [f"{short(page)}:{line}: {name}" for line, name in absent_tests(page.read_text())]
    assert not wrong, "\n".join(wrong)


def test_an_absent_test_is_seen() -> None:
    """Goal: the test above can fail, and accepts every form in which pages name tests that exist."""
    text = "a `test_nothing_of_this_name`,\n`tests/test_nowhere.py`, spark/test_docs.py and\n(`test_nothing_either`)"
    assert [line for line, _ in absent_tests(text)] == [1, 2, 2, 3]
    there = "`test_links_lead_somewhere`, test_docs.py, `tests/test_docs.py`, cli/test_dlq.py, `test_gateway*.py`"
    assert absent_tests(there) == [] and {"test_docs.py", "cli/test_dlq.py", "test_links_lead_somewhere"} <= known_tests()
