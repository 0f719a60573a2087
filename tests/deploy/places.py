"""Where the application is deployed: each function starts the real thing on 127.0.0.1 and stops it after.

with gunicorn(folder) as place:
    place.port, place.folder        where it is; what its tools write and wait for (served.py)
    place.end()                     SIGTERM, and how long it took; nothing of it may be left
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from peers import PATIENCE, ROOT, eventually, port_kept

__all__ = ["DEPLOY", "Place", "flask", "flask_in_gunicorn", "gunicorn", "nginx", "waitress"]

DEPLOY = Path(ROOT) / "docs" / "examples" / "deploy"
HERE = Path(__file__).resolve().parent
THREADS = 8
"""Of the servers, where a test does not say otherwise."""


class Place:
    """A server that runs: `port` is where to go, `process` the server itself, not a proxy before it."""

    def __init__(self, command: Sequence[str], folder: Path, **settings: str) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._said = threading.Condition()
        self.threads = int(settings.get("MCP_THREADS", THREADS))
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **_environment(folder), **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that `left` finds whatever it started
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.own_port = self.port = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.said.append(line.rstrip("\n"))
                self._said.notify_all()
        with self._said:
            self.said.append("(end of output)")
            self._said.notify_all()

    def listening(self) -> Place:
        """Wait until it says where it listens."""
        end = time.monotonic() + PATIENCE
        with self._said:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", "\n".join(self.said))):
                over = self.said and self.said[-1] == "(end of output)"
                if over or not self._said.wait(max(0.0, end - time.monotonic())):
                    raise RuntimeError(f"it does not listen: {self.text()}")
        self.own_port = self.port = int(found[1])
        first = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(first):
            first.request("GET", "/")  # whatever is there: who listens need not work yet
            first.getresponse().read()
        return self

    def text(self) -> str:
        """What it has said so far."""
        return "\n".join(self.said)

    # -- what tools do (served.py) -------------------------------------------------------

    def go(self, name: str) -> None:
        """Have the tool of this name end."""
        (self.folder / f"{name}.go").touch()

    def wait(self, *marks: str, timeout: float = PATIENCE) -> None:
        """Until tools have left these marks."""
        for mark in marks:
            assert eventually((self.folder / mark).exists, timeout), f"no {mark}: {self.text()[-3000:]}"

    def has(self, mark: str) -> bool:
        """Whether a tool has left this mark."""
        return (self.folder / mark).exists()

    # -- the end -------------------------------------------------------------------------

    def terminate(self) -> None:
        """SIGTERM to the server."""
        self.process.send_signal(signal.SIGTERM)

    def exit(self, limit: float) -> int:
        """Wait for its end, of all its processes; its exit code."""
        code = self.process.wait(limit)
        assert eventually(lambda: not self.left(), 1.0), f"left behind: {self.left()}"
        return code

    def left(self) -> list[int]:
        """The processes of its session."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = status.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found.append(int(status.parent.name))
        return found

    def close(self) -> None:
        """Whatever has become of it: gone."""
        if self.process.poll() is None:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
        for process in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


def _environment(folder: Path) -> dict[str, str]:
    paths = [ROOT, str(HERE), str(DEPLOY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "DEPLOY_FOLDER": str(folder),
        "MCP_THREADS": str(THREADS),
        "MCP_KEEP_ALIVE": "2",  # a call that is answered at once takes less, on a busy machine too
    }


@contextlib.contextmanager
def _placed(command: Sequence[str], folder: Path, **settings: str) -> Iterator[Place]:
    folder.mkdir(exist_ok=True)
    place = Place(command, folder, **settings)
    try:
        yield place.listening()
    finally:
        place.close()


def gunicorn(folder: Path, *options: str, app: str = "served:app", **settings: str):
    """gunicorn with one worker of type gthread, as in docs/examples/deploy."""
    command = [sys.executable, "-m", "gunicorn", "-c", str(DEPLOY / "gunicorn.conf.py"), "-b", "127.0.0.1:0"]
    return _placed([*command, *options, app], folder, **settings)


def waitress(folder: Path, **settings: str):
    """The script of docs/examples/deploy."""
    return _placed([sys.executable, str(HERE / "served.py"), "0"], folder, **settings)


def flask_in_gunicorn(folder: Path, *options: str, **settings: str):
    """The Flask application with the server below /mcp, under gunicorn."""
    return gunicorn(folder, *options, app="served:flask_app", **settings)


def flask(folder: Path, **settings: str):
    """The same under the server that comes with Flask, for development."""
    command = [sys.executable, "-m", "flask", "--app", "served:flask_app", "run", "--port", "0"]
    return _placed(command, folder, **settings)


# -- nginx -------------------------------------------------------------------------------------------

_DEFAULTS = "server { listen 127.0.0.1:8080; location / { proxy_pass http://127.0.0.1:8000; } }"
"""Nothing but the address: HTTP/1.0 to the server, buffering, 60 seconds."""

_AROUND = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log info;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {more}
    {site}
}}
"""


def _program() -> str:
    found = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if found is not None:
        return found
    if os.environ.get("REQUIRE_NGINX"):
        pytest.fail("nginx is not installed, and REQUIRE_NGINX says that it must be")
    pytest.skip("nginx is not installed (the Debian package `nginx`)")


@contextlib.contextmanager
def nginx(folder: Path, *options: str, defaults: bool = False, more: str = "", **settings: str):
    """gunicorn behind nginx: the site of docs/examples/deploy, or `defaults` alone."""
    program = _program()
    with gunicorn(folder, *options, **settings) as place, port_kept() as port:
        site = _DEFAULTS if defaults else (DEPLOY / "nginx.conf").read_text()
        site = site.replace("127.0.0.1:8000", f"127.0.0.1:{place.own_port}").replace(
            "127.0.0.1:8080", f"127.0.0.1:{port}"
        )
        user = "" if os.geteuid() else "user root;"  # else root's nginx may not write into the folder
        config = folder / "nginx.conf"
        config.write_text(_AROUND.format(user=user, folder=folder, more=more, site=site))
        process = subprocess.Popen(
            [program, "-e", str(folder / "nginx.log"), "-p", str(folder), "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert eventually(lambda: _listens(port)), (folder / "nginx.log").read_text()
            place.port = port
            yield place
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
