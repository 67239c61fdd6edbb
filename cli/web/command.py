"""`orbitmq console`: a page in the browser that shows a broker."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.markup import escape

from orbitmq.cli.console import err, out
from orbitmq.cli.listening import place_of, taken
from orbitmq.cli.options import Name, Store
from orbitmq.errors import OrbitError
from orbitmq.store.settings.listen_address import ListenAddress

if TYPE_CHECKING:
    from orbitmq.cli.web.guard import Rules
    from orbitmq.cli.web.link import Link

LISTEN = "127.0.0.1:8480"
LIBRARIES = ("starlette", "uvicorn", "anyio", "h11")


def console(
    name: Name = None,
    store: Store = None,
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="Where browsers connect; port 0: any.")] = LISTEN,
    token: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the token in this file, which is made if missing. [dim]\\[default: a new one]"),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also answer to this name, such as that of a proxy in front; repeat it for more."),
    ] = None,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Allow resets of groups, redrives of dead letters, and deletions of topics.")
    ] = False,
) -> None:
    """Show the broker in the browser: topics, groups, messages, dead letters.

    It prints an address with a token, without which nobody sees anything. It only reads, unless changes are allowed.

    The broker need not run yet; the page says whether it does.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        text = f"could not start the console: it needs {error.name}, which is not installed"
        raise OrbitError(text, hint="pip install 'orbitmq[console]'") from None
    from orbitmq.cli.web.guard import LOOPBACK, Rules
    from orbitmq.cli.web.link import Link
    from orbitmq.cli.web.token_file import token_of

    where = place_of(listen)
    own = str(where).rpartition(":")[0].lower()
    rules = Rules(token_of(token), frozenset(each.lower() for each in (*(host or ()), own)), allow_changes)
    with suppress(KeyboardInterrupt), _bound(where) as listening:
        port = listening.getsockname()[1]
        shown = f"http://{own}:{port}/#token={quote(rules.token, safe='')}"
        out.print(f"console at [bold]{escape(shown)}[/]", soft_wrap=True)
        if own not in LOOPBACK:
            err.print("[yellow]not encrypted[/]  whoever sees this network's traffic sees the token and the messages")
        out.file.flush()
        _serve(listening, Link(name, store), rules)


def _bound(where: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family, backlog=128)
    except OSError as error:
        raise taken(where, error) from None


def _serve(listening: socket.socket, link: Link, rules: Rules) -> None:
    """Until Ctrl-C, or until somebody ends the process."""
    import uvicorn

    from orbitmq.cli.web.application import application

    config = uvicorn.Config(
        application(link, rules),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        link.close()
