"""Goal: only who has the token, and came by the console's own name, gets anything. Method: requests to the command as a
process."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.web.guard import HEADERS, Rules, name_of
from orbitmq.cli.web.token_file import token_of
from orbitmq.errors import SettingError
from tests.cli.commands import run
from tests.cli.served import Console

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Of a broker that does not run: what is refused is refused before anybody asks for it."""
    with Console("--name", "absent", "--host", "console.example") as served:
        yield served


def test_without_the_token_nobody_gets_anything(console: Console) -> None:
    right = f"Bearer {console.token}"
    values = (console.token, f"Basic {console.token}", right + "x", right[:-1], "Bearer ", "")
    paths = ("/api/status", "/api/topics/t/messages", "/api/messages/F", "/api/nothing", f"/api/status?token={console.token}")
    for headers in ({}, {"Cookie": f"token={console.token}"}, *({"Authorization": value} for value in values)):
        for path in paths:
            reply = console.request("GET", path, headers)
            assert reply.code == 401 and reply.json["error"]["message"], (headers, path)
    assert console.request("GET", "/api/status", {"Authorization": right}).code == 503, "there is no broker"


def test_other_names_get_nothing(console: Console) -> None:
    """Goal: a page of another site, whose name was made to lead to this machine (DNS rebinding), gets nothing, not even with
    the token, nor the console's files."""
    port = console.port
    others = ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil", "", "localhost|evil.example")
    for host in others:
        for path in ("/", "/api/status", "/console.js"):
            assert console.request("GET", path, host=host).code in (400, 421), (host, path)
    own = ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "console.example:443", "Console.Example.")
    for host in own:
        assert console.request("GET", "/", host=host).code == 200, host
        assert console.request("GET", "/api/status", host=host).code == 503, host


def test_it_only_reads(console: Console) -> None:
    """Goal: whoever has the token cannot change anything unless the console was started so."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/api/status", "/api/topics/orders", "/api/groups/g/reset"):
            reply = console.request(method, path, content={})
            assert reply.code == 403 and reply.json["error"]["option"] == "allow-changes", (method, path)


def test_every_answer_binds_the_browser(console: Console) -> None:
    """Goal: no script that is not the console's own ever runs, and nobody frames, caches or guesses. Method: the headers of
    answers of every kind."""
    for path in ("/", "/console.js", "/console.css", "/icon.svg", "/absent", "/api/status", "/api/absent"):
        for headers in ({}, None):
            reply = console.request("GET", path, headers)
            assert reply.headers.items() >= HEADERS.items(), path
            assert "set-cookie" not in reply.headers and "access-control-allow-origin" not in reply.headers
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy and "http" not in policy
    text = console.request("GET", "/").body.decode()
    assert "<script>" not in text and "<style" not in text and " style=" not in text and "://" not in text


def test_only_its_own_files(console: Console) -> None:
    for path in ("/../command.py", "/%2e%2e/command.py", "//etc/passwd", "/page/index.html", "/..%2fcommand.py"):
        assert console.request("GET", path).code == 404, path


@pytest.mark.parametrize(
    ("host", "name"),
    [("localhost", "localhost"), ("A.B:80", "a.b"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("a.b.", "a.b"), ("a:b", "a:b")],
)
def test_the_name_of_a_host(host: str, name: str) -> None:
    assert name_of(host) == name


def test_tokens_are_compared_whole_and_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: hmac.compare_digest is asked for every token, with all of it."""
    from orbitmq.cli.web import guard

    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(guard.hmac, "compare_digest", compare)
    rules = Rules(TOKEN)
    given = [f"Bearer {TOKEN}", f"bearer {TOKEN}", "Bearer x", TOKEN, "", f"Basic {TOKEN}", "Bearer \xff"]
    assert [rules.knows_token([each]) for each in given] == [True, True, False, False, False, False, False]
    assert not rules.knows_token([]) and not rules.knows_token([f"Bearer {TOKEN}"] * 2)
    assert len(compared) == len(given) + 2 and {other for _, other in compared} == {TOKEN.encode()}


def test_a_token_that_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with Console("--name", "absent", "--token", str(file)) as first:
        pass
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.read_text().strip() == first.token and len(first.token) >= 40
    with Console("--name", "absent", "--token", str(file)) as second:
        assert second.token == first.token
        with Console("--name", "absent") as third:
            assert third.token != first.token


def test_a_token_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    for text in ("", "short", "two words of some length", "é" * 20, "sixteen-letters-\x00"):
        file.write_text(text)
        with pytest.raises(SettingError, match="one word of at least 16"):
            token_of(file)
    file.write_text(TOKEN)
    for mode in (0o640, 0o604, 0o620, 0o602):
        file.chmod(mode)
        with pytest.raises(SettingError, match="other users"):
            token_of(file)
    file.chmod(0o600)
    assert token_of(file) == TOKEN
    file.chmod(0o644)
    done = run("console", "--listen", "127.0.0.1:0", "--token", str(file))
    assert done.returncode != 0 and "other users" in done.stderr and not done.stdout
    assert run("console", "--token", str(tmp_path / "absent" / "token")).returncode == 1
