"""Goal: patterns of addresses name the addresses that they show.

Method: RocketMQ's forms, with addresses in and beside each."""

from __future__ import annotations

import ipaddress

import pytest

from orbitmq.remoting.address_pattern import Range, ranges


def is_in(address: str, found: list[Range]) -> bool:
    told = ipaddress.ip_address(address)
    size = 1 if told.version == 4 else 2
    parts = [int.from_bytes(told.packed[i : i + size]) for i in range(0, len(told.packed), size)]
    return any(
        len(parts) == len(each.least) and all(a <= b <= c for a, b, c in zip(each.least, parts, each.most, strict=True))
        for each in found
    )


@pytest.mark.parametrize(
    ("pattern", "within", "beside"),
    [
        ("", "", "127.0.0.1 ::1 0.0.0.0 ::"),
        (" \t", "", "127.0.0.1 ::1"),
        ("*", "127.0.0.1 255.255.255.255 ::1 ffff::", ""),
        ("*.*.*.*", "127.0.0.1 ::1", ""),
        ("*:*:*:*:*:*:*:*", "127.0.0.1 ::1", ""),
        ("192.168.1.5", "192.168.1.5", "192.168.1.50 192.168.1.4 ::c0a8:105"),
        ("192.168.1.*", "192.168.1.0 192.168.1.255", "192.168.2.0 192.168.0.255"),
        ("192.168.*.*", "192.168.0.0 192.168.255.255", "192.169.0.0"),
        ("192.*.1.2", "192.7.1.2", "192.7.1.3"),
        ("192.168.1.10-20", "192.168.1.10 192.168.1.20", "192.168.1.9 192.168.1.21"),
        ("192.168.1-3.*", "192.168.1.9 192.168.3.9", "192.168.4.9"),
        ("192.168.1.{1, 7}", "192.168.1.1 192.168.1.7", "192.168.1.2"),
        ("10.0.0.1, 10.0.0.9", "10.0.0.1 10.0.0.9", "10.0.0.2"),
        ("::1", "::1", "::2 0.0.0.1"),
        ("1050:0000:0000:0000:0005:0600:300c:3261", "1050::5:600:300c:3261", "1050::5:600:300c:3262"),
        ("1050::5:600:300c:3261-3263", "1050::5:600:300c:3263", "1050::5:600:300c:3264"),
        ("fe80::*", "fe80::ffff", "fe80::1:0 fe81::1"),
        ("fe80:*:*:*:*:*:*:*", "fe80::1 fe80:9:9:9:9:9:9:9", "fe81::1"),
        ("fe80::{1,a}", "fe80::1 fe80::a", "fe80::2"),
    ],
)
def test_patterns(pattern: str, within: str, beside: str) -> None:
    found = ranges(pattern)
    assert [address for address in within.split() if not is_in(address, found)] == []
    assert [address for address in beside.split() if is_in(address, found)] == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("192.168.1", "3 parts, not 4"),
        ("1.2.3.4.5", "5 parts, not 4"),
        ("192.168.1.256", "no part"),
        ("192.168.1.-1", "no part"),
        ("192.168.1.+1", "no part"),
        ("192.168.1. ", "no part"),
        ("192.168.1.\u0661", "no part"),
        ("192.168.1.20-10", "begins above its end"),
        ("192.168.1.1-", "no part"),
        ("192.168.1.0/24", "no part"),
        ("localhost", "1 parts"),
        ("1:2:3", "3 parts, not 8"),
        ("1:2:3:4:5:6:7:8::", "nothing is left"),
        ("1::2::3", "no part"),
        ("::12345", "no part"),
        ("::g", "no part"),
        ("1.2.3.{1,2", "no part"),
        ("{1,2}.3.4.5", "1 parts"),
        ("1.2.3.4,,5.6.7.8", "1 parts"),
    ],
)
def test_what_is_none(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match="is no address") as refused:
        ranges(pattern)
    assert why in str(refused.value)
