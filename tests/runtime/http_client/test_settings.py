"""What goes with every HTTP exchange: headers, cookies, proxies, certificates, and which counts more."""

import re

import pytest
import requests
from http_exchanges import ask, ok, within
from peers import eventually
from requests.adapters import HTTPAdapter
from web import certificate, web

from mcp_ref import connect
from mcp_ref.runtime.errors import ConnectionClosed, LocalError
from mcp_ref.runtime.http_client import settings as settings_module
from mcp_ref.runtime.http_client.client import HttpClient
from mcp_ref.runtime.http_client.settings import Settings, merge_headers

pytestmark = pytest.mark.usefixtures("own_environment")


def test_headers_of_the_application_go_with_every_request(at):
    with web(ok) as site:
        http = at(site, headers={"Authorization": "Bearer t", "X-Tenant": "7"})
        for _ in range(2):
            ask(http)
        for request in site.requests:
            assert request.headers["authorization"] == "Bearer t"
            assert request.headers["x-tenant"] == "7"
            assert len(request.lines) == len(request.headers), "none of them twice"


def test_a_function_gives_the_headers_of_each_request(at):
    tokens = iter("abc")
    with web(ok) as site:
        http = at(site, headers=lambda: {"Authorization": f"Bearer {next(tokens)}"})
        for _ in range(3):
            ask(http)
        assert [r.headers["authorization"][-1] for r in site.requests] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("headers", "kind", "said"),
    [
        ("Authorization: x", TypeError, "a mapping"),
        ([("a", "b")], TypeError, "a mapping"),
        ({1: "x"}, TypeError, "is a string"),
        ({"X-Key": 7}, TypeError, "'X-Key' is a string"),
        ({"X Key": "x"}, ValueError, "'X Key' cannot be the name"),
        ({"": "x"}, ValueError, "cannot be the name"),
        ({"X-Key": "secret\r\nX: y"}, ValueError, "the header X-Key holds"),
        ({"X-Key": "secret\0"}, ValueError, "the header X-Key holds"),
        ({"X-Key": "secret \u20ac"}, ValueError, "the header X-Key holds"),
        ({"Mcp-Session-Id": "x"}, ValueError, "the transport's own"),
        ({"content-TYPE": "x"}, ValueError, "the transport's own"),
        ({"Mcp-Param-X": "x"}, ValueError, "the transport's own"),
    ],
)
@pytest.mark.parametrize("called", [True, False])
def test_headers_that_cannot_be_are_refused_without_their_value(at, headers, kind, said, called):
    with web(ok) as site, pytest.raises(kind, match=said) as refused:
        ask(at(site, headers=(lambda: headers) if called else headers))
    assert "secret" not in str(refused.value)


def test_a_session_gives_its_headers_and_not_its_habits(at):
    session = requests.Session()
    session.headers.update({"X-Team": "blue", "Authorization": "Bearer s", "Accept": "text/html"})
    session.headers["X-Bytes"] = b"raw"
    with web(ok) as site, session:
        ask(at(site, session=session), headers={"Accept": "application/json"})
        found = site.requests[0].headers
        assert (found["x-team"], found["authorization"], found["x-bytes"]) == ("blue", "Bearer s", "raw")
        assert (found["accept"], found["user-agent"]) == ("application/json", "mcp_ref")
        assert "connection" not in found


def test_a_session_that_names_itself_is_named_so(at):
    session = requests.Session()
    session.headers["User-Agent"] = "mine/1"
    with web(ok) as site, session:
        ask(at(site, session=session))
        assert site.requests[0].headers["user-agent"] == "mine/1"


@pytest.mark.parametrize(
    ("auth", "wanted"), [(("me", "pw"), "Basic bWU6cHc="), (lambda r: _bearer(r), "Bearer from auth")]
)
def test_the_auth_of_a_session_is_used(at, auth, wanted):
    session = requests.Session()
    session.auth = auth
    with web(ok) as site, session:
        ask(at(site, session=session))
        assert site.requests[0].headers["authorization"] == wanted
        ask(at(site, session=session, headers={"authorization": "Bearer mine"}))
        assert site.requests[1].headers["authorization"] == "Bearer mine"


def _bearer(request):
    request.headers["Authorization"] = "Bearer from auth"
    return request


class Signature(requests.auth.AuthBase):
    """Signs all of a request."""

    def __call__(self, request):
        said = (request.method, request.url, request.headers["X-Team"], request.body)
        request.headers["X-Signature"] = b"\xe9" + repr(said).encode()
        return request


def test_the_auth_of_a_session_sees_the_request_that_is_sent(at):
    """A signature over another request would be refused by the server."""

    def handle(request, wire):
        if request.target == "/mcp":
            wire.answer(307, b"", "Location: /moved?x=1")
        else:
            wire.answer(200, b"{}")

    session = requests.Session()
    session.auth = Signature()
    with web(handle) as site, session:
        http = at(site, session=session, headers={"X-Team": "blue"})
        ask(http, b'{"a":1}')
        ask(http, None, method="GET", headers={"Accept": "text/event-stream"})
        there = site.url.removesuffix("/mcp")
        wanted = [
            ("POST", f"{there}/mcp", "blue", b'{"a":1}'),
            ("POST", f"{there}/moved?x=1", "blue", b'{"a":1}'),
            ("GET", f"{there}/mcp", "blue", None),
            ("GET", f"{there}/moved?x=1", "blue", None),
        ]
        assert [r.headers["x-signature"] for r in site.requests] == [f"\xe9{said!r}" for said in wanted]
        assert site.requests[3].headers["accept"] == "text/event-stream"


def _adds_param(request):
    request.prepare_url(request.url, {"key": "secret"})
    return request


def _changes_body(request):
    request.body = b"[]"
    return request


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        (requests.auth.HTTPDigestAuth("me", "pw"), "a HTTPDigestAuth, waits for the response"),
        (_adds_param, "a function, changes more than the headers"),
        (_changes_body, "a function, changes more than the headers"),
    ],
)
def test_an_auth_that_would_do_more_than_add_headers_is_refused(at, auth, said):
    session = requests.Session()
    session.auth = auth
    with web(ok) as site, session:
        with pytest.raises(LocalError, match=said) as refused:
            ask(at(site, session=session))
        assert site.requests == []
    assert "secret" not in str(refused.value)


def test_a_cookie_that_is_odd_is_no_fault_of_the_auth(at):
    session = requests.Session()
    session.auth = _bearer
    session.cookies.set("route", "a\x7fb", domain="server.example")
    settings = at("http://server.example/mcp", session=session).settings
    headers = settings.headers({})
    assert headers["Cookie"] == "route=a\x7fb"
    assert settings.signed("POST", settings.url, headers, b"")["Cookie"] == "route=a\x7fb"


def _returns_nothing(request):
    request.headers["X-Signature"] = "1"


def _sets(name, value):
    def sign(request):
        request.headers[name] = value
        return request

    return sign


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        (_returns_nothing, "a function, does not return the request"),
        ("secret", "a str, is neither a function nor a name with a password"),
        (["me", "secret"], "a list, is neither a function"),
        (("me", "secret\u2603"), "a tuple, cannot write the headers of this request"),
        (lambda r: r.prepare_headers({"X-Api-Key": " secret"}), "cannot write the headers of this request"),
        (_sets("X-Signature", "secret\r\nX: y"), "sent: the value of the header X-Signature holds"),
        (_sets("X-Signature", "secret\u2603"), "sent: the value of the header X-Signature holds"),
        (_sets(b"X-Signature", b"secret\n"), "sent: the value of the header X-Signature holds"),
        (_sets("X Signature", "secret"), "sent: 'X Signature' cannot be the name of a header"),
    ],
)
def test_an_auth_that_cannot_be_is_refused_without_what_it_says(at, auth, said):
    session = requests.Session()
    session.auth = auth
    with web(ok) as site, session:
        with pytest.raises(LocalError, match=f"^the auth of the session, .*{said}") as refused:
            ask(at(site, session=session))
        assert site.requests == []
    assert "secret" not in repr(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_an_auth_sets_no_header_by_none_and_none_of_the_transport(at):
    def sign(request):
        request.headers["X-Signature"] = None
        request.headers["mcp-param-a"] = request.headers["Mcp-Session-Id"] = "x"
        return request

    session = requests.Session()
    session.auth = sign
    with web(ok) as site, session:
        ask(at(site, session=session), headers={"Mcp-Param-A": "1"})
        names = [name.lower() for name, _ in site.requests[0].lines]
        assert {"x-signature", "mcp-session-id"}.isdisjoint(names)
        assert (names.count("mcp-param-a"), site.requests[0].headers["mcp-param-a"]) == (1, "1")


@pytest.mark.parametrize("auth", [_bearer, (), ""])
@pytest.mark.parametrize("value", [" key", "\tkey", "k\u00e9y", ""])
def test_a_header_that_may_be_sent_may_be_signed(at, auth, value):
    """requests itself refuses a blank at the beginning, and quotes the value."""
    session = requests.Session()
    session.auth = auth
    with web(ok) as site, session:
        assert ask(at(site, session=session, headers={"X-Api-Key": value})) == (200, b"{}")
        assert site.requests[0].headers["x-api-key"] == value.strip()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("X-Key", "secret\r\nY: z", "the value of the header X-Key holds"),
        (b"X-Key", b"secret\n", "the value of the header X-Key holds"),
        ("X-Key", "secret\u2603", "the value of the header X-Key holds"),
        ("X Key", "secret", "'X Key' cannot be the name"),
    ],
)
def test_a_header_of_the_session_that_cannot_be_is_refused_without_its_value(at, name, value, said):
    with requests.Session() as session, pytest.raises(ValueError, match=said) as refused:
        session.headers[name] = value
        at("http://server.example/", session=session)
    assert "secret" not in str(refused.value)


def test_a_session_sets_no_header_of_the_transport(at):
    session = requests.Session()
    session.headers.update({b"Mcp-Session-Id": b"x", "mcp-param-a": "x", b"X-Team": b"blue"})
    with web(ok) as site, session:
        ask(at(site, session=session), headers={"Mcp-Param-A": "1"})
        found = site.requests[0].headers
        assert "mcp-session-id" not in found
        assert (found["mcp-param-a"], found["x-team"]) == ("1", "blue")


@pytest.mark.parametrize("host", ["☃.example:1", "..:1", "a" * 70 + ".example", "a..example"])
def test_a_name_that_no_server_can_have_is_refused_as_other_targets_are(host):
    with pytest.raises(ValueError, match="cannot be the name of a server") as refused:
        connect(f"http://{host}/?token=secret")
    assert repr(host) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_header_that_the_session_takes_back_is_not_sent(at):
    session = requests.Session()
    session.headers["X-Team"] = None
    with web(ok) as site, session:
        ask(at(site, session=session))
        assert "x-team" not in site.requests[0].headers


def test_a_netrc_is_used_where_nobody_says_better(at, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password pw\n")
    (tmp_path / ".netrc").chmod(0o600)
    with web(ok) as site:
        ask(at(site))
        ask(at(site, headers={"Authorization": "Bearer token"}))
        session = requests.Session()
        session.trust_env = False
        ask(at(site, session=session))
        assert [r.headers.get("authorization") for r in site.requests] == [
            "Basic bWU6cHc=",
            "Bearer token",
            None,
        ]
        session.close()


def test_a_netrc_is_used_if_the_auth_of_the_session_is_empty(at, tmp_path):
    (tmp_path / ".netrc").write_text("machine server.example login me password pw\n")
    (tmp_path / ".netrc").chmod(0o600)
    session = requests.Session()
    session.auth = ()
    settings = at("http://server.example/", session=session).settings
    assert settings.headers({})["authorization"] == "Basic bWU6cHc="


def test_a_netrc_whose_password_cannot_be_sent_is_refused_without_it(at, tmp_path):
    (tmp_path / ".netrc").write_text("machine server.example login me password secret\u2603\n", "utf-8")
    (tmp_path / ".netrc").chmod(0o600)
    with pytest.raises(
        LocalError, match=r"login for server\.example in ~/\.netrc has a character"
    ) as refused:
        at("http://server.example/")
    assert "secret" not in repr(refused.value)


def test_cookies_are_kept_and_sent_again(at):
    def handle(request, wire):
        wire.answer(200, b"{}", *(["Set-Cookie: route=7; Path=/"] if len(site.requests) == 1 else []))

    with web(handle) as site:
        http = at(site)
        ask(http)
        ask(http)
        assert [r.headers.get("cookie") for r in site.requests] == [None, "route=7"]


def test_a_proxy_of_the_environment_is_asked_once_and_for_all(at, monkeypatch):
    with web(ok) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        http = at("http://example.invalid/mcp?a=b")
        monkeypatch.delenv("HTTP_PROXY")
        assert ask(http) == (200, b"{}")
        assert proxy.requests[0].target == "http://example.invalid/mcp?a=b"
        assert proxy.requests[0].headers["host"] == "example.invalid"
        assert http.settings.target_of("http://example.invalid/x") == "http://example.invalid/x"


def test_a_proxy_of_the_session_is_used(at):
    session = requests.Session()
    with web(ok) as proxy, session:
        session.proxies["http"] = f"http://127.0.0.1:{proxy.port}"
        assert ask(at("http://example.invalid/mcp", session=session)) == (200, b"{}")


def test_a_proxy_by_tls_is_refused(at):
    session = requests.Session()
    session.proxies["http"] = "https://127.0.0.1:1"
    with session, pytest.raises(ValueError, match="a proxy"):
        at("http://example.invalid/mcp", session=session)


def test_an_adapter_of_the_application_stays_its_own(at):
    class Mine(HTTPAdapter):
        pass

    session = requests.Session()
    session.mount("http://", Mine())
    with web(ok) as site, session:
        http = HttpClient(site.url, session=session)
        assert ask(http) == (200, b"{}")
        with http.new(within()) as exchange:
            exchange.send("POST", {}, b"{}")
        http.close()
        assert session.get(site.url).status_code == 200, "the session still works"


@pytest.fixture(scope="module")
def tls_and_file(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


def test_tls_is_spoken_with_a_server_whose_certificate_the_session_knows(at, tls_and_file):
    tls, path = tls_and_file
    session = requests.Session()
    session.verify = path
    with web(ok, tls) as site, session:
        http = at(site, session=session)
        assert ask(http) == (200, b"{}")
        assert ask(http) == (200, b"{}")
        assert len(site.wires) == 1


def test_a_certificate_that_nobody_knows_is_refused(at, tls_and_file):
    tls, _ = tls_and_file
    with web(ok, tls) as site, pytest.raises(ConnectionClosed, match=r"by TLS.*certificate"):
        ask(at(site))
    assert site.requests == []


def test_of_one_header_there_is_one_however_it_is_spelled():
    assert merge_headers({"A": "1", "b": "2"}, {"a": "3", "C": "4"}) == {"b": "2", "a": "3", "C": "4"}


def test_a_token_from_a_function_counts_more_than_the_session_and_the_netrc(at, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password pw\n")
    (tmp_path / ".netrc").chmod(0o600)
    session = requests.Session()
    session.headers["AUTHORIZATION"] = "Bearer of the session"
    with web(ok) as site, session:
        ask(at(site, headers=lambda: {"Authorization": "Bearer t"}))
        ask(at(site, session=session, headers=lambda: {"Authorization": "Bearer t"}))
        ask(at(site, session=session, headers={"authorization": "Bearer t"}))
        for request in site.requests:
            found = [value for name, value in request.lines if name.lower() == "authorization"]
            assert found == ["Bearer t"]


def test_cookies_of_another_server_stay_with_it(at):
    session = requests.Session()
    session.cookies.set("a", "b", domain="example.invalid", path="/")
    with web(ok) as site, session:
        ask(at(site, session=session))
        assert "cookie" not in site.requests[0].headers


def test_what_the_session_says_of_certificates_counts_more_than_the_environment(
    at, tls_and_file, monkeypatch, tmp_path
):
    tls, path = tls_and_file
    (tmp_path / "other.pem").write_text("no certificates")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "other.pem"))
    session = requests.Session()
    session.verify = path
    with web(ok, tls) as site, session:
        assert ask(at(site, session=session)) == (200, b"{}")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", path)
    with web(ok, tls) as site:
        assert ask(at(site)) == (200, b"{}"), "the environment counts where nothing is said"


def test_a_session_that_verifies_nothing_is_taken_at_its_word(at, tls_and_file):
    session = requests.Session()
    session.verify = False
    with web(ok, tls_and_file[0]) as site, session, pytest.warns(Warning, match="Unverified"):
        assert ask(at(site, session=session)) == (200, b"{}")


def test_an_own_session_is_closed_and_anothers_is_not():
    class Mine(requests.Session):
        closed = 0

        def close(self):
            self.closed += 1

    session = Mine()
    Settings("http://127.0.0.1/", session, None, 4).close()
    assert session.closed == 0
    Settings("http://127.0.0.1/", None, None, 4).close()


def test_a_kept_connection_ends_when_the_exchanges_are_closed(at):
    with web(ok) as site:
        http = at(site)
        for _ in range(2):
            ask(http)
        (wire,) = site.wires
        http.close()
        assert eventually(lambda: wire.socket.fileno() < 0)  # the server saw the end, and closed it too


def test_a_connection_that_is_put_back_while_the_exchanges_are_closed_ends_too(at, monkeypatch):
    with web(ok) as site:
        http = at(site)
        kept = http.settings.pool.pool
        put = kept.put

        def put_late(connection, block):
            http.close()
            put(connection, block=block)

        monkeypatch.setattr(kept, "put", put_late)
        ask(http)
        (wire,) = site.wires
        assert eventually(lambda: wire.socket.fileno() < 0)


# ----------------------------------------------------------------------- other URLs of the server


def test_another_url_has_no_target_if_what_would_be_sent_names_another_server(at, monkeypatch):
    settings = at("http://here.example/mcp").settings
    there = requests.Request("POST", "http://there.example/mcp").prepare()
    monkeypatch.setattr(settings_module, "_prepared", lambda url: there)
    assert settings.target_of("http://here.example/b") is None


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("/messages?id=1", "/messages?id=1"),
        ("messages", "/a/messages"),
        ("http://here.example/b", "/b"),
        ("http://here.example:80", "/"),
        ("HTTP://HERE.example/b?c#d", "/b?c"),
        ("https://here.example/b", None),
        ("http://here.example:81/b", None),
        ("//there.example/b", None),
        ("http://[", None),
        ("http://here.example:no/b", None),
        ("http://here.example:0/b", None),
        ("http://here.example:80:81/b", None),
        ("/b\\c", "/b%5Cc"),
        ("\\\\there.example/b", "/a/%5C%5Cthere.example/b"),
        ("http:///there.example/b", "/there.example/b"),
        *(
            (url, None)
            for url in (
                "http://there.example\\@here.example/b",
                "http://there.example\\\\@here.example/b",
                "//there.example\\@here.example/b",
                "http://here.example\\.there.example/b",
                "http://there.example/\\@here.example/b",
                "http://me:pw@here.example/b",
                "http://here.example@there.example/b",
                "http://here.example:80@there.example/b",
                "http://here.example%2f@there.example/b",
                "http://h%65re.example/b",
                "http://here%2eexample/b",
                "http://here\u3002example/b",
                "http://here.example\t.there.example/b",
                "http://here.example\n@there.example/b",
                "http://here.example\xa0/b",
                "http://here.example./b",
            )
        ),
    ],
)
@pytest.mark.parametrize("by_proxy", [True, False])
def test_another_url_has_a_target_only_if_it_is_of_this_server(reference, target, by_proxy):
    with requests.Session() as session:
        session.proxies = {"http": "http://proxy.example:1"} if by_proxy else {}
        settings = Settings("http://here.example/a/mcp", session, headers=None, limit=1)
        found = settings.target_of(reference)
        if by_proxy and found is not None:  # then it is a whole URL
            found = re.fullmatch(r"http://here\.example(:80)?(/.*)", found)[2]
        assert found == target
        settings.close()


@pytest.mark.parametrize("url", ["http://there.example\\@here.example/", "http://a\\b.example/"])
def test_a_url_whose_host_can_be_read_in_two_ways_is_refused(url):
    with pytest.raises(ValueError, match="cannot be the name of a server"):
        Settings(url, session=None, headers=None, limit=1)


def test_a_forked_child_closes_its_copies_of_idle_connections(at):
    with web(ok) as site:
        http = at(site)
        ask(http)
        (idle,) = [connection for connection in http.settings._idle.queue if connection is not None]
        mine = idle.sock
        http.settings.forked()
        assert mine.fileno() == -1
