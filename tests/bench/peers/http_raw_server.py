"""A server of neither SDK over HTTP: canned answers on kept connections, each in one write.

It says its port on stdout and ends at the end of stdin. At the path /json it answers with JSON, at
/stream with an event stream.
"""

import json
import socket
import sys
import threading

from raw_server import respond

HEAD = b"HTTP/1.1 %s\r\nContent-Type: %s\r\n%s\r\n"
SESSION = b"Mcp-Session-Id: the-only-one\r\n"


def response(body: bytes, streamed: bool, extra: bytes) -> bytes:
    """An answer as it goes over the wire."""
    if streamed:
        event = b"event: message\ndata: " + body + b"\n\n"
        head = HEAD % (b"200 OK", b"text/event-stream", extra + b"Transfer-Encoding: chunked\r\n")
        return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(event), event)
    return HEAD % (b"200 OK", b"application/json", extra + b"Content-Length: %d\r\n" % len(body)) + body


def answer(head: bytes, body: bytes) -> bytes:
    """What one request gets."""
    if not head.startswith(b"POST "):
        status = b"200 OK" if head.startswith(b"DELETE ") else b"405 Method Not Allowed"
        return HEAD % (status, b"text/plain", b"Content-Length: 0\r\n")
    message = json.loads(body)
    result = respond(message)
    if result is None:
        return HEAD % (b"202 Accepted", b"text/plain", b"Content-Length: 0\r\n")
    extra = SESSION if message["method"] == "initialize" else b""
    return response(result, head.startswith(b"POST /stream "), extra)


def serve(connection: socket.socket) -> None:
    """One connection, until its client leaves."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    held = b""
    while data := connection.recv(65536):
        held += data
        head, blank, body = held.partition(b"\r\n\r\n")
        _, _, after = head.lower().partition(b"\r\ncontent-length:")
        length = int(after.partition(b"\r\n")[0] or 0)
        if blank and len(body) >= length:
            connection.sendall(answer(head, body[:length]))
            held = body[length:]


def accept(listener: socket.socket) -> None:
    """A thread for each connection: they are few."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=[connection], daemon=True).start()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        threading.Thread(target=accept, args=[listening], daemon=True).start()
        sys.stdin.buffer.read()
