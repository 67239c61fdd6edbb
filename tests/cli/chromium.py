"""A browser for tests of the console's pages: Chromium without a window, told what to do through a pipe (DevTools protocol)."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import WATCHDOG_S, Stuck, until

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGE = "chromium-headless-shell"  # Debian's; the whole browser takes half as much again to install


class Chromium:
    """A browser, until the end of the block. program: one of NAMES. folder: for the browser's own files."""

    def __init__(self, program: str, folder: Path) -> None:
        arguments = [program, "--headless=new", "--disable-gpu", "--no-first-run"]
        arguments.append(f"--user-data-dir={folder / 'chromium'}")
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # root has no other way
        theirs, self._in = os.pipe()
        self._out, told = os.pipe()
        script = f'exec "$@" 3<&{theirs} 4>&{told}'
        command = ["bash", "-c", script, "_", *arguments, "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs, told), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        os.close(theirs)
        os.close(told)
        self._rest, self._number = b"", 0

    @contextmanager
    def page(self) -> Iterator[Page]:
        """A page that knows nothing of others: with a storage of its own, until the end of the block."""
        context = self.ask("Target.createBrowserContext")["browserContextId"]
        try:
            target = self.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            page = Page(self, self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
            for domain in ("Page", "Runtime", "Log"):
                self.ask(f"{domain}.enable", page)
            yield page
        finally:
            self.ask("Target.disposeBrowserContext", browserContextId=context)

    def ask(self, method: str, page: Page | None = None, **parameters: Any) -> Any:
        """Of the browser itself, or of a page, which hears meanwhile what is told of it."""
        self._number += 1
        number = self._number
        question = {"id": number, "method": method, "params": parameters}
        os.write(self._in, json.dumps(question | ({"sessionId": page.session} if page else {})).encode() + b"\0")
        for told in self._told():
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]
            if page and told.get("sessionId") == page.session:
                page.hear(told)
        raise AssertionError("the browser has ended")

    def _told(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" in self._rest:
                told, _, self._rest = self._rest.partition(b"\0")
                yield json.loads(told)
            assert select.select([self._out], [], [], WATCHDOG_S)[0], "the browser does not answer"
            if not (read := os.read(self._out, 1 << 20)):
                return
            self._rest += read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)  # a group of its own: the browser and its children
        self._process.wait()
        os.close(self._in)
        os.close(self._out)


class Page:
    """session: the browser's name for what is said to the page and of it."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self.session = session
        self.errors: list[str] = []  # what it threw, and what its policy forbade

    def hear(self, told: dict[str, Any]) -> None:
        if told.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(told["params"]["exceptionDetails"]))
        elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["source"] == "security":
            self.errors.append(told["params"]["entry"]["text"])

    def open(self, address: str) -> None:
        """Another page, also if only what is behind the # differs."""
        self._ask("Page.navigate", url="about:blank")
        self._ask("Page.navigate", url=address)

    def narrow(self, width: int) -> None:
        """As on a screen of so many pixels."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)

    def run(self, script: str) -> Any:
        """What an expression is in the page."""
        told = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def says(self, text: str) -> str:
        """Waits until the page shows a text, and returns everything that it shows then."""
        try:
            return str(until(lambda: found if text in (found := self.text) else None, f"the page to show {text!r}"))
        except Stuck:
            raise AssertionError((text, self.text, self.errors)) from None

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", self.run("document.body ? document.body.innerText : ''"))

    @property
    def elements(self) -> set[str]:
        """Names of the elements of the page."""
        return set(self.run("[...document.querySelectorAll('*')].map((each) => each.localName)"))

    def click(self, text: str) -> None:
        """What has this text: a button, or the summary of something folded."""
        wanted = "[...document.querySelectorAll('button, summary, a')]"
        wanted += f".find((each) => each.textContent === {json.dumps(text)} && each.checkVisibility())"
        until(lambda: self.run(f"Boolean({wanted})"), f"{text!r} to be there to click")
        self.run(f"{wanted}.click()")

    def type(self, label: str, text: str) -> None:
        """Into the field of this label, as somebody who types."""
        field = f"document.querySelector({json.dumps(f'[aria-label={json.dumps(label)}]')})"
        self.run(f"{field}.value = {json.dumps(text)}")
        self.run(f"{field}.dispatchEvent(new Event({field}.localName === 'select' ? 'change' : 'input', {{ bubbles: true }}))")

    def _ask(self, method: str, **parameters: Any) -> Any:
        return self._browser.ask(method, self, **parameters)
