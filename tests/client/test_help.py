"""Goal: `help()` and `inspect.signature()` work for everything that users get, whether it is Python or C. Method: a walk over
orbitmq.__all__, and over the types that their calls return."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import orbitmq
from orbitmq.client import receipt
from orbitmq.client.admin import status
from orbitmq.native import _types
from orbitmq.store.commit_log.record import encode
from scripts.stub_docstrings import documented
from tests.sources import ROOT
from tests.syntax import nodes

# What calls of C types return, which have no annotations, and what fields of the status are.
BESIDES = [_types.Pending, _types.PendingBatch, receipt.Receipts, status.GroupStatus, status.MemberStatus]
NOT_FOR_PROGRAMS = {"Connection"}  # Client.connection: the library's own parts use it
SENDS = ("send", "send_async", "send_oneway", "send_batch", "send_batch_async")


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public attributes of a class, inherited ones included, in their definition."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("orbitmq")]
    for name in sorted({name for each in ours for name in vars(each)}):
        if not name.startswith("_"):
            yield name, inspect.getattr_static(kind, name)


def named(name: str, module: ModuleType) -> object:
    """What a name of an annotation means in this module, also if the module imports it only for type checkers."""
    for node in nodes(inspect.getsource(module)):
        if isinstance(node, ast.ImportFrom) and node.module and name in [each.name for each in node.names]:
            return getattr(importlib.import_module(node.module), name)
    return getattr(module, name, None)


def returned(kind: type) -> Iterator[type]:
    """Our types in the return annotations of the public methods and properties of this one."""
    for _, member in members(kind):
        function = inspect.unwrap(member.fget if isinstance(member, property) else getattr(member, "__func__", member))
        if not inspect.isfunction(function):
            continue
        for name in re.findall(r"[A-Z]\w+", str(function.__annotations__.get("return"))):
            found = named(name, sys.modules[function.__module__])
            if isinstance(found, type) and found.__module__.startswith("orbitmq.") and name not in NOT_FOR_PROGRAMS:
                yield found


def types() -> list[type]:
    """Those that the package names, and those that their calls return."""
    left: list[type] = [each for each in (getattr(orbitmq, name) for name in orbitmq.__all__) if isinstance(each, type)]
    left += [getattr(orbitmq.aio, name) for name in orbitmq.aio.__all__ if name != "connect"] + BESIDES
    found: set[type] = set()
    while left:
        kind = left.pop()
        if kind not in found:
            found.add(kind)
            left += returned(kind)
    return sorted(found, key=lambda each: (each.__qualname__, each.__module__))


TYPES = types()


def test_returned_types_are_found() -> None:
    """Goal: what calls return is looked at too. Method: types that are known to be returned, directly and by such a type."""
    names = [kind.__name__ for kind in TYPES]
    wanted = {"WorkSession", "HandOut", "AtomicBatch", "Transaction", "TransactionChecker", "DeadLetters", "DeadLetter"}
    assert wanted | {"Backed", "Health", "AsyncDeadLetters", "Status"} <= {*names}
    assert len(names) == len({*names}), "two types of one name"


def public() -> Iterator[Any]:
    for kind in TYPES:
        for name, _ in members(kind):
            yield pytest.param(kind, name, id=f"{kind.__name__}.{name}")


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_types_say_what_they_are(kind: type) -> None:
    text = inspect.getdoc(kind)
    assert text and kind.__name__ in pydoc.render_doc(kind)
    assert not text.startswith(f"{kind.__name__}("), "a dataclass without a docstring of its own"


@pytest.mark.parametrize(("kind", "name"), list(public()))
def test_members_say_what_they_are(kind: type, name: str) -> None:
    """Goal: every public attribute is documented, and every method has its signature."""
    member = getattr(kind, name)
    # The docstring of a dataclass with slots documents its fields.
    text = inspect.getdoc(kind) if inspect.ismemberdescriptor(member) else inspect.getdoc(member)
    assert text, f"{kind.__name__}.{name} has no docstring"
    if inspect.ismemberdescriptor(member):
        return
    assert text[0].isupper() or not callable(member), text
    if callable(member):
        inspect.signature(member)
        assert "(" not in text.splitlines()[0].partition(" ")[0], "a signature that inspect did not take out"
        assert str(inspect.signature(member)).removesuffix(")").split(" ->")[0][:8] in pydoc.render_doc(member)


@pytest.mark.parametrize("name", ["connect", "aio.connect"])
def test_functions_say_what_they_are(name: str) -> None:
    function = orbitmq.aio.connect if name.startswith("aio") else orbitmq.connect
    assert inspect.getdoc(function) and "timeout" in inspect.signature(function).parameters


@pytest.mark.parametrize("name", SENDS)
def test_sends_are_documented_in_full(name: str) -> None:
    """Goal: help(producer.send) is enough to call it. Method: each argument has a line of its own, and errors are named."""
    text = inspect.getdoc(getattr(orbitmq.Producer, name)) or ""
    arguments = set(inspect.signature(getattr(orbitmq.Producer, name)).parameters) - {"self"}
    told = {word.strip() for line in text.splitlines() if ":" in line for word in line.partition(":")[0].split(",")}
    assert arguments <= told, arguments - told
    assert "seconds" in text and "bytes" in text
    raised = text.partition("Raises:")[2]
    assert all(error in raised for error in ("TimedOut", "Full", "PerhapsStored", "UnknownTopic", "MessageTooLarge")), raised


@pytest.mark.parametrize("attribute", ["receipts", "index", "failed", "sent", "pending"])
def test_batches_document_their_error(attribute: str) -> None:
    """Goal: a user who catches the error of a batch finds what it carries in help() and in docs/library.md."""
    for name in ("send_batch", "send_batch_async"):
        assert f"{attribute}:" in (inspect.getdoc(getattr(orbitmq.Producer, name)) or "")
    assert f"{attribute}:" in (inspect.getdoc(_types.PendingBatch.result) or "") or attribute in ("sent", "pending")
    assert re.search(rf"`{attribute}\b.*`", (ROOT / "docs" / "library.md").read_text())


def stub_methods() -> Iterator[tuple[type, ast.FunctionDef]]:
    """Of the types that users meet: what the stub says of their public methods."""
    stub = ast.parse((Path(ROOT) / "native" / "_types.pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and node.name in ("Message", "Pending", "PendingBatch", "ProducerBase"):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and not _is_property(each):
                    yield getattr(_types, node.name), each


def _is_property(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


@pytest.mark.parametrize(("kind", "declared"), [pytest.param(*each, id=each[1].name) for each in stub_methods()])
def test_the_stub_has_the_same_signature(kind: type, declared: ast.FunctionDef) -> None:
    """Goal: type checkers and inspect see one signature. Method: names, kinds and defaults of both."""
    spelled = declared.args
    found = list(inspect.signature(getattr(kind, declared.name)).parameters.values())
    positional = [each.arg for each in [*spelled.posonlyargs, *spelled.args]]
    if found[0].name != "self":  # a class method, bound
        del positional[0]
    named = dict(zip((each.arg for each in spelled.kwonlyargs), spelled.kw_defaults, strict=True))
    defaults = dict(zip(reversed(positional), reversed(spelled.defaults), strict=False)) | named
    assert [each.name for each in found] == [*positional, *named]
    assert {each.name for each in found if each.kind is each.KEYWORD_ONLY} == named.keys()
    assert {each.name: each.default for each in found if each.default is not each.empty} == {
        name: ast.literal_eval(value) for name, value in defaults.items() if value is not None
    }


def test_the_stub_has_the_same_docstrings() -> None:
    """Goal: editors show what help() shows; they look into the stub. Method: the stub against itself with the docstrings of the
    C types; scripts/stub_docs makes it so."""
    text = (ROOT / "native" / "_types.pyi").read_text()
    assert documented(text) == text
    told = {f"{each.name}": ast.get_docstring(each) for _, each in stub_methods()}
    assert told and all(told.values()), told


def test_a_message_has_the_length_of_its_body() -> None:
    """Goal: len(message) is len(bytes(message)); a message without a body is still true. Method: records as they are stored:
    with a body, without one, and with a compressed one."""
    for body, compressed in ((b"a body", False), (b"", False), (b"a body" * 100, True)):
        stored = encode("orders", zlib.compress(body) if compressed else body, sys_flag=1 if compressed else 0)
        message = orbitmq.Message.from_record(stored)
        assert (len(message), bytes(message), bool(message)) == (len(body), body, True)
        assert ("compressed" in repr(message)) == compressed and "'orders'" in repr(message)
