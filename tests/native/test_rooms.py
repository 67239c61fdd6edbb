"""Goal: the C core keeps its shape: folders, includes, names and memory orders. Method: the sources themselves are read, and
compared with tables here and with native/README.md. tests/test_tidy.py holds what is common to all languages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.benchmark import codec
from tests.sources import ROOT, short, sources

# What each folder of the C core may include of the others; native/README.md says what is where.
NATIVE = ROOT / "native"
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "format": {"base"},
    "shared": {"base", "format"},
    "actors": {"base", "format", "shared"},
    "client": {"base", "format", "shared"},
    "check": {"base", "format"},
    "remoting": {"base", "format", "shared", "actors", "client"},
    "python": {"base", "format", "shared", "client"},
}


def room_of(path: Path) -> str:
    return path.relative_to(NATIVE).parts[0]


def in_room(path: Path) -> bool:
    return path.is_relative_to(NATIVE) and room_of(path) in MAY_INCLUDE


def wrong_includes(room: str, text: str) -> list[str]:
    """What a file of this folder includes although it must not; a path with .. in it, wherever it leads."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
    rooms = MAY_INCLUDE[room] | {room}
    return [name for name in names if ".." in name.split("/") or name.partition("/")[0] not in rooms]


def test_includes_point_one_way() -> None:
    """Goal: the folders of native/ show the architecture. Method: every include of every C file is compared with the table
    above."""
    files = [path for path in sources(".c", ".h") if in_room(path)]
    assert {room_of(path) for path in files} == set(MAY_INCLUDE)
    wrong = [f"{short(path)}: {name}" for path in files for name in wrong_includes(room_of(path), path.read_text())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("room", "include"),
    [
        ("base", "shared/bell.h"),
        ("shared", "client/reader.h"),
        ("client", "actors/run.h"),
        ("check", "shared/ring.h"),
        ("base", "../shared/bell.h"),
        ("base", "base/../shared/bell.h"),
        ("actors", "../shared/bell.h"),
        ("actors", "run.h"),
    ],
)
def test_a_wrong_include_is_seen(room: str, include: str) -> None:
    assert wrong_includes(room, f'#include <stdint.h>\n#include "{include}"\n') == [include]


def section(title: str) -> str:
    """Of native/README.md."""
    return (NATIVE / "README.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed_folders(text: str) -> list[str]:
    """Folders that the rows of a table begin with; each link leads to the folder of its name."""
    links = re.findall(r"^\| \[(\w+)\]\(([^)]*)\) \|", text, re.MULTILINE)
    assert all(name == target for name, target in links), links
    return [name for name, _ in links]


def drawn_includes(drawing: str) -> dict[str, set[str]]:
    """What each folder may include by a drawing of arrows, at whatever distance. A line that begins with an arrow continues
    the line above that has an arrow in the same column."""
    direct: dict[str, set[str]] = {}
    left_of: dict[int, list[str]] = {}
    for line in drawing.splitlines():
        arrows = [found.start() for found in re.finditer("<-", line)]
        names = [re.findall(r"\w+", piece) for piece in line.split("<-")]
        for number, column in enumerate(arrows):
            left_of[column] = names[number] or left_of[column]
            for name in names[number + 1]:
                direct.setdefault(name, set()).update(left_of[column])

    def reached(name: str) -> set[str]:
        return set().union(*({near, *reached(near)} for near in direct.get(name, ())))

    every = set().union(*direct.values(), direct)
    return {name: reached(name) for name in every}


def test_the_page_of_the_core_names_its_folders() -> None:
    """Goal: native/README.md shows every folder, and none that is gone. Method: its table against the folders with sources."""
    inside = {path.relative_to(NATIVE).parts for path in sources() if path.is_relative_to(NATIVE)}
    assert sorted(listed_folders(section("The folders"))) == sorted({parts[0] for parts in inside if len(parts) > 1})


def test_the_page_of_the_core_draws_its_includes() -> None:
    """Goal: native/README.md says which folder may include which. Method: its drawing against the table above."""
    drawing = section("Which folder may include which").split("```")[1]
    assert drawn_includes(drawing) == MAY_INCLUDE
    assert drawn_includes(drawing.replace("client <- python", "python")) != MAY_INCLUDE


def test_a_drawing_is_read() -> None:
    drawing = "a <- b <- c\n       <- d <- e\n  c, d <- f\n"
    near = {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "b"}, "e": {"a", "b", "d"}}
    assert drawn_includes(drawing) == {**near, "f": {"a", "b", "c", "d"}}
    assert listed_folders("| folder |\n| --- |\n| [a](a) | x |\n") == ["a"]


@pytest.mark.parametrize("path", [path for path in sources(".h") if in_room(path)], ids=short)
def test_header_has_its_guard(path: Path) -> None:
    """Goal: any header may be included anywhere, once. Method: its guard has its name and closes with the file."""
    guard = f"ORBITMQ_{path.stem.upper()}_H"
    text = path.read_text()
    assert text.startswith("/*"), "a header begins by saying what it owns"
    assert f"#ifndef {guard}\n#define {guard}\n" in text and text.rstrip().endswith("#endif")


# Symbols whose first word is neither their file's noun nor that of a struct in sight.
OTHER_NOUNS = {
    "dispatcher_order_look.c": {"order"},  # a part of dispatcher_order.h
    "properties.c": {"java"},  # java_hash, which is Java's String.hashCode
}


def c_functions(text: str) -> list[str]:
    """Names of the functions that a C file defines for other files."""
    pattern = r"^(?![^\n(]*\bstatic\b)(?!typedef|return|else|struct \w+ \{)[a-zA-Z][\w \*]*?[ \*](\w+)\([^;{]*?\)\s*\{"
    return re.findall(pattern, text, re.MULTILINE)


def core_sources() -> list[Path]:
    """The C files that know no Python; the others hold entry points that their module's table names."""
    return [path for path in sources(".c") if in_room(path) and room_of(path) != "python"]


class Header(NamedTuple):
    includes: list[Path]
    nouns: set[str]  # first words of its structs and enums
    calls: set[str]  # names with an opening parenthesis behind them, as functions have


@cache
def headers() -> dict[Path, Header]:
    texts = {path: path.read_text() for path in NATIVE.rglob("*.h")}
    return {
        path: Header(
            [NATIVE / name for name in re.findall(r'#include "([\w/]+\.h)"', text)],
            {name.split("_")[0] for name in re.findall(r"\b(?:struct|enum) (\w+)", text)},
            set(re.findall(r"\b(\w+)\(", text)),
        )
        for path, text in texts.items()
    }


@pytest.mark.parametrize("path", core_sources(), ids=short)
def test_symbols_carry_their_noun(path: Path) -> None:
    """Goal: a symbol's first word says where it is. Method: it is the file's noun, or that of a struct which the file's own
    header declares or includes; and some header declares the function."""
    known = headers()
    seen = [own] if (own := path.with_suffix(".h")) in known else []
    for header in seen:  # grows while it is walked
        seen += [name for name in known[header].includes if name in known and name not in seen]
    nouns = {path.stem.split("_")[0], path.stem.rstrip("s").split("_")[0]} | OTHER_NOUNS.get(path.name, set())
    nouns = nouns.union(*(known[header].nouns for header in seen))
    for name in c_functions(path.read_text()):
        assert name.split("_")[0] in nouns, f"{name} in {path.name}"
        assert any(name in header.calls for header in known.values()), f"no header declares {name}"


def misplaced(header: str, defined: dict[str, set[str]]) -> list[str]:
    """Functions that a header declares under the heading of a file that does not define them."""
    parts = re.split(r"/\* ---- (\w+\.c) +---- \*/", header)
    names = ((file, name) for file, part in zip(parts[1::2], parts[2::2], strict=True) for name in declared(part))
    return [f"{name} under {file}" for file, name in names if name not in defined.get(file, set())]


def declared(text: str) -> list[str]:
    """Names of the functions that a part of a header declares."""
    return re.findall(r"^(?!static\b|typedef\b)[a-zA-Z][\w \*]*?[ \*](\w+)\([^;{]*?\);", text, re.MULTILINE)


def test_a_section_of_a_header_has_its_file() -> None:
    """Goal: who looks for a function finds it in the file under whose name a header declares it. Method: the sections of all
    headers that have such, against the files."""
    defined: dict[str, set[str]] = {path.name: set(c_functions(path.read_text())) for path in sources(".c") if in_room(path)}
    texts = {path: path.read_text() for path in sources(".h") if in_room(path)}
    assert len([text for text in texts.values() if re.search(r"/\* ---- \w+\.c +---- \*/", text)]) >= 7
    wrong = [f"{short(path)}: {name}" for path, text in texts.items() for name in misplaced(text, defined)]
    assert not wrong, "\n".join(wrong)


def test_a_misplaced_declaration_is_seen() -> None:
    header = (
        "/* ---- a.c ---- */\nint a(void);\nint b(const char *name,\n      int size);\n/* ---- b.c ---- */\nvoid *b(void);\n"
    )
    defined = {
        "a.c": set(c_functions("int a(void) { return 0; }\nstatic int b(void)\n{\n}\n")),
        "b.c": set(c_functions("void *b(void)\n{\n}\n")),
    }
    assert misplaced(header, defined) == ["b under a.c"]


class Word(NamedTuple):
    """Where a word of docs/glossary.md that meant several things once may stand in native/."""

    pattern: str
    places: set[str]  # folders or files
    elsewhere: str  # what it is called there, or what the word means
    comments: bool = True  # whether they are held to it, too


ONE_MEANING = {
    "batch": Word(
        r"(?i:\bbatch)",
        {"python", "remoting"},
        "a write group (actors), a fetch (client), a record batch (Arrow); or it says atomic batch",
    ),
    # The tree is the processes of a broker. tree_state and TREE_RUNNING are about these, so only the bare name is looked for.
    "tree": Word(r"\btree\b", set(), "a struct attachment is an attachment", comments=False),
    "waiter": Word(
        r"(?i:(?<![a-z])waiter)",
        {"shared/lock.c", "shared/lock.h"},
        "a queue's audience, a held pull, a send that waits for the disk",
    ),
}
COMMENTS = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def other_meanings(path: str, text: str) -> list[str]:
    """Words in a C file, given by its path in native/, that stand for something else in another place."""
    text = re.sub("record batch|(?i:atomic batch)", "", text)
    code = COMMENTS.sub("", text)
    here = {path, path.partition("/")[0]}
    words = [(name, word) for name, word in ONE_MEANING.items() if not here & word.places]
    return [name for name, word in words if re.search(word.pattern, text if word.comments else code)]


def test_a_word_has_one_meaning() -> None:
    """Goal: who searches for a word finds one thing. Method: each file of native/ against the table above."""
    paths = [path.relative_to(NATIVE) for path in sources(".c", ".h") if in_room(path)]
    wrong = [f"{path}: {name}" for path in paths for name in other_meanings(str(path), (NATIVE / path).read_text())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("actors/writer/writer.c", "struct batch {", ["batch"]),
        ("python/producer/batch.h", "struct batch {", []),
        ("actors/flush.c", "flush->tree->control", ["tree"]),
        ("actors/flush.h", "struct flush *flush_open(struct attachment *tree);", ["tree"]),
        ("shared/topics.h", "_Atomic uint64_t waiter;", ["waiter"]),
        ("actors/reput/reput.c", "    wake_waiters(reput);", ["waiter"]),
        ("actors/flush.c", "/* a Waiter */", ["waiter"]),
        ("shared/lock.c", "/* a waiter sleeps */", []),
        ("actors/flush.c", 'switch (control_tree_state(control)) /* of the tree; */ note("the tree;");', []),
    ],
)
def test_another_meaning_is_seen(path: str, text: str, found: list[str]) -> None:
    assert other_meanings(path, text) == found


def test_every_atomic_has_its_order() -> None:
    """Goal: memory orders are chosen, never inherited from a default. Method: no bare atomic_load and the like in native/."""
    fences = ("atomic_thread_fence", "atomic_signal_fence", "atomic_init", "atomic_is_lock_free")
    wrong = []
    for path in sources(".c", ".h"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in re.findall(r"\b(atomic_\w+)\(", line):
                if not name.endswith("_explicit") and name not in fences:
                    wrong.append(f"{short(path)}:{number}: {name}")
    assert not wrong, "\n".join(wrong)


def test_a_benchmark_finds_the_core() -> None:
    """Goal: whoever moves a file hears of it here, and not from scripts/bench codec. Method: the files that it compiles."""
    assert {"gateway_wish.c", "properties.c", "remoting_header.c", "topics.c"} <= {path.name for path in codec.core()}


def test_a_benchmark_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "SOURCES", ("base/*.c", "gone/*.c"))
    with pytest.raises(FileNotFoundError, match=r"native/ has no gone/\*\.c$"):
        codec.core()
