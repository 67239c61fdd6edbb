"""Goal: access rules are applied as RocketMQ does: who may do what, and whose signature is right.

Method: known signatures; a readable model beside the C functions, for any rules and requests, with headers of both forms, and
with requests that were changed after they were signed.
"""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.actors.gateway.guard import table
from orbitmq.native._core import ffi, lib
from orbitmq.remoting import plain_acl
from orbitmq.remoting.address_pattern import Range
from tests.native import acl_model, remoting_model
from tests.native.acl_model import Account, Model
from tests.native.remoting_model import BINARY, JSON, Header

NAMES = st.sampled_from(["orders", "orders2", "o", "日本", "%RETRY%g1", "%RETRY%", "g1", "g2", "zz"])
GROUPS = st.sampled_from(["g1", "g2", "orders", "日本"])
KEYS = st.sampled_from(["account1", "account2", "account22", "日本日本日本日"])
SECRETS = st.sampled_from(["12345678", "secret-of-one", "x" * 64, "y" * 65, "日本" * 5])
PERMISSION = st.sampled_from(["PUB", "SUB", "PUB|SUB", "SUB|PUB", "DENY"])
PEERS = st.sampled_from(["127.0.0.1:5", "10.1.2.3:65535", "[::ffff:10.1.2.3]:7", "[fe80::1:2]:9", "[::1]:1", "192.168.0.77:1"])
NETWORKS = st.sampled_from(["127.0.0.1/32", "10.1.2.0/24", "10.0.0.0/8", "fe80::/16", "::1/128", "0.0.0.0/0"])
CODES = st.sampled_from(
    [10, 310, 320, 324, 11, 12, 14, 15, 17, 25, 30, 34, 35, 36, 37, 38, 41, 105, 106, 200, 205, 215, 400, 401, 999]
)
FIELDS = st.sampled_from(
    ["topic", "b", "consumerGroup", "group", "originTopic", "a", "A", "Z", "zz", "_UNIQUE_KEY_QUERY", "SecurityToken"]
)

NO_NETWORKS: st.SearchStrategy[list[str]] = st.just([])

accounts = st.builds(
    Account,
    KEYS,
    SECRETS,
    st.booleans(),
    NO_NETWORKS | st.lists(NETWORKS, max_size=2),
    st.dictionaries(st.none() | NAMES.filter(lambda name: not name.startswith("%RETRY%g")), PERMISSION, max_size=4),
    st.dictionaries(st.none() | GROUPS, PERMISSION, max_size=4),
)
models = st.builds(
    Model, NO_NETWORKS | st.lists(NETWORKS, max_size=1), st.lists(accounts, max_size=4, unique_by=lambda each: each.access)
)


def rules(model: Model) -> plain_acl.Rules:
    """What the file's reader would make of it."""
    return plain_acl.Rules(_ranges(model.networks), tuple(map(_account, model.accounts)))


def _account(told: Account) -> plain_acl.Account:
    named = {
        (kind == "group", name): plain_acl.PERMISSIONS[text]
        for kind, has in (("topic", told.topics), ("group", told.groups))
        for name, text in has.items()
        if name is not None
    }
    default = [plain_acl.PERMISSIONS[has.get(None, "DENY")] for has in (told.topics, told.groups)]
    return plain_acl.Account(told.access, told.secret, _ranges(told.networks), told.admin, default[0], default[1], named)


def _ranges(networks: list[str]) -> tuple[Range, ...]:
    """Of prefixes that end between two parts."""
    found = []
    for each in map(ipaddress.ip_network, networks):
        size = 1 if each.version == 4 else 2
        first, last = (
            tuple(int.from_bytes(packed[i : i + size]) for i in range(0, len(packed), size))
            for packed in (each.network_address.packed, each.broadcast_address.packed)
        )
        found.append(Range(first, last))
    return tuple(found)


def written(form: int, code: int, fields: list[tuple[str, str]]) -> bytes:
    told = Header(code, fields={name.encode(): value.encode() for name, value in fields})
    return (remoting_model.write_json if form == JSON else remoting_model.write_binary)(told)


class Request:
    """A request as C has read it."""

    def __init__(self, form: int, header: bytes, body: bytes) -> None:
        self._memory = ffi.new("uint8_t[]", header)
        self.header = ffi.new("struct remoting_header *")
        assert lib.remoting_header_read(self._memory, len(header), form, self.header)
        self._body = ffi.from_buffer("uint8_t[]", body)
        self.body = ffi.new("struct slice *", {"data": self._body, "size": len(body)})[0]


def verdict(acl: Any, peer: str, request: Request) -> tuple[str, str]:
    what = ffi.new("struct slice *")
    found = lib.acl_check(acl, peer.encode(), request.header, request.body, what)
    name = ffi.typeof("enum acl_verdict").elements[found].removeprefix("ACL_")
    said = "" if name in ("ALLOWED", "NO_KEY") else bytes(ffi.buffer(what.data, what.size)).decode()
    return name, said


@settings(max_examples=1000, deadline=None)
@given(
    models,
    PEERS,
    st.sampled_from([JSON, BINARY]),
    CODES,
    st.dictionaries(FIELDS, NAMES, max_size=6),
    st.binary(max_size=100),
    st.integers(0, 5),
    st.integers(0, 5),
    st.tuples(GROUPS, NAMES),
)
def test_as_the_model(
    model: Model,
    peer: str,
    form: int,
    code: int,
    fields: dict[str, str],
    body: bytes,
    asker: int,
    damage: int,
    asked: tuple[str, str],
) -> None:
    if asker < 5:
        account = model.accounts[asker % len(model.accounts)] if model.accounts else Account("account1", "anything")
        fields["AccessKey"] = account.access if asker < 4 else "account22"
        fields["Signature"] = acl_model.signature(account.secret, fields, body)
    if damage == 1:
        body += b"!"
    elif damage == 2 and "Signature" in fields:
        right = fields["Signature"]
        at = len(body) % len(right)
        fields["Signature"] = right[:at] + ("A" if right[at] != "A" else "B") + right[at + 1 :]
    acl = ffi.gc(table(rules(model)), lib.acl_free)
    request = Request(form, written(form, code, list(fields.items())), body)
    assert verdict(acl, peer, request) == model.verdict(peer, code, fields, body)
    for kind, name in zip(("GROUP", "TOPIC"), asked, strict=True):
        piece = ffi.from_buffer("uint8_t[]", name.encode())
        told = ffi.new("struct slice *", {"data": piece, "size": len(piece)})[0]
        assert lib.acl_permits(acl, peer.encode(), request.header, kind == "GROUP", told, lib.ACL_SUB) == model.permits(
            peer, fields, kind, name
        )


@pytest.mark.parametrize(
    ("code", "fields", "signature"),
    [
        (105, {"topic": "TBW102", "AccessKey": "rocketmq2"}, "/u5P/wZUbhjanu4LM/UzEdo2u2I="),
        (106, {"AccessKey": "rocketmq2"}, "Ou1T58RIcyZWaTIwzkhJZWn/Zvs="),
    ],
)
def test_signatures_that_rocketmq_made(code: int, fields: dict[str, str], signature: str) -> None:
    assert acl_model.signature("12345678", fields, b"") == signature
    one = Account("rocketmq2", "12345678")
    acl = ffi.gc(table(rules(Model([], [one]))), lib.acl_free)
    asked = 999  # which is not open to all
    signed = Request(JSON, written(JSON, asked, [*fields.items(), ("Signature", signature)]), b"")
    assert verdict(acl, "127.0.0.1:1", signed) == ("ALLOWED", "")


def test_a_field_that_occurs_twice() -> None:
    """The last one counts, for the signature and for what it names: as in Java's map."""
    one = Account("account1", "12345678", topics={"mine": "PUB"})
    acl = ffi.gc(table(rules(Model([], [one]))), lib.acl_free)
    for first, last, found in (("mine", "yours", ("NO_TOPIC", "yours")), ("yours", "mine", ("ALLOWED", ""))):
        told = {"b": last, "AccessKey": "account1"}
        told["Signature"] = acl_model.signature("12345678", told, b"")
        text = written(JSON, 310, list(told.items())).replace(b'"extFields":{', b'"extFields":{"b":"%s",' % first.encode())
        assert text.count(b'"b":') == 2
        assert verdict(acl, "127.0.0.1:1", Request(JSON, text, b"")) == found


def test_the_most_fields() -> None:
    one = Account("account1", "12345678", topics={None: "PUB"})
    acl = ffi.gc(table(rules(Model([], [one]))), lib.acl_free)
    told = {f"field{number * 37 % 62:02}": str(number) for number in range(62)} | {"AccessKey": "account1"}
    told["Signature"] = acl_model.signature("12345678", told, b"body")
    request = Request(JSON, written(JSON, 310, list(told.items())), b"body")
    assert request.header.field_count == remoting_model.FIELDS_MAX
    assert verdict(acl, "127.0.0.1:1", request) == ("ALLOWED", "")


def test_a_peer_without_an_address() -> None:
    """Nothing is known of it: it is on no list."""
    everywhere = plain_acl.Rules((Range((0,) * 4, (255,) * 4), Range((0,) * 8, (0xFFFF,) * 8)))
    acl = ffi.gc(table(everywhere), lib.acl_free)
    for peer in ("", "x", ":1", "[::1", "300.1.1.1:5", "[" + "1" * 100 + "]:5"):
        assert verdict(acl, peer, Request(JSON, written(JSON, 999, []), b"")) == ("NO_KEY", "")
    assert verdict(acl, "1.2.3.4:5", Request(JSON, written(JSON, 999, []), b"")) == ("ALLOWED", "")
