"""What an HTTP answer means (page: basic/transports/streamable-http, "Sending Messages"): the client's half.

    2xx, application/json       the JSON-RPC response, as it is
    2xx, text/event-stream      messages, the response among them
    202                         a notification or a response of ours was accepted
    any other status            the JSON-RPC error in the body, if there is one; else what the status means

A body that is an HTML page, a redirect elsewhere, a 200 without a body: each is an error that says so, and
quotes the beginning of the text.

Revisions   from 2025-03-26 on, and HTTP+SSE of 2024-11-05.
Errors      HttpError, with the status and the URL: RefusedByStatus if there was a JSON-RPC error (it is an
            ErrorResponse), HttpFailure if there was none (it is a LocalError).
Threads     plain functions, on the thread whose exchange it is.
"""

from __future__ import annotations

import datetime
import email.utils
import html
import math
import re
import time
from typing import Any

from mcp_ref.basic.index.error_responses import (
    ErrorResponse,
    HttpError,
    HttpFailure,
    ParseError,
    RefusedByStatus,
    error_response,
)
from mcp_ref.basic.index.messages import RequestId, decode
from mcp_ref.runtime.errors import ConnectionClosed, McpError
from mcp_ref.runtime.http_client.exchange import HttpExchange, TooLong, without_query
from mcp_ref.runtime.untrusted_text import one_line

__all__ = ["HttpError", "HttpFailure", "RefusedByStatus", "check_status", "refusal", "wrong_type"]

JSON, STREAM = "application/json", "text/event-stream"

SHOWN = 300
"""Characters of a body that an error quotes."""

_READ = 65536
"""Bytes of the longest body that is read for the error in it."""

SECONDS_OF_AN_HOUR = 3600
SECONDS_OF_A_DAY = 24 * SECONDS_OF_AN_HOUR

_STATUS_WORDS = {
    401: "it wants to know who asks: write connect(url, auth=...)",
    403: "it does not allow this",
    404: "there is no MCP at this URL, or the session is over",
    405: "it does not take this method at this URL",
    406: "it cannot answer in JSON or as an event stream",
    407: "a proxy on the way wants to know who asks: its URL can have a name and a password",
    415: "it does not take JSON",
}


def check_status(exchange: HttpExchange, call_id: RequestId | None) -> None:
    """Raise the error that a status means, unless it is a success (2xx)."""
    if not 200 <= exchange.status < 300:
        raise refusal(exchange, call_id)


def refusal(exchange: HttpExchange, call_id: RequestId | None) -> McpError:
    """The error that a status other than 2xx means, with the body that goes with it.

    The one place where such a status becomes an error. A server that wants authorization is known by the
    `challenge` of the error.
    """
    try:
        body = exchange.read(_READ)
    except (TooLong, ConnectionClosed):  # the status says enough where the body is long, or breaks off
        body = b""
    status, url, seconds = exchange.status, exchange.shown_url, _retry_after(exchange)
    challenge = exchange.header("www-authenticate")
    told = _json_rpc_error(body, call_id)
    if told is not None:
        return RefusedByStatus(told, status, url=url, retry_after=seconds, challenge=challenge)
    said = _words_for(exchange)
    if seconds is not None:
        said = f"try again in {_pause(seconds)}"
    answered = f"the server at {url} answered with HTTP status {status}"
    message = ": ".join(part for part in (answered, said, cleaned(exchange.media_type, body)) if part)
    return HttpFailure(status, message, url=url, retry_after=seconds, challenge=challenge)


def _pause(seconds: float) -> str:
    """A pause in words: a server may name a date in the far future."""
    if seconds < SECONDS_OF_A_DAY:
        return f"{seconds:g} s"
    if seconds < 3 * SECONDS_OF_A_DAY:
        return f"{seconds / SECONDS_OF_AN_HOUR:.0f} hours"
    return f"{seconds / SECONDS_OF_A_DAY:,.0f} days"


def _words_for(exchange: HttpExchange) -> str:
    """What a status means, in words for an error message; "" for most."""
    status = exchange.status
    if 300 <= status < 400:
        where = one_line(without_query(exchange.header("location") or "")) or "nowhere"
        return f"it redirects to {where:.200}, which is not followed"
    if status == 401 and "authorization" in map(str.lower, exchange.sent[1]):
        return (
            "it refused what the Authorization header said: an old token, perhaps, or that of another server"
        )
    return _STATUS_WORDS.get(status, "")


def _json_rpc_error(body: bytes, call_id: RequestId | None) -> ErrorResponse | None:
    """The JSON-RPC error in a body, if it has the id of this request, or none."""
    try:
        message = decode(body)
    except ParseError:
        return None
    if type(message) is not dict or "error" not in message or message.get("id") not in (None, call_id):
        return None
    told = error_response(message["error"])
    return told if isinstance(told, ErrorResponse) else None


def wrong_type(exchange: HttpExchange, method: str) -> HttpFailure:
    """The error for a success whose body is neither JSON nor an event stream."""
    status, kind, url = exchange.status, one_line(exchange.media_type), exchange.shown_url
    said = f"{kind[:100] or 'something of no type'}, which is neither {JSON} nor {STREAM}"
    try:
        body = exchange.read(_READ)
        said = f"{said}: {cleaned(kind, body)}" if body else "no body"
    except TooLong:
        pass
    answered = f"{method}: the server at {url} answered with HTTP status {status} and {said}"
    return HttpFailure(status, answered, url=url)


def cleaned(kind: str, body: bytes) -> str:
    """The beginning of a body as one line for people: of an HTML page only the text."""
    text = body[:_READ].decode("utf-8", "replace")
    if kind == "text/html" or text.lstrip()[:1] == "<":
        # Cut before it is unescaped: Python refuses a numeric reference of more than 4,300 digits.
        text = html.unescape(_MARKUP.sub(" ", text)[: 10 * SHOWN])
    text = " ".join("".join(c if c.isprintable() else " " for c in text[: 10 * SHOWN]).split())
    return text[:SHOWN] + ("..." if len(text) > SHOWN else "")


_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:-->|\Z))|<(script|style)\b.*?(?:</\1\s*>|\Z)|<[a-z/!?][^>]*(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""The parts of an HTML page that are not text. A part that is never closed matches up to the end of the page:
otherwise the page would be searched to its end for each `<!--` in it, which takes quadratic time."""


MAX_DATE_CHARACTERS = 64
"""Characters of a text that is read as an HTTP date; the longest form has 35."""


def _retry_after(exchange: HttpExchange) -> float | None:
    """The seconds of `Retry-After`, which holds their number or the date when they are over; else None."""
    if exchange.status not in (429, 503):
        return None
    text = (exchange.header("retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) < 10 else None
    return _seconds_until(text)


def _seconds_until(text: str) -> float | None:
    """Whole seconds until an HTTP date, by our clock; 0 if it has passed. None if it is not a date."""
    if len(text) > MAX_DATE_CHARACTERS:
        return None
    try:
        date = email.utils.parsedate_to_datetime(text)
        if date.tzinfo is None:  # the format of C's asctime names no zone: HTTP dates are in UTC
            date = date.replace(tzinfo=datetime.UTC)
        return float(max(0, math.ceil(date.timestamp() - time.time())))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def status_of(problem: McpError) -> int | None:
    """The HTTP status of an error; None if no HTTP response came."""
    found: Any = getattr(problem, "status", None)
    return found if isinstance(found, int) else None
