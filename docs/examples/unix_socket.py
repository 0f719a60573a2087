"""A transport of one's own: a Unix socket, with a line for each message as on stdio."""

import contextlib
import socket
import tempfile
import threading

from mcp_ref import Server, connect, serve_stream

MOST = 64 << 20  # bytes of a message


class Lines:
    """One end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self.end, self.lines = end, end.makefile("rb")

    def send(self, message: bytes) -> None:
        self.end.sendall(message + b"\n")

    def receive(self) -> bytes | None:
        return self.lines.readline(MOST).rstrip(b"\n") or None

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            self.end.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in `receive`
        self.lines.close()
        self.end.close()


class UnixSocket:
    """The client's end: where the server listens."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open_stream(self) -> Lines:
        end = socket.socket(socket.AF_UNIX)
        end.connect(self.path)
        return Lines(end)


server = Server("nearby")
server.add_tool(lambda name: f"Hello, {name}!", name="greet")


def serve(listener: socket.socket) -> None:
    """The server's end: a thread for each client."""
    while True:
        end, _ = listener.accept()
        threading.Thread(target=serve_stream, args=(server, Lines(end)), daemon=True).start()


with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
    listener.bind(f"{folder}/mcp")
    listener.listen()
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    for revision in "2025-11-25", "2026-07-28":
        with connect(UnixSocket(f"{folder}/mcp"), revision=revision) as client:
            print(client.call_tool("greet", {"name": "Ada"}).text, client.revision)
