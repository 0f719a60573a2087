"""What stands for a WSGI server with one request, for tests of responses and streams."""

from types import SimpleNamespace

from http_peers import Event, read_event

from mcp_ref.basic.patterns.index.context import Arrival
from mcp_ref.basic.transports.streamable_http.listening import EventReader
from mcp_ref.basic.transports.streamable_http.receiving import Kind, State
from mcp_ref.basic.transports.streamable_http.responding import AnswerStyle, HttpStream
from mcp_ref.basic.transports.streamable_http.resumability import Log
from mcp_ref.runtime.http_server.reply import HttpReply

COMMENT = b":\n\n"
LATER = 1e9
"""Seconds after which any silence was long."""


class Wire:
    """Stands for a WSGI server with one request, and for what the embedded one has besides WSGI."""

    def __init__(self, *, embedded=True, **environ):
        self.environ = {"REQUEST_METHOD": "POST", "wsgi.multithread": True, **environ}
        if embedded:
            self.environ["mcp_ref.response"] = self
        self.status, self.headers, self.begun = "", {}, 0
        self.written = []
        self.is_ended = False
        self.reply = HttpReply(self.environ, self.start)

    def start(self, status, headers, exc_info=None):
        assert not self.begun or exc_info is not None
        self.begun += 1
        self.status, self.headers = status, dict(headers)
        return self.write

    def write(self, piece):
        assert not self.is_ended
        self.written.append(piece)

    @property
    def has_begun(self):
        return bool(self.written)

    def end_early(self):
        self.is_ended = True

    def finish(self, stream):
        """The handler has returned: all that was sent, to the last byte."""
        pieces = stream.finish()
        self.written.extend(pieces)
        if hasattr(pieces, "close"):
            pieces.close()
        return self.sent

    @property
    def sent(self):
        return b"".join(self.written)

    @property
    def events(self):
        return blocks(self.sent)


def blocks(data):
    """The events of some bytes, comments left out."""
    *found, end = data.decode().split("\n\n")
    assert end == ""
    return [event for event in map(read_event, found) if event != Event(comment=event.comment)]


PRIMED = Kind(retry_ms=55)
IS_MODERN = Kind(is_modern=True)


def style(answers="auto", keep_alive=0.0, retry_ms=55, **more):
    return AnswerStyle(answers, keep_alive, retry_ms, **more)


def stream_on(wire, kind=Kind(), log=None, **options):  # noqa: B008
    return HttpStream(wire.reply, kind, style(**options), log)


def read(stream, last_seen=None, wire=None):
    """Another connection reads it from now on."""
    return EventReader(
        stream, (wire or Wire()).reply, last_seen=last_seen, on_close=lambda reader: closed.append(reader)
    )


closed: list[EventReader] = []
"""The readers that were closed."""


class Cancels:
    """Stands for the context of a request that runs: why it was cancelled."""

    def __init__(self, stream):
        self.reasons = []
        self.arrival, self.principal = Arrival(stream, 1), None
        self.connection = SimpleNamespace(responder=self)
        stream.begins(self)

    def cancel(self, context, reason):
        assert context is self
        self.reasons.append(reason)
        return True


def in_state(state, kind=PRIMED):
    """A stream of a session in this state, its wire, and who reads it."""
    wire, reader = Wire(), None
    stream = HttpStream(wire.reply, kind, style(), Log("tag", 1 << 20))
    if state in (State.EVENTS, State.DETACHED, State.RESUMED, State.OVER):
        stream.send(b"1")
    if state is State.DETACHED:
        stream.client_left()
    elif state is State.RESUMED:
        reader = read(stream, last_seen=0)
    elif state in (State.JSON, State.OVER):
        stream.answer(b"end")
    assert stream.machine.state is state
    return stream, wire, reader
