"""A real browser, headless: Chromium, driven through chromedriver by the WebDriver protocol, over HTTP.

    with chromium(folder) as browser:
        browser.open(url)
        browser.type("input[name=name]", "ada")
        browser.click("button")
        browser.text, browser.url

Debian has both as packages: chromium and chromium-driver. Where they are not, tests are skipped, and say so;
with REQUIRE_CHROMIUM set they fail instead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from peers import port_kept

SECONDS = 60.0
"""For a page, a browser that starts, an element that appears."""
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The name that the protocol has for the id of an element."""
# No sandbox: in a container there are no namespaces for it. All pages are those of the test.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]


def is_missing() -> str:
    """Why there is no browser; "" if there is one."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not found: apt install chromium chromium-driver" if missing else ""


needed = pytest.mark.skipif(bool(is_missing()) and "REQUIRE_CHROMIUM" not in os.environ, reason=is_missing())


class Chromium:
    """One window."""

    def __init__(self, driver: str, profile: Path) -> None:
        self._http = requests.Session()
        self._http.trust_env = False
        options = {
            "binary": shutil.which("chromium"),
            "args": [*ARGUMENTS, f"--user-data-dir={profile}"],
        }
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        self._session = driver
        found = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"{driver}/session/{found['sessionId']}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        sent = {} if body is None and method == "POST" else body
        response = self._http.request(method, f"{self._session}{path}", json=sent, timeout=SECONDS)
        value = response.json()["value"]
        assert response.status_code == 200, f"{method} {path}: {value['error']}: {value['message']:.500}"
        return value

    def close(self) -> None:
        self._ask("DELETE", "")
        self._http.close()

    def open(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        found: str = self._ask("GET", "/url")
        return found

    @property
    def text(self) -> str:
        """What a person sees."""
        found: str = self.run("return document.body.innerText")
        return found

    def run(self, script: str, *arguments: Any) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def has(self, selector: str) -> bool:
        return bool(self.run("return document.querySelector(arguments[0]) !== null", selector))

    def type(self, selector: str, text: str) -> None:
        self._ask("POST", f"/element/{self._element(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        self._ask("POST", f"/element/{self._element(selector)}/click")

    @contextlib.contextmanager
    def in_frame(self, selector: str) -> Iterator[None]:
        """In the block, all is about the page in a frame."""
        self._ask("POST", "/frame", {"id": {ELEMENT: self._element(selector)}})
        try:
            yield
        finally:
            self._ask("POST", "/frame/parent")

    def _element(self, selector: str) -> str:
        where = {"using": "css selector", "value": selector}
        found: str = self._ask("POST", "/element", where)[ELEMENT]
        return found

    def cookies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("GET", "/cookie")
        return found

    def wait(self, script: str, *arguments: Any) -> None:
        """Until a script returns something that is true."""
        end = time.monotonic() + SECONDS
        while not self.run(script, *arguments):
            assert time.monotonic() < end, (
                f"not within {SECONDS} s: {script}; at {self.url}: {self.text:.500}"
            )
            time.sleep(0.05)


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """A browser with a profile of its own; it is ended, with its driver."""
    with contextlib.ExitStack() as running:
        port = running.enter_context(port_kept())
        command = ["chromedriver", f"--port={port}", f"--log-path={folder / 'chromedriver.log'}"]
        driver = running.enter_context(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        )
        try:
            assert _answers(driver, port), (folder / "chromedriver.log").read_text()[-2000:]
            browser = Chromium(f"http://127.0.0.1:{port}", folder / "profile")
            try:
                yield browser
            finally:
                browser.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def _answers(driver: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + SECONDS
    while driver.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.05)
    return False
