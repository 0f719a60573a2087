"""Who may ask what over HTTP (page: basic/transports/streamable-http, "Security & Endpoint").

A web page that a user looks at can send requests to servers on the user's own machine. If the page makes its
own name resolve to that machine (DNS rebinding), it can even read the answers. But a browser says in `Origin`
for which page it asks, and in `Host` by which name it reached the server. So each request passes these
checks; all but the last two come before a byte of its message is read:

    Gate.check      403   the Host or the Origin is not allowed
    Gate.identify   401   the `authenticate` hook does not know who asks, or the token is not valid
    Rates.check     429   this principal asks too often
    check_post      415   the body is not plain JSON         406   the client does not accept the answer
                    501   the body is in another transfer coding than chunks
    BodyBudget      503   too many large bodies are under way
    read_body       413   it is too long          400, 411   its length is wrong, or missing
    Allows.check    403   the token lacks the scopes for the message

A request that fails one gets a `Refused`: a status, headers, and as body a JSON-RPC error without an id.
`Denied` is for the `authenticate` hook of an application:

    def authenticate(request):
        if request.authorization is None:
            raise Denied("a token, please")

If the server is protected by OAuth, a `Guard` takes the place of that hook (basic/authorization,
api/resource_server).

Nothing here looks at X-Forwarded-For or other headers by which a proxy vouches for a client.

Revisions   2024-11-05  the Origin is checked
            2025-11-25  + a wrong one is 403; the body may be an error without id
Not here    what a message's own headers must say (basic/transports/streamable_http/request_metadata), on
            which address a server listens (basic/transports/streamable_http/endpoint).
Threads     whichever the WSGI server serves a request on. The decisions about header values are in caches
            that need no lock; `BodyBudget` has a lock for its shares, and one for large messages.
"""

from __future__ import annotations

import functools
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakSet

from mcp_ref.basic.index.error_responses import InvalidRequest, TooManyRequests
from mcp_ref.basic.index.messages import Json, decode, encode
from mcp_ref.basic.patterns.index.context import ALLOWED
from mcp_ref.runtime.errors import McpError
from mcp_ref.runtime.http_server.hosts import Hosts, Origins
from mcp_ref.runtime.http_server.request import BadRequest
from mcp_ref.runtime.json_text import MAX_JSON_PARTS
from mcp_ref.runtime.limits import Limit, Limiters
from mcp_ref.runtime.logs import logger

if TYPE_CHECKING:
    from werkzeug.wrappers import Request

    from mcp_ref.runtime.http_server.reply import HttpReply

__all__ = [
    "Allows",
    "Authenticate",
    "BodyBudget",
    "BodyShare",
    "Denied",
    "Forbidden",
    "Gate",
    "Guard",
    "Rates",
    "Refused",
    "accepts",
    "authenticated",
    "check_post",
    "log_request",
    "read_body",
    "requests_log",
]

_VISIBLE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


class Refused(McpError):
    """The refusal of a request: a status, headers, and an error without an id."""

    def __init__(self, status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = tuple(headers)

    def body(self) -> bytes:
        """The body of the HTTP response: an error without an id, as application/json.

        # spec: basic/transports/streamable-http/origin-403-body
        """
        error: Json = {"code": -32600, "message": self.message}
        if self.status == TooManyRequests.code:
            seconds = dict(self.headers).get("Retry-After", "1")
            error = {**error, "code": 429, "data": {"retryAfterMs": 1000 * int(seconds)}}
        return encode({"jsonrpc": "2.0", "error": error}).rstrip(b"\n")


class Denied(Refused):
    """Raised by an `authenticate` hook: this caller may not ask, or must first say who it is.

    `challenge` is the WWW-Authenticate header, which every 401 must have.
    """

    def __init__(self, message: str, *, status: int = 401, challenge: str | None = None) -> None:
        if not 400 <= status <= 599:
            raise ValueError(f"the status of a denial is from 400 to 599, not {status}")
        if challenge is None and status == 401:
            challenge = "Bearer"
        if challenge is not None and not _VISIBLE.fullmatch(challenge):
            raise ValueError(f"a challenge is visible ASCII and spaces, not {challenge!r:.80}")
        super().__init__(status, message, [("WWW-Authenticate", challenge)] if challenge else ())


class Forbidden(InvalidRequest):
    """Raised where a handler finds that its caller lacks permission.

    The response has the status and the headers of `refused`, if nothing of it was sent yet.
    """

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


_log = logger("mcp_ref.http")
requests_log = logger("mcp_ref.http.requests")

Environ: TypeAlias = dict[str, Any]
"""The environ of a request: what a WSGI server says of it."""

Authenticate: TypeAlias = "Callable[[Request], str | None]"
"""A hook that returns the principal of a request, or None if it has none; or raises `Denied`."""


class Allows(Protocol):
    """What the caller of one request may do; in the environ under ALLOWED."""

    def check(self, message: Any) -> None:
        """Raise Refused for a message, or a batch, that asks for more."""


class Guard:
    """Checks the tokens that requests bring; `wsgi_app(auth=...)` makes one (api/resource_server)."""

    documents: Mapping[str, Callable[[HttpReply], Iterable[bytes]]]
    """The documents that it serves itself, by path: to every host, to every page, and without a token."""

    def admit(self, environ: Environ) -> str:
        """Return the principal of a request, and put what it may do into the environ. Raises Refused."""
        raise NotImplementedError


KEPT = 256
"""Values of one header for which the decision is cached."""

LONG = 1024
"""Characters of a header value beyond which nothing about it is cached."""

# ------------------------------------------------------------------------------ the gate

LOOPBACK = "127.0.0.1"  # spec: basic/transports/streamable-http/bind-localhost
"""The address at which a server listens unless it is given another: it is reached from this machine alone."""
LOCAL = ("localhost", LOOPBACK, "[::1]")
"""The names by which this machine reaches itself."""

METHODS = "GET, POST, DELETE"
"""The methods of an endpoint."""

ASKABLE = "Content-Type, Accept, Authorization, Mcp-Session-Id, Last-Event-ID, "
ASKABLE += "MCP-Protocol-Version, Mcp-Method, Mcp-Name, DPoP"
"""Headers that a web page may send, besides the Mcp-Param-* that it asks for."""

READABLE = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, DPoP-Nonce, Retry-After"
"""Headers of a response that a web page may read."""

PARAMETERS = 64
"""Mcp-Param-* headers that one web page may ask for."""

_PARAMETER = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]{1,128}", re.IGNORECASE)


class Gate:
    """Checks the Host and the Origin of requests; finds out who asks, and limits how often."""

    def __init__(
        self,
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        browser_origins: str | Iterable[str] = (),
        authenticate: Authenticate | Guard | None = None,
        rate: Limit | None = None,
        health_path: str | None = None,
    ) -> None:
        if allowed_origins is None:
            allowed_origins = [f"{scheme}://{name}:*" for scheme in ("http", "https") for name in LOCAL]
        self._hosts = Hosts("allowed_hosts", LOCAL if allowed_hosts is None else allowed_hosts)
        if not self._hosts:
            raise ValueError("allowed_hosts names no host, so that every request would be refused")
        self._origins = Origins("allowed_origins", allowed_origins)
        self._browsers = Origins("browser_origins", browser_origins)
        self._rates = Rates(rate)
        self._principal_of: Callable[[Environ], str | None] = lambda environ: None
        self.documents: Mapping[str, Callable[[HttpReply], Iterable[bytes]]] = {}
        if isinstance(authenticate, Guard):
            self._principal_of, self.documents = authenticate.admit, authenticate.documents
        elif authenticate is not None:
            self._principal_of = functools.partial(authenticated, authenticate)
        self.open_paths = {health_path, *self.documents}
        """Paths that any host and any page may ask for: what is there is public."""
        self.identifies = not (authenticate is None and rate is None)
        """Whether `identify` has anything to do."""
        # Only values that are let in are cached: the check of any other raises.
        self._let_in_host = functools.lru_cache(KEPT)(self._check_host)
        self._let_in_origin = functools.lru_cache(KEPT)(self._check_origin)

    def check(self, environ: Environ) -> list[tuple[str, str]]:
        """Raise Refused for a Host or an Origin that is not allowed.

        Returns the headers with which a browser lets its page read the response.
        # spec: basic/transports/streamable-http/origin-validated
        """
        host, origin = environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN")
        if host is not None:
            self._let_in_host(host)
        elif environ.get("SERVER_PROTOCOL") != "HTTP/1.0":  # which no browser speaks
            raise Refused(400, "the request has no Host header")
        return [] if origin is None else list(self._let_in_origin(origin))

    def _check_host(self, host: str) -> None:
        if Hosts.parse(host) is None:
            raise Refused(400, f"the Host header {host!r:.80} is not one host")
        if host not in self._hosts:
            raise Refused(403, f"the Host {host!r:.80} is not among the allowed_hosts of this server")

    def _check_origin(self, origin: str) -> Sequence[tuple[str, str]]:
        """The headers for a browser. They allow no cookies: a page sends its own Authorization header."""
        if origin in self._browsers:
            readable = ("Access-Control-Expose-Headers", READABLE)
            if self._browsers.has_all:
                return ("Access-Control-Allow-Origin", "*"), readable
            return ("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), readable
        if origin not in self._origins:  # spec: basic/transports/streamable-http/origin-invalid-403
            raise Refused(403, f"the Origin {origin!r:.80} is not among the allowed_origins of this server")
        return ()

    def identify(self, environ: Environ) -> str | None:
        """The principal of a request, if that is known. Raises Refused if it may not ask, or not so often."""
        principal = self._principal_of(environ)
        self._rates.check(principal or "")
        return principal

    def preflight(self, environ: Environ, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The headers that answer OPTIONS, by which a browser learns what its page may send.

        `headers` are those that `check` returned. Raises Refused for a page that has none.
        """
        if not headers:
            raise Refused(405, "OPTIONS is for web pages among the browser_origins", [("Allow", METHODS)])
        asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")[: PARAMETERS * 160].split(",")
        names = [name for part in asked if _PARAMETER.fullmatch(name := part.strip(" \t"))]
        return [
            *headers,
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", ", ".join([ASKABLE, *names[:PARAMETERS]])),
            ("Access-Control-Max-Age", "7200"),
        ]


# -------------------------------------------------------------------- what kinds of body

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def accepts(header: str | None, media: str) -> bool:
    """Whether the sender of this `Accept` takes that media type (RFC 9110, section 12.5.1)."""
    if header is None:
        return True
    return _accepts(header, media) if len(header) <= LONG else _decide_accepts(header, media)


def _decide_accepts(header: str, media: str) -> bool:
    """The most specific range for the type decides. Parameters other than `q` are ignored."""
    wanted = {"*/*": 0, f"{media.partition('/')[0]}/*": 1, media: 2}
    best, quality = -1, 0.0
    for part in _QUOTED.sub("", header).split(","):
        name, *parameters = part.lower().split(";")
        rank = wanted.get(name.strip(" \t"), -1)
        if rank < best or rank < 0:
            continue
        weights = [p.strip(" \t")[2:] for p in parameters if p.strip(" \t").startswith("q=")]
        if len(weights) > 1 or not all(map(_QUALITY.fullmatch, weights)):
            continue
        weight = float(weights[0]) if weights else 1.0
        best, quality = rank, max(weight, quality) if rank == best else weight
    return quality > 0.0


_accepts = functools.lru_cache(KEPT)(_decide_accepts)


@functools.lru_cache(maxsize=KEPT)
def prefers_events(header: str | None) -> bool:
    """Whether an `Accept` names text/event-stream before application/json, as a sign of what is preferred."""
    found = [part.partition(";")[0].strip(" \t").lower() for part in (header or "")[:LONG].split(",")]
    types = [name for name in found if name in ("text/event-stream", "application/json")]
    return types[:1] == ["text/event-stream"]


def check_post(environ: Environ, need: tuple[str, ...]) -> None:
    """Raise Refused if the body is not plain JSON, or a media type in `need` is not accepted."""
    kind = environ.get("CONTENT_TYPE", "")
    if len(kind) > LONG or not _is_json(kind):
        said = f"not {kind!r:.80}" if kind else "which its Content-Type does not say"
        raise Refused(415, f"the body is application/json in UTF-8, {said}", [("Accept", "application/json")])
    if "HTTP_CONTENT_ENCODING" in environ or "HTTP_TRANSFER_ENCODING" in environ:
        _check_codings(environ)
    accept = environ.get("HTTP_ACCEPT", "*/*")
    lacking = (_lacking if len(accept) <= LONG else _decide_lacking)(accept, need)
    if lacking is not None:
        raise Refused(406, f"the answer may be {lacking}, which the Accept header does not take")


def _check_codings(environ: Environ) -> None:
    """Raise Refused for a body in any coding but chunks: some WSGI servers decode these, and nothing else."""
    coding = environ.get("HTTP_CONTENT_ENCODING")
    if coding and coding.strip(" \t").lower() != "identity":
        plain = [("Accept-Encoding", "identity")]
        raise Refused(415, f"the body is sent as it is, not as {coding!r:.40}", plain)
    transfer = environ.get("HTTP_TRANSFER_ENCODING")
    if transfer is not None and transfer.strip(" \t").lower() != "chunked":
        raise Refused(
            501, f"The body is sent as it is or in chunks, not with Transfer-Encoding {transfer!r:.40}."
        )


def _decide_lacking(accept: str, need: tuple[str, ...]) -> str | None:
    """The first media type that an `Accept` does not take; None if it takes all."""
    return next((media for media in need if not accepts(accept, media)), None)


_lacking = functools.lru_cache(KEPT)(_decide_lacking)


@functools.lru_cache(KEPT)
def _is_json(header: str) -> bool:
    """Whether a Content-Type is JSON. It may say that the charset is UTF-8, as JSON's always is."""
    media, *parameters = header.lower().split(";")
    told = {parameter.strip(" \t") for parameter in parameters} - {""}
    return media.strip(" \t") == "application/json" and told <= {"charset=utf-8", 'charset="utf-8"'}


PIECE = 1 << 20
"""Bytes of a body that one read asks for, at most, whatever length was announced."""


SMALL_BODY_BYTES = 64 << 10
"""Bytes of a body that needs no share of the budget: there are no more of these than the server has
connections."""


BYTES_OF_A_PART = 16
"""A body may have one part (basic/index/messages) for each 16 of the bytes that it may have: so the memory
that its message takes is in proportion to them.
"""

FEW_PARTS = 10_000
"""Parts that a body may have besides, however low the limit on its bytes is."""


class BodyBudget:
    """Bounds the bodies of requests: each one, and all large ones under way together.

    Each large body has a share, which counts for as long as anything refers to it. The `environ` of the
    request does, and the context of the request refers to that: so the share is released when its message is
    no longer in memory, for whatever reason.
    """

    def __init__(self, limit: int, one: int | None = None) -> None:
        """All large bodies together have up to `limit` bytes, and each has up to `one`."""
        self.limit, self.one = limit, one or limit
        self._max_parts = min(MAX_JSON_PARTS, self.one // BYTES_OF_A_PART + FEW_PARTS)
        self.forked()

    def forked(self) -> None:
        """Begin with no body under way: at the start, and again in a forked child."""
        self._lock = threading.Lock()
        self._shares: WeakSet[BodyShare] = WeakSet()  # guarded by _lock
        self._decoding = threading.Lock()  # held while a large body becomes a message

    def receive(self, environ: Environ, need: tuple[str, ...], before_large: Callable[[], object]) -> Any:
        """Return the message of a POST, whose client must accept the media types in `need`.

        `before_large` is called before a large body is read. Raises Refused, also for a message that its
        caller may not send, in either transport; ParseError.
        """
        check_post(environ, need)
        said = environ.get("CONTENT_LENGTH")
        if said and len(said) <= 5 and said.isascii() and said.isdigit() and int(said) <= SMALL_BODY_BYTES:
            message = decode(read_body(environ, self.one), self._max_parts)
        else:
            before_large()  # a request that can be refused without its body is refused here
            body = read_body(environ, self.one, self.share(environ))
            with self._decoding:  # no other thread runs during one: between two, those that wait get a turn
                message = decode(body, self._max_parts)
        if ALLOWED in environ:
            environ[ALLOWED].check(message)
        return message

    def share(self, environ: Environ) -> BodyShare:
        """A share of the budget for a large body, which its environ keeps."""
        share = environ["mcp_ref.body_share"] = BodyShare(self)
        return share

    @property
    def taken(self) -> int:
        """Bytes of the large bodies under way."""
        with self._lock:
            return sum(share.size for share in self._shares)

    def grow(self, share: BodyShare, size: int) -> None:
        """Let a share have `size` bytes. Raises Refused if there is no room for that."""
        with self._lock:
            others = sum(other.size for other in self._shares if other is not share)
            if others + size > self.limit:
                raise Refused(
                    503,
                    f"The large bodies under way have {others} of {self.limit} bytes; retry in 1 s.",
                    [("Retry-After", "1")],
                )
            share.size = size
            self._shares.add(share)


class BodyShare:
    """The bytes of one body that count against a BodyBudget."""

    def __init__(self, budget: BodyBudget) -> None:
        self.size = 0  # written by the thread that reads the body
        self._budget = budget

    def reserve(self, size: int) -> None:
        """Have room for `size` bytes of the body, before they are read. Raises Refused."""
        if size > max(self.size, SMALL_BODY_BYTES):
            self._budget.grow(self, size)

    def set_size(self, size: int) -> None:
        """Give back the rest: the body was read, and has `size` bytes."""
        self.size = min(self.size, size)


def read_body(environ: Environ, limit: int, share: BodyShare | None = None) -> bytes:
    """Read the whole body. Raises Refused; never reads more than one byte beyond the limit.

    A body with a Content-Length gets its whole share before a byte is read; one in chunks, bit by bit.
    """
    told = environ.get("CONTENT_LENGTH")
    if not told:
        if not environ.get("wsgi.input_terminated"):
            raise Refused(411, "the request says no Content-Length")
        body = _read(environ, limit + 1, share)
    else:
        length = _length(told, limit)
        if share is not None:
            share.reserve(length)
        body = _read(environ, length, share)
        if len(body) < length:
            raise Refused(400, f"the body ends after {len(body)} of {length} bytes")
    if len(body) > limit:
        raise Refused(413, f"the body has more than {limit} bytes")
    if share is not None:
        share.set_size(len(body))
    return body


def _length(header: str, limit: int) -> int:
    """The Content-Length of a request as a number. Raises Refused."""
    if not (header.isascii() and header.isdigit()):
        raise Refused(400, f"the Content-Length {header!r:.40} is not a number")
    if len(header) > 18 or int(header) > limit:
        raise Refused(413, f"the body has more than {limit} bytes")
    return int(header)


def _pieces(source: Any, most: int, share: BodyShare | None) -> Iterator[bytes]:
    """Read up to `most` bytes, as they come. A body that has not its whole share yet gets it bit by bit."""
    at_once = PIECE if share is None or share.size >= most else SMALL_BODY_BYTES
    size = 0
    while size < most:
        # Up to the next multiple of `at_once`: so a small body never needs more than SMALL_BODY_BYTES.
        step = min(at_once - size % at_once, most - size)
        if share is not None:
            share.reserve(size + step)
        piece = source.read(step)
        if not piece:
            return
        size += len(piece)
        yield piece


def _read(environ: Environ, most: int, share: BodyShare | None) -> bytes:
    """Read up to `most` bytes. Raises Refused."""
    source, pieces = environ["wsgi.input"], []
    try:
        if share is None and 0 < most <= SMALL_BODY_BYTES:  # as a rule one read returns all of it
            pieces.append(source.read(most))
        if not pieces or 0 < len(pieces[0]) < most:
            pieces.extend(_pieces(source, most - sum(map(len, pieces)), share))
    except Exception as problem:
        raise _unreadable(problem, sum(map(len, pieces))) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unreadable(problem: Exception, size: int) -> Refused:
    """The refusal of a request whose body could not be read, after `size` bytes."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, BadRequest):  # of the embedded server
        return Refused(int(problem.status[:3]), str(problem))
    if isinstance(problem, TimeoutError):
        return Refused(408, f"the body came too slowly: {size} bytes so far")
    # Each WSGI server has exceptions of its own for a connection or a chunk that breaks.
    _log.debug("a body could not be read", exc_info=problem)
    return Refused(400, f"the body could not be read: {type(problem).__name__}")


# ---------------------------------------------------------------------------- who, and how often


class Rates:
    """Limits how often each principal may ask; without a limit, nothing is refused."""

    def __init__(self, limit: Limit | None) -> None:
        self._limiters = None if limit is None else Limiters(limit)

    def check(self, principal: str) -> None:
        """Raise Refused if this principal asks too often."""
        wait = 0.0 if self._limiters is None else self._limiters.of(principal).take()
        if wait:
            seconds = max(1, math.ceil(wait))
            later = [("Retry-After", str(seconds))]
            raise Refused(429, f"too many requests; come back in {seconds} s", later)


def authenticated(hook: Authenticate, environ: Environ) -> str | None:
    """The principal of a request, by the server's own hook; None if it names none. Raises Refused.

    The hook sees the method, the path, the address and the headers, but not the body.
    # spec: basic/transports/streamable-http/authenticate-connections
    """
    from werkzeug.wrappers import Request

    try:
        principal = hook(Request(environ, populate_request=False, shallow=True))
    except Refused:
        raise
    except Exception:
        _log.exception("the authenticate hook failed")
        raise Refused(500, "authentication failed on the server's side") from None
    if principal is not None and not (isinstance(principal, str) and principal):
        _log.error("the authenticate hook returned a %s, not a name or None", type(principal).__name__)
        raise Refused(500, "authentication failed on the server's side")
    return principal


def log_request(environ: Environ, status: int, seconds: float, principal: str | None) -> None:
    """One line on `requests_log`, without anything that could be a secret."""
    requests_log.info(
        "%s %s %s %d %.1f ms %s %s",
        _plain(environ.get("REMOTE_ADDR")),
        _plain(environ.get("REQUEST_METHOD"), 20),
        _plain(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), 200),
        status,
        seconds * 1000,
        _plain(environ.get("HTTP_MCP_METHOD")),
        _plain(principal),
    )


def _plain(text: str | None, most: int = 60) -> str:
    """A value as one short word: all but visible ASCII is escaped, so that it cannot forge a line."""
    if not text:
        return "-"
    shown = text[:most].encode("unicode_escape").decode("ascii").replace(" ", "\\x20")
    return shown if len(text) <= most else f"{shown}..."
