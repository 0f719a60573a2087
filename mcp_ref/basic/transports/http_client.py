"""Streamable HTTP, as the client speaks it (page: basic/transports/streamable-http, "Sending Messages").

Each message of ours is a POST of its own. What a request gets is JSON, or an event stream that ends with
the response:

    client -> server   POST request            -> 200 application/json    the response
                                               -> 200 text/event-stream   messages, the response among them
    client -> server   POST notification       -> 202
    client -> server   POST response (legacy)  -> 202
    client -> server   GET (legacy)            -> 200 text/event-stream   what belongs to no request, or 405
    client -> server   DELETE (legacy)         -> the session is over

Whoever waits for a result reads it as well: the caller's thread POSTs its request, waits for the answer and
takes it, without handing anything to another. Only where nobody waits (a future, a subscription), or where
the caller has progress to look at, a worker reads the stream.

Revisions   2025-03-26  sessions, the GET stream, resumption (http_client_streams)
            2025-06-18  + MCP-Protocol-Version, from initialization on
            2026-07-28  no sessions; headers that repeat the body (http_headers); letting go of the answer
                        cancels the request
Errors      HttpError and RefusedByStatus (http_client_answers); ConnectionClosed, where a connection ended
            too early.
Threads     caller      POSTs its request, and reads the answer
            worker      one a stream that nobody waits for; others run what the server asks
            `_renewal` makes all others wait while one thread opens a new session.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref.basic.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    ParseError,
    RequestCancelled,
    RequestTimeout,
    error_response,
)
from mcp_ref.basic.lifecycle import Session
from mcp_ref.basic.messages import Json, decode, encode
from mcp_ref.basic.meta import PROTOCOL_VERSION
from mcp_ref.basic.patterns.request_response import Connection
from mcp_ref.basic.transports import http_client_streams, http_headers
from mcp_ref.basic.transports.http_client_answers import JSON, STREAM, refusal, wrong_type
from mcp_ref.basic.transports.http_client_ways import Posts, Way
from mcp_ref.basic.versioning import Revision
from mcp_ref.runtime.calls import Call
from mcp_ref.runtime.deadlines import Clock, Deadline
from mcp_ref.runtime.exchanges import Exchange, Exchanges, TooLong
from mcp_ref.runtime.http_sockets import Aborted, Expired
from mcp_ref.runtime.outbox import WayOut
from mcp_ref.runtime.workers import QueueFull, Workers

__all__ = ["HttpConnection"]

_log = logging.getLogger("mcp_ref.http")

POST = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
"""# spec: basic/transports/streamable-http/accept-both"""

SAFE = frozenset({"server/discover", "initialize", "ping"})
"""What may be sent again if a kept connection ended before a byte of the answer; and every list."""

RENEWALS = 3
"""How often a session is opened anew within a minute; then its end is taken for the end."""

PARTING = 1.0
"""Seconds that a server gets to take the end of a session."""

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


class HttpConnection(Connection):
    """One server behind a URL."""

    def __init__(
        self,
        client: Any,
        exchanges: Exchanges,
        *,
        timeout: float,
        max_timeout: float | None,
        max_message_bytes: int,
    ) -> None:
        super().__init__(
            client, Posts(self), workers=Workers(20, 100), timeout=timeout, max_timeout=max_timeout
        )
        self.client = client
        self.exchanges = exchanges
        self.limit = max_message_bytes
        self.streams = Workers(exchanges.limit, 10_000)
        self.session_id: str | None = None
        self.background: http_client_streams.Background | None = None
        self._agreed_before: Revision | None = None
        self._renewal = threading.RLock()
        self._renewing: int | None = None  # the thread that opens a new session
        self._renewals: list[float] = []  # guarded by _renewal

    # -- what goes out -----------------------------------------------------------------------------------

    def headers(self, method: str | None, params: Json | None) -> dict[str, str]:
        """What the revision wants in the headers of a message.

        # spec: basic/transports/streamable-http/metadata-headers
        # spec: basic/transports/streamable-http/append-standard-headers
        # spec: basic/transports/streamable-http/append-param-headers
        # spec: basic/transports/streamable-http/append-encoded-values
        # spec: basic/transports/streamable-http/mcp-method-header-notifications
        """
        date = _date(params)
        if method is not None and date is not None:
            annotated = self.client.annotated(params) if method == "tools/call" else None
            return {**POST, **http_headers.mirror(method, params, date, annotated)}
        if self.client.revision.modern:
            said = {} if method is None else {"Mcp-Method": method}
            return {**POST, "MCP-Protocol-Version": self.client.revision.date, **said}
        return {**POST, **({} if method == "initialize" else self.session_headers())}

    def session_headers(self) -> dict[str, str]:
        """What tells the server which session this is, and of which revision.

        # spec: basic/transports/streamable-http/session-id-echoed
        # spec: basic/transports/streamable-http/version-header-later-requests
        # spec: basic/transports/streamable-http/version-header-negotiated
        """
        headers, agreed = {}, self.agreed
        if self.session_id is not None:
            headers["Mcp-Session-Id"] = self.session_id
        if agreed is not None and agreed.reaches("2025-06-18"):
            headers["MCP-Protocol-Version"] = agreed.date
        return headers

    @property
    def agreed(self) -> Revision | None:
        """The revision of the session; while a new one is opened, that of the last."""
        session = self.session
        return session.revision if session.is_open else self._agreed_before

    def _posted(
        self, way: Way, deadline: Deadline | None, headers: dict[str, str], line: bytes, safe: bool
    ) -> Exchange:
        """One POST, up to the head of its answer; whoever gets it closes it.

        What is `safe` to be done twice is sent again, if a kept connection turns out to have been too old.
        """
        for again in (safe, False):
            exchange = way.go(self.exchanges.new(deadline))
            try:
                exchange.send("POST", headers, line)
                return exchange
            except BaseException as problem:
                exchange.close()
                if not isinstance(problem, ConnectionClosed) or not again or not exchange.was_lost_unheard:
                    raise
        raise AssertionError("the second try has either returned or raised")

    def post(self, line: bytes, headers: dict[str, str], wait: float | None) -> None:
        """A message that gets no answer. Raises what the server, or the network, has against it."""
        deadline = Deadline(self.timeout if wait is None else wait, Clock())
        try:
            with self._posted(Way(self), deadline, headers, line, True) as exchange:
                if not 200 <= exchange.status < 300:
                    raise refusal(exchange, None)
        except Aborted:
            raise self.failure or ConnectionClosed("the client was closed") from None
        except Expired:
            raise RequestTimeout(f"the server did not take a message within {deadline.span:g} s") from None

    def notify(
        self,
        method: str,
        params: Json | None = None,
        *,
        wait: float | None = None,
        outbox: WayOut | None = None,
    ) -> None:
        """POST a notification; that a request is given up, only where the end of its stream does not say so.

        # spec: basic/transports/streamable-http/sse-explicit-cancel
        # spec: basic/patterns/cancellation/http-no-cancelled-message
        """
        if isinstance(outbox, Way):
            outbox.let_go_of_answer()
        modern = outbox.is_modern if isinstance(outbox, Way) else self.client.revision.modern
        if modern and method == "notifications/cancelled":
            return
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        try:
            self.post(encode(message), self.headers(method, params), wait)
        except McpError as problem:
            if not isinstance(outbox, Way):
                raise
            _log.info("%s: %s", method, problem)

    # -- requests ----------------------------------------------------------------------------------------

    def transmit(self, call: Call, params: Json | None, line: bytes) -> None:
        """POST a request: here and now if this thread waits for it, else on a worker."""
        way = call.outbox = Way(self, _date(params) is not None)
        if call.on_done is None:
            self.ending(call, lambda: self._ask(call, way, params, line))
        else:
            try:
                self.streams.submit(
                    lambda _: self.ending(call, lambda: self._ask(call, way, params, line)), None
                )
            except QueueFull:
                self.settle(call, LocalError(f"{call.method}: too many requests are under way"))

    def ending(self, call: Call, run: Callable[[], None]) -> None:
        """Do something for a call; what goes wrong is its outcome."""
        try:
            run()
        except Aborted:
            self.settle(call, self.failure or RequestCancelled(f"{call.method}: given up"))
        except Expired:
            pass  # whoever waits for the call sees to that
        except McpError as problem:
            self.settle(call, problem)
        except Exception as problem:
            _log.exception("%s could not be sent", call.method)
            self.settle(call, LocalError(f"{call.method}: {problem!r:.300}"))

    def _ask(self, call: Call, way: Way, params: Json | None, line: bytes) -> None:
        """One request, from its POST to its answer.

        A 404 says that its session is over, and that it was not begun: it goes again, in a new one.
        """
        if call.done:  # it was cancelled before it could be sent
            return
        deadline = call.deadline if call.on_done is None else None
        safe = call.method in SAFE or call.method.endswith("/list")
        self._wait_for_session(call)
        served = self.session_id
        exchange = self._posted(way, deadline, self.headers(call.method, params), line, safe)
        if self._is_lost(exchange, call, served):
            with exchange:
                lost = refusal(exchange, call.id)
            self._renew(call, served, lost)
            exchange = self._posted(way, deadline, self.headers(call.method, params), line, safe)
        try:
            self._answered(call, way, exchange)
        except BaseException:
            exchange.close()
            raise

    def _answered(self, call: Call, way: Way, exchange: Exchange) -> None:
        """The head of the answer is there.  # spec: basic/transports/streamable-http/client-supports-both"""
        succeeded = 200 <= exchange.status < 300
        if succeeded and call.method == "initialize":
            self._begin_session(exchange.header("mcp-session-id"))
        if not succeeded:
            raise refusal(exchange, call.id)
        if exchange.media_type == JSON:
            self._take(call, exchange)
            exchange.close()
        elif exchange.media_type != STREAM:
            raise wrong_type(exchange, call.method)
        elif call.reports is None or call.on_done is not None:
            http_client_streams.follow(self, call, way, exchange)
        else:  # whoever waits has the progress to look at
            follow = functools.partial(http_client_streams.follow, self, call, way, exchange)
            if not self.streams.submit(lambda _: self.ending(call, follow), None, always=True):
                raise Aborted

    def _take(self, call: Call, exchange: Exchange) -> None:
        """The answer is a body of JSON."""
        try:
            message = decode(exchange.read(self.limit))
        except TooLong:
            raise InvalidResponse(f"{call.method}: the answer is longer than {self.limit} bytes") from None
        except ParseError as problem:
            raise InvalidResponse(f"{call.method}: the answer is {problem.message}") from None
        if type(message) is list:
            self.receive_batch(message, self.outbox)
        elif type(message) is dict and "error" in message and message.get("id") is None:
            self.settle(call, error_response(message["error"]))
        else:
            self.route(message, self.outbox)
        if not call.done:
            self.settle(call, InvalidResponse(f"{call.method}: the body holds no answer to this request"))

    # -- sessions, in the legacy era ---------------------------------------------------------------------

    def _begin_session(self, session_id: str | None) -> None:
        """`initialize` was answered, and the answer named the session, or did not."""
        if session_id is not None and _SESSION_ID.fullmatch(session_id) is None:
            raise InvalidResponse("initialize: the session id is not made of visible ASCII characters")
        self.session_id = session_id

    def _is_lost(self, exchange: Exchange, call: Call, served: str | None) -> bool:
        way: Any = call.outbox
        in_session = served is not None and call.method != "initialize" and not way.is_modern
        return in_session and exchange.status == 404

    @contextlib.contextmanager
    def _alone(self, call: Call) -> Iterator[None]:
        """Until no other thread opens a session; as long as the call may take."""
        if not self._renewal.acquire(timeout=max(0.0, call.deadline.left())):
            raise Expired
        try:
            yield
        finally:
            self._renewal.release()

    def _wait_for_session(self, call: Call) -> None:
        """Until whoever opens a new session has done so."""
        if self._renewing not in (None, threading.get_ident()):
            with self._alone(call):
                pass

    def _renew(self, call: Call, served: str | None, lost: McpError) -> None:
        """Open a new session instead of one that the server has ended, once for all who notice.

        What the old one knew besides is told to the new one by a worker: whoever noticed may hold locks.
        # spec: basic/transports/streamable-http/session-restart-on-404
        """
        with self._alone(call):
            if self.session_id != served:
                return  # another thread did
            now = time.monotonic()
            self._renewals = [before for before in self._renewals if now - before < 60]
            if self._renewing is not None or len(self._renewals) >= RENEWALS:
                raise lost
            self._renewals.append(now)
            _log.warning("opening a new session: %s", lost)
            self._renewing = threading.get_ident()
            before, self._agreed_before = self.session, self.agreed
            self.session = Session()
            try:
                seconds = max(0.01, min(self.timeout, call.deadline.left()))
                self.client.open_legacy(self.request("initialize", self.client.hello(), timeout=seconds))
            except BaseException:
                self.session, self.session_id = before, served
                raise
            finally:
                self._renewing = None
        self.streams.submit(self._renewed, None, always=True)

    def _renewed(self, nothing: None) -> None:
        try:
            self.client.renewed()
        except McpError as problem:
            _log.warning("the new session is not as the old one was: %s", problem)

    def listen(self) -> None:
        """Hear what belongs to no request.  # spec: basic/transports/streamable-http/get-opens-stream"""
        if self.background is not None:
            self.background.stop()
        self.background = http_client_streams.Background(self)

    # -- the end -----------------------------------------------------------------------------------------

    def end(self, reason: str, *, wait: float = 0.5) -> None:
        """The connection is over; nothing of it is left, neither here nor, if it can be reached, there."""
        self.fail(reason)
        self.exchanges.stop()
        if self.background is not None:
            self.background.stop()
        super().end(reason, wait=wait)
        # What is waiting to be run finds out that all is over, and closes what it was given.
        if not self.streams.close(wait, drop=False):
            _log.info("a stream is still being read after the connection ended")
        self._say_goodbye()
        self.exchanges.close()

    def _say_goodbye(self) -> None:
        """# spec: basic/transports/streamable-http/session-delete"""
        headers, self.session_id = self.session_headers(), None
        if "Mcp-Session-Id" in headers:
            try:
                with self.exchanges.new(Deadline(PARTING, Clock()), last=True) as exchange:
                    exchange.send("DELETE", headers)
            except (McpError, Aborted, Expired) as problem:
                _log.debug("the end of the session: %s", problem)


def _date(params: Json | None) -> str | None:
    """The revision that a message brings itself; None in the legacy era."""
    meta = params.get("_meta") if params is not None else None
    date = meta.get(PROTOCOL_VERSION) if type(meta) is dict else None
    return date if isinstance(date, str) else None
