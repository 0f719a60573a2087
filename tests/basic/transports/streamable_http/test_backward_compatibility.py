"""Which era a server behind a URL speaks: the body of its answers decides."""

import json
import threading

import pytest
from choices import for_connect
from http_peers import endpoint
from peers import LEGACY, MODERN
from web import ABLE, INFO, opened, text, web

from mcp_ref import ClientOptions, Denied, Server, connect
from mcp_ref.api import connect as connecting
from mcp_ref.basic.index.error_responses import ErrorResponse
from mcp_ref.basic.transports.stdio.backward_compatibility import KnownEras
from mcp_ref.basic.transports.streamable_http.http_errors import HttpError, RefusedByStatus
from mcp_ref.basic.versioning import Era
from mcp_ref.runtime.errors import ConnectionClosed, LocalError, RequestTimeout

PLAIN = "Content-Type: text/plain"


def rest(request, wire):
    wire.result(request, text("hello"))


def probed(answer, revision="2025-11-25", **more):
    """A legacy server that says something particular to the probe: what it is taken for, and was asked."""

    def handle(request, wire):
        if request.rpc == "server/discover":
            answer(request, wire)
        else:
            opened(rest, revision)(request, wire)

    with web(handle) as site, connect(site.url, **for_connect(**more)) as client:
        assert client.call_tool("a").text == "hello"
        return client.revision, [r.rpc for r in site.requests if r.method == "POST"]


@pytest.mark.spec("basic/transports/streamable-http/era-detection")
def test_a_modern_server_is_found_by_one_request():
    with web(opened(rest)) as site, connect(site.url) as client:
        assert client.revision == MODERN
        client.call_tool("a")
        client.call_tool("a")
        assert [r.rpc for r in site.requests] == ["server/discover", "tools/list", "tools/call", "tools/call"]


def _status(status, body=b"", *lines):
    return lambda request, wire: wire.answer(status, body, *(lines or (PLAIN,)))


def _error(code, status):
    return lambda request, wire: wire.error(request, code, "no such thing", status)


@pytest.mark.spec(
    "basic/transports/streamable-http/era-fallback-initialize",
    "basic/transports/streamable-http/era-inspect-400",
)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(_status(400), id="400, empty"),
        pytest.param(_status(400, b"Bad Request: no session"), id="400, text"),
        pytest.param(
            _status(400, b'{"error": "no session"}', "Content-Type: application/json"), id="400, JSON"
        ),
        pytest.param(_status(404), id="404"),
        pytest.param(_status(405), id="405"),
        pytest.param(_status(406), id="406"),
        pytest.param(_status(422, b"<h1>no</h1>", "Content-Type: text/html"), id="422, HTML"),
        pytest.param(_status(202), id="202"),
        pytest.param(_status(200), id="200, empty"),
        pytest.param(_status(200, b"<h1>no</h1>", "Content-Type: text/html"), id="200, HTML"),
        pytest.param(_error(-32000, 400), id="400, -32000"),
        pytest.param(_error(-32001, 404), id="404, -32001"),
        pytest.param(_error(-32600, 400), id="400, -32600"),
        pytest.param(_error(-32602, 200), id="200, -32602"),
        pytest.param(_error(-32601, 200), id="200, -32601"),
        pytest.param(_error(-32601, 404), id="404, -32601"),
    ],
)
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
def test_what_is_no_modern_error_means_a_legacy_server(answer, revision):
    found, asked = probed(answer, revision)
    assert found == revision
    assert asked == ["server/discover", "initialize", "notifications/initialized", "tools/call"]


def _unsupported(supported):
    def answer(request, wire):
        if len(request_of(wire, "server/discover")) == 1:
            wire.error(request, -32022, "Unsupported protocol version", 400, {"supported": supported})
        else:
            opened(rest)(request, wire)

    return answer


def request_of(wire, rpc):
    return wire.site.of(rpc)


@pytest.mark.spec(
    "basic/transports/streamable-http/era-modern-error",
    "basic/versioning/client-retries-supported-version",
    "basic/versioning/modern-error-means-modern",
)
@pytest.mark.parametrize("supported", [[MODERN], ["2025-11-25", MODERN, "2099-01-01"]])
def test_a_modern_error_is_answered_in_a_version_that_the_server_names(supported):
    """Also if that is the one that it has just refused."""

    def handle(request, wire):
        if request.rpc == "server/discover":
            _unsupported(supported)(request, wire)
        else:
            opened(rest)(request, wire)

    with web(handle) as site, connect(site.url) as client:
        assert client.revision == MODERN
        assert [r.rpc for r in site.requests] == ["server/discover", "server/discover"]


@pytest.mark.parametrize("code", [-32020, -32021, -32022])
def test_a_modern_server_that_goes_on_refusing_is_no_legacy_one(code):
    def handle(request, wire):
        wire.error(request, code, "not so", 400, {"supported": [MODERN], "requiredCapabilities": {}})

    with web(handle) as site:
        with pytest.raises(RefusedByStatus, match="not so") as refused:
            connect(site.url)
        assert refused.value.code == code
        assert [r.rpc for r in site.requests] == ["server/discover"] * 2


def test_a_modern_error_that_names_only_legacy_versions_leads_to_initialize():
    def answer(request, wire):
        wire.error(request, -32022, "Unsupported", 400, {"supported": ["2025-06-18"]})

    assert probed(answer, "2025-06-18")[0] == "2025-06-18"


def test_nothing_in_common_is_said_so():
    def answer(request, wire):
        wire.error(request, -32022, "Unsupported", 400, {"supported": ["2099-01-01"]})

    with web(answer) as site, pytest.raises(LocalError, match=r"no version in common.*2099-01-01"):
        connect(site.url)


@pytest.mark.spec("basic/versioning/modern-client-actionable-error")
def test_a_server_that_discovers_only_legacy_versions_is_asked_to_initialize():
    def answer(request, wire):
        found = {
            "supportedVersions": ["2025-06-18"],
            "capabilities": ABLE,
            "ttlMs": 0,
            "cacheScope": "private",
        }
        wire.result(request, {"resultType": "complete", **found})

    assert probed(answer, "2025-06-18")[0] == "2025-06-18"
    with web(answer) as site, pytest.raises(LocalError, match="connect with revision='2025-06-18'"):
        connect(site.url, revision=MODERN)


@pytest.mark.spec("basic/versioning/modern-client-actionable-error")
@pytest.mark.parametrize("found", [{}, {"supportedVersions": "all"}])
def test_a_modern_client_is_told_what_to_do_about_a_server_that_names_no_version(found):
    with (
        web(lambda request, wire: wire.result(request, found)) as site,
        pytest.raises(LocalError, match="connect with revision='2025-11-25'"),
    ):
        connect(site.url, revision=MODERN)
    assert [r.rpc for r in site.requests] == ["server/discover"]


@pytest.mark.parametrize("status", [401, 403, 407, 408, 429, 500, 502, 503])
def test_some_statuses_say_nothing_of_the_era_and_end_the_search(status):
    with web(_status(status, b"no")) as site:
        with pytest.raises(HttpError, match=f"status {status}"):
            connect(site.url)
        assert len(site.requests) == 1


@pytest.mark.parametrize("code", [-32603, -32600, 429])
@pytest.mark.parametrize("status", [401, 403, 407, 408, 429, 500, 502, 503])
def test_they_say_no_more_with_a_json_rpc_error_in_them(status, code):
    """A server that has no room for the probe is not taken for a legacy one, though it has some at once."""
    legacy, eras = opened(rest, "2025-11-25"), KnownEras()

    def handle(request, wire):
        if request.rpc == "server/discover":
            wire.error(request, code, "come back later", status)
        else:
            legacy(request, wire)

    with web(handle) as site:
        with pytest.raises(HttpError, match="come back later") as caught:
            connect(site.url, options=ClientOptions(eras=eras))
        assert caught.value.status == status
        assert [r.rpc for r in site.requests] == ["server/discover"]
    assert len(eras) == 0


@pytest.mark.spec("basic/versioning/modern-error-means-modern")
def test_a_modern_error_decides_whatever_its_status_is():
    def handle(request, wire):
        if request.rpc == "server/discover" and len(request_of(wire, "server/discover")) == 1:
            wire.error(request, -32022, "Unsupported protocol version", 503, {"supported": [MODERN]})
        else:
            opened(rest)(request, wire)

    with web(handle) as site, connect(site.url) as client:
        assert client.revision == MODERN


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_server_of_ours_that_refuses_the_probe_is_not_taken_for_a_legacy_one(status):
    """It is busy, or does not know who asks; once it does answer, the two agree as ever."""
    asked = []

    def authenticate(request):
        asked.append(request)
        if len(asked) == 1:
            raise Denied("not now", status=status)

    with endpoint(Server("busy"), authenticate=authenticate) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        with pytest.raises(RefusedByStatus, match="not now"):
            connect(url)
        with connect(url) as client:
            assert client.revision == MODERN


def test_a_server_that_closes_or_keeps_silent_ends_the_search_too():
    with web(lambda request, wire: wire.close()) as site:
        with pytest.raises(ConnectionClosed, match="before it answered"):
            connect(site.url)
        assert len(site.requests) == 1
    with web(lambda request, wire: wire.gone()) as site, pytest.raises(RequestTimeout):
        connect(site.url, timeout=0.2)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_revision_alone_is_not_probed_for(revision):
    with web(opened(rest, revision)) as site, connect(site.url, revision=revision) as client:
        assert client.revision == revision
        assert site.requests[0].rpc == "initialize"
        assert not site.of("server/discover")


@pytest.mark.spec("basic/versioning/modern-client-actionable-error")
@pytest.mark.parametrize("status", [400, 404, 405, 200])
def test_a_modern_revision_alone_is_insisted_on(status):
    with web(_error(-32601, status)) as site:
        with pytest.raises(LocalError, match=r"no such thing.*connect with revision='2025-11-25'") as refused:
            connect(site.url, revision=MODERN)
        assert getattr(refused.value, "status", 200) == status
        assert [r.rpc for r in site.requests] == ["server/discover"]
    with web(_status(status, b"hello")) as site:
        with pytest.raises(HttpError):
            connect(site.url, revision=MODERN)
        assert [r.rpc for r in site.requests] == ["server/discover"]


# --------------------------------------------------------------------------- perhaps HTTP+SSE


@pytest.mark.spec(
    "basic/transports/streamable-http/old-server-fallback-listed",
    "basic/transports/streamable-http/old-server-fallback-modern",
)
@pytest.mark.parametrize("status", [400, 404, 405])
@pytest.mark.parametrize("body", [b"", b"Cannot POST /mcp"])
def test_a_server_that_takes_no_initialize_is_asked_for_the_old_stream(status, body):
    def handle(request, wire):
        if request.method == "GET":
            wire.answer(404)
        else:
            wire.answer(status, body, PLAIN)

    with web(handle) as site:
        with pytest.raises(HttpError, match=f"status {status}"):
            connect(site.url)
        assert [(r.method, r.rpc) for r in site.requests] == [
            ("POST", "server/discover"),
            ("POST", "initialize"),
            ("GET", None),
        ]


@pytest.mark.parametrize(("code", "status"), [(-32601, 404), (-32020, 400), (-32022, 400)])
def test_a_modern_error_to_initialize_is_no_old_server(code, status):
    def handle(request, wire):
        if request.rpc == "server/discover":
            wire.answer(400)
        else:
            wire.error(request, code, "only modern", status, {"supported": [MODERN]})

    with web(handle) as site:
        with pytest.raises(RefusedByStatus, match="only modern"):
            connect(site.url)
        assert all(r.method == "POST" for r in site.requests)


@pytest.mark.parametrize("status", [401, 403, 406, 429, 500])
def test_other_statuses_mean_no_old_server(status):
    def handle(request, wire):
        wire.answer(400 if request.rpc == "server/discover" else status, b"no", PLAIN)

    with web(handle) as site:
        with pytest.raises(HttpError, match=f"status {status}"):
            connect(site.url)
        assert all(r.method == "POST" for r in site.requests)


def test_an_error_to_initialize_that_comes_with_200_is_just_that():
    def handle(request, wire):
        wire.error(request, -32602, "not you")

    with web(handle) as site:
        with pytest.raises(ErrorResponse, match="not you"):
            connect(site.url)
        assert all(r.method == "POST" for r in site.requests)


def test_a_server_of_the_old_transport_is_talked_to():
    queue = []
    more = threading.Condition()

    def handle(request, wire):
        if request.method == "GET":
            wire.head(200, "Content-Type: text/event-stream")
            wire.send(b"event: endpoint\ndata: /messages?id=1\n\n")
            while not wire.site.over.is_set():
                with more:
                    more.wait_for(lambda: queue, 0.05)
                    while queue:
                        wire.send(b"event: message\ndata: " + queue.pop(0) + b"\n\n")
        elif request.target == "/mcp":
            wire.answer(405)
        else:
            wire.answer(202)
            if "id" in request.message:
                result = {"protocolVersion": "2024-11-05", "capabilities": ABLE, "serverInfo": INFO}
                result = result if request.rpc == "initialize" else text("hello")
                answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
                with more:
                    queue.append(json.dumps(answer).encode())
                    more.notify_all()

    with web(handle) as site, connect(site.url) as client:
        assert client.revision == "2024-11-05"
        assert client.call_tool("a").text == "hello"


# ------------------------------------------------------------------------------ what is remembered


GREETED = ["initialize", "notifications/initialized"]


class Changing:
    """A legacy server, until it is a modern one. `asked` has what each client sent before its first call."""

    def __init__(self):
        self.is_modern = False
        self.site = None

    def __call__(self, request, wire):
        if self.is_modern and request.rpc == "initialize":
            wire.error(request, -32022, "only modern", 400, {"supported": [MODERN], "requested": "x"})
        else:
            opened(rest, MODERN if self.is_modern else "2025-11-25")(request, wire)

    def opening(self, site, query="", **options):
        before = len(site.requests)
        with connect(site.url + query, **for_connect(**options)) as client:
            client.call_tool("a")
            asked = [r.rpc for r in site.requests[before:] if r.method == "POST"]
            return client.revision.date, [rpc for rpc in asked if not rpc.startswith("tools/")]


@pytest.mark.spec("basic/versioning/era-persisted")
def test_a_legacy_server_is_probed_once_and_one_that_has_changed_again():
    """A later client of the same URL, whatever its query, goes straight to initialize."""
    server = Changing()
    with web(server) as site:
        assert server.opening(site) == ("2025-11-25", ["server/discover", *GREETED])
        assert server.opening(site) == ("2025-11-25", GREETED)
        assert server.opening(site, "?user=1") == ("2025-11-25", GREETED)
        assert server.opening(site, eras=False) == ("2025-11-25", ["server/discover", *GREETED])
        assert server.opening(site, "/other") == ("2025-11-25", ["server/discover", *GREETED])
        server.is_modern = True
        assert server.opening(site) == (MODERN, ["initialize", "server/discover"])
        assert server.opening(site) == (MODERN, ["server/discover"])


def test_a_server_that_refuses_what_it_was_remembered_for_is_forgotten_whatever_the_probe_says():
    eras = KnownEras()
    with web(lambda request, wire: wire.error(request, -32601, "Method not found")) as site:
        server = connecting._known_era(site.url, ClientOptions(eras=eras))
        server.store(Era.LEGACY)
        with pytest.raises(ErrorResponse, match="Method not found"):
            connect(site.url, options=ClientOptions(eras=eras))
        assert [r.rpc for r in site.requests] == ["initialize", "server/discover", "initialize"]
        assert server.find() is None


@pytest.mark.parametrize("how", ["a list", "a modern error"])
def test_a_list_without_a_version_of_ours_is_not_remembered_as_legacy(how):
    """It depends on the client: another one may have the version that is named."""
    legacy = opened(rest, "2025-11-25")

    def handle(request, wire):
        if request.rpc != "server/discover":
            legacy(request, wire)
        elif how == "a list":
            more = {"capabilities": ABLE, "ttlMs": 0, "cacheScope": "private"}
            wire.result(request, {"resultType": "complete", "supportedVersions": ["2025-11-25"], **more})
        else:
            wire.error(request, -32022, "not that one", 400, {"supported": ["2025-11-25"], "requested": "x"})

    eras = KnownEras()
    with web(handle) as site, connect(site.url, options=ClientOptions(eras=eras)) as client:
        assert client.revision == "2025-11-25"
    assert len(eras) == 0


@pytest.mark.parametrize("status", [401, 403, 503])
def test_what_says_nothing_of_the_era_leaves_what_is_remembered(status):
    server, is_refusing = Changing(), []

    def handle(request, wire):
        if is_refusing:
            wire.answer(status)
        else:
            server(request, wire)

    with web(handle) as site:
        server.opening(site)
        is_refusing.append(True)
        with pytest.raises(HttpError):
            connect(site.url)
        assert [r.rpc for r in site.requests if r.method == "POST"][-1] == "initialize"
        is_refusing.clear()
        assert server.opening(site) == ("2025-11-25", GREETED)


def test_a_url_without_a_server_is_not_remembered_as_a_legacy_one():
    """Perhaps it is there only later, and a modern one."""
    server, is_there = Changing(), []
    server.is_modern = True
    with web(lambda request, wire: server(request, wire) if is_there else wire.answer(404)) as site:
        with pytest.raises(HttpError):
            connect(site.url)
        is_there.append(True)
        assert server.opening(site) == (MODERN, ["server/discover"])
