"""One HTTP request at a time, by hand: what arrives is seen when it arrives, and how it ends too.

with post(place, message, **headers) as answer:
    answer.status, answer.headers, answer.json()
    answer.message()                the next message of an event stream
    answer.rest()                   all that is left of it; `answer.whole` says that it was not cut off
    answer.leave()                  close the connection, whatever is still to come
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from deploy.places import Place
from peers import META, MODERN, PATIENCE, Json

__all__ = ["Answer", "Session", "get", "modern", "post"]


class Answer:
    """A request on a connection of its own, and what comes back."""

    def __init__(self, place: Place, method: str, path: str, headers: Json, body: bytes = b"") -> None:
        self.whole = False
        """Whether the body came to its proper end."""
        self.last_id = ""
        """Of the events that were read."""
        self._socket = socket.create_connection(("127.0.0.1", place.port), PATIENCE)
        self._file = self._socket.makefile("rb")
        said = {"Host": f"127.0.0.1:{place.port}", **headers}
        if "Transfer-Encoding" not in headers:
            said.setdefault("Content-Length", str(len(body)))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        self._pieces = self._body()
        self._held = b""

    def _begin(self) -> None:
        """Read the status and the headers, once."""
        if "_headers" not in vars(self):
            self._status = int(self._file.readline().split()[1])
            self._headers: dict[str, str] = {}
            while line := self._file.readline().strip():
                name, _, value = line.decode().partition(":")
                self._headers[name.lower()] = value.strip()

    @property
    def status(self) -> int:
        self._begin()
        return self._status

    @property
    def headers(self) -> dict[str, str]:
        """By names in lower case."""
        self._begin()
        return self._headers

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self._file.readline() or b"-1", 16):
                if size < 0:
                    return
                yield self._file.read(size)
                self._file.readline()
            self._file.readline()
            self.whole = True
        elif "content-length" in self.headers:
            left = int(self.headers["content-length"])
            data = self._file.read(left)
            self.whole = len(data) == left
            yield data
        else:
            while data := self._file.read1(65536):
                yield data
            self.whole = True  # as far as anybody can tell

    def piece(self) -> bytes:
        """What is sent next, as it is; empty at the end."""
        return next(self._pieces, b"")

    def read(self) -> bytes:
        """All of the body."""
        return b"".join(self._pieces)

    def json(self) -> Json:
        """The body, which must be JSON."""
        assert self.headers["content-type"] == "application/json", (self.status, self.headers, self.read())
        found: Json = json.loads(self.read())
        return found

    def message(self) -> Json | None:
        """The next message, as soon as it is there; None at the end of the stream."""
        assert self.headers.get("content-type", "").startswith("text/event-stream"), (
            self.status,
            self.read(),
        )
        while True:
            while b"\n\n" not in self._held:
                if not (piece := self.piece()):
                    return None
                self._held += piece
            block, _, self._held = self._held.partition(b"\n\n")
            for line in block.split(b"\n"):
                if line.startswith(b"id:"):
                    self.last_id = line[3:].strip().decode()
            data = b"\n".join(
                line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")
            )
            if data:
                found: Json = json.loads(data)
                return found

    def rest(self) -> list[Json]:
        """The messages until the end of the stream."""
        return list(iter(self.message, None))

    def result(self) -> Json:
        """The result, as JSON or as the last message of a stream."""
        plain = self.headers["content-type"] == "application/json"
        found = self.json() if plain else self.rest()[-1]
        assert "result" in found, found
        result: Json = found["result"]
        return result

    def leave(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.leave()


def post(place: Place, message: Json, **headers: str) -> Answer:
    """POST one message."""
    base = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(place, "POST", "/mcp", {**base, **named}, json.dumps(message).encode())


def get(place: Place, path: str = "/mcp", **headers: str) -> Answer:
    """GET something."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(place, "GET", path, named)


def modern(place: Place, method: str, params: Json | None = None, request_id: Any = 1, **meta: Any) -> Answer:
    """POST a request of the modern era."""
    params = {**(params or {}), "_meta": {**META, **meta}}
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
    if "name" in params:
        headers["Mcp_Name"] = params["name"]
    return post(place, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}, **headers)


class Session:
    """A session of the legacy era."""

    def __init__(self, place: Place, revision: str = "2025-11-25", **capabilities: Any) -> None:
        self.place, self.revision, self._ids = place, revision, iter(range(2, 1 << 30))
        self.headers: dict[str, str] = {}
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        with post(place, opening) as answer:
            self.opened = answer.result()
            self.headers["Mcp_Session_Id"] = answer.headers["mcp-session-id"]
        if revision >= "2025-06-18":
            self.headers["MCP_Protocol_Version"] = revision
        self.opening = self.send({"method": "notifications/initialized"})

    def send(self, message: Json) -> int:
        """POST a notification or a response; the status."""
        with post(self.place, {"jsonrpc": "2.0", **message}, **self.headers) as answer:
            assert answer.status != 202 or answer.read() == b""
            return answer.status

    def ask(self, method: str, params: Json | None = None) -> Answer:
        """POST a request."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}}
        return post(self.place, message, **self.headers)

    def call(self, tool: str, arguments: Json | None = None, **meta: Any) -> Answer:
        """POST a tools/call."""
        more = {"_meta": meta} if meta else {}
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    def listen(self, **more: str) -> Answer:
        """GET the stream of what belongs to no request, or the rest of another."""
        return get(self.place, Accept="text/event-stream", **self.headers, **more)

    def close(self) -> int:
        """DELETE the session; the status."""
        named = {name.replace("_", "-"): value for name, value in self.headers.items()}
        with Answer(self.place, "DELETE", "/mcp", named) as answer:
            return answer.status
