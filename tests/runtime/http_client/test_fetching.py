"""runtime/http_client/fetching: documents and forms of strangers, within bounds."""

import socket
import threading
import time

import pytest
import requests
from peers import PATIENCE, eventually, nothing_left
from web import JSON, certificate, web

from mcp_ref.runtime.http_client import fetching
from mcp_ref.runtime.http_client.addresses import Reach
from mcp_ref.runtime.http_client.fetching import Fetcher, FetchError, addresses_of

pytestmark = pytest.mark.usefixtures("own_environment")

HERE = ["127.0.0.1"]


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def local(**options):
    return Fetcher(allowed=[Reach.LOOPBACK], **options)


def document(request, wire):
    wire.answer(200, b'{"a": 1}', "Content-Type: application/json; charset=utf-8", "X-One: 1")


# ------------------------------------------------------------------------------ what comes back


def test_a_document_is_fetched_as_a_whole():
    with web(document) as site:
        fetched = local().get(f"{site.url}?q=secret")
        assert (fetched.status, fetched.media_type, fetched.headers["x-one"]) == (
            200,
            "application/json",
            "1",
        )
        assert fetched.json() == {"a": 1}
        assert "secret" not in repr(fetched)
        [request] = site.requests
        assert (request.method, request.target) == ("GET", "/mcp?q=secret")
        assert request.headers["host"] == f"127.0.0.1:{site.port}"
        assert request.headers["accept-encoding"] == "identity"


def test_a_form_is_posted():
    with web(document) as site:
        local().post(site.url, {"a": "b c", "d": "&"}, {"Authorization": "Basic x"})
        local().post(site.url, b"{}", {"Content-Type": "application/json"})
        first, second = site.requests
        assert (first.method, first.body) == ("POST", b"a=b+c&d=%26")
        assert first.headers["content-type"] == "application/x-www-form-urlencoded"
        assert first.headers["authorization"] == "Basic x"
        assert (second.body, second.headers["content-type"]) == (b"{}", "application/json")


def test_a_status_is_no_error():
    with web(lambda request, wire: wire.answer(404, b"none")) as site:
        fetched = local().get(site.url)
        assert (fetched.status, fetched.body) == (404, b"none")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "no JSON"),
        (b"<html>", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"a": 1, "a": 2}', "no JSON"),
        (b"{\xff}", "no JSON"),
    ],
)
def test_a_document_that_is_no_object_is_told_with_its_url(body, fault):
    with web(lambda request, wire: wire.answer(200, body)) as site:
        fetched = local().get(f"{site.url}?q=secret")
        with pytest.raises(FetchError, match=rf"GET {site.url}: the answer is {fault}") as told:
            fetched.json()
        assert "secret" not in str(told.value)


# ------------------------------------------------------------------------------ where it goes


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://example.com/", "it is http, which anybody"),
        ("http://10.0.0.1/", "it is http, which anybody"),
        ("http://localhost/", "it is http, which anybody"),
        ("ftp://example.com/", "no https URL"),
        ("file:///etc/passwd", "no https URL"),
        ("javascript:alert(1)", "no https URL"),
        ("//example.com", "no https URL"),
        ("https:///path", "names no server"),
        ("https://example.com:0/", "names no server"),
        ("https://user:secret@example.com/", "user name"),
        ("https://example.com@evil.example/", "user name"),
        ("https://127.0.0.1\\.example.com/", "an odd way"),
        ("https://127.0.0.1\\/", "an odd way"),
        ("https://[::1]\\.example.com/", "an odd way|Invalid IPv6"),
        ("https://%31%32%37.0.0.1/", "an odd way"),
        ("https://127.0.0.1%2eexample.com/", "an odd way"),
        ("https://[::1].example.com/", "an odd way|Invalid IPv6"),
        ("https://example.com/a b", "no URL"),
        ("https://example.com/\r\nX: y", "no URL"),
        ("https://ex\u00e4mple.com/", "no URL"),
        ("https://[::1/", "Invalid IPv6"),
        ("https://example.com:99999/", "out of range"),
        ("https://example.com/" + "x" * 9000, "too long"),
    ],
)
def test_a_url_that_may_not_be_asked_is_not(url, fault):
    fetcher = Fetcher(resolve=lambda host, port: pytest.fail("it was looked up"))
    with pytest.raises(FetchError, match=fault) as told:
        fetcher.get(url)
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("169.254.169.254", "link-local"),
        ("10.1.2.3", "private"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("2002:a00:1::1", "private"),
        ("0.0.0.0", "of no server"),
        ("224.0.0.1", "of no server"),
    ],
)
def test_ssrf_targets(address, what):
    """Whether the URL names the address, or a name that leads to it."""
    fetcher = Fetcher(resolve=lambda host, port: [address])
    with pytest.raises(FetchError, match=f"it leads to .*{what}.*where this client goes for no stranger"):
        fetcher.get("https://innocent.example/")
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(FetchError, match=what):
        Fetcher().get(f"https://{host}/")


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
def test_ssrf_targets_in_the_ways_of_old_to_write_an_address(host):
    with pytest.raises(FetchError, match=r"loopback|leads nowhere"):
        Fetcher().get(f"https://{host}:1/")


def test_no_option_makes_an_address_of_no_server_one():
    fetcher = Fetcher(allowed=list(Reach), resolve=lambda host, port: ["0.0.0.0"])
    with pytest.raises(FetchError, match="the address of no server"):
        fetcher.get("https://innocent.example/")


def test_dns_that_changes_between_check_and_use(monkeypatch):
    """The name is looked up once: what it leads to later is not asked."""
    answers = [HERE, ["169.254.169.254"], ["10.0.0.1"]]
    with web(document) as site:
        fetcher = local(allow_http=True, resolve=lambda host, port: answers.pop(0))
        looked_up = []
        real = socket.getaddrinfo
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *rest, **more: looked_up.append(host) or real(host, *rest, **more),
        )
        assert fetcher.get(f"http://innocent.example:{site.port}/").status == 200
        assert site.requests[0].headers["host"] == f"innocent.example:{site.port}"
        assert set(looked_up) <= {"127.0.0.1"}
        with pytest.raises(FetchError, match="link-local"):
            fetcher.get(f"http://innocent.example:{site.port}/")
    assert len(answers) == 1


def test_of_several_addresses_those_that_are_allowed_are_tried_in_turn():
    with web(document) as site:
        tried = ["169.254.169.254", "127.0.0.9", "127.0.0.1"]
        fetcher = local(allow_http=True, resolve=lambda host, port: tried)
        assert fetcher.get(f"http://innocent.example:{site.port}/").json() == {"a": 1}
        fetcher = local(allow_http=True, resolve=lambda host, port: tried[:2])
        with pytest.raises(FetchError, match=r"GET http://innocent\.example:\d+/: no connection: .*refused"):
            fetcher.get(f"http://innocent.example:{site.port}/?secret")


def test_a_name_that_leads_nowhere_is_told():
    with pytest.raises(FetchError, match=r"GET https://no\.such\.name\.invalid/: its name leads nowhere"):
        Fetcher().get("https://no.such.name.invalid/")
    assert addresses_of("127.0.0.1", 80) == ["127.0.0.1"]


def test_tls_checks_the_name_and_not_the_address(tmp_path):
    tls, known = certificate(tmp_path)
    session = requests.Session()
    session.verify = known
    with web(document, tls) as site:
        assert local(session=session).get(site.url).json() == {"a": 1}
        with pytest.raises(FetchError, match=r"(?i)certificate"):
            local().get(site.url)
        fetcher = local(session=session, resolve=lambda host, port: HERE)
        with pytest.raises(FetchError, match=r"(?i)certificate|hostname"):
            fetcher.get(f"https://innocent.example:{site.port}/")


def test_behind_a_proxy_the_proxy_looks_names_up(monkeypatch):
    with web(document) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        fetcher = Fetcher(allow_http=True, resolve=lambda host, port: pytest.fail("it was looked up"))
        assert fetcher.get("http://innocent.example/x").json() == {"a": 1}
        assert proxy.requests[0].target == "http://innocent.example/x"
        with pytest.raises(FetchError, match="link-local"):
            fetcher.get("http://169.254.169.254/x")
        assert len(proxy.requests) == 1


def test_a_proxy_or_a_bundle_that_cannot_be_is_an_error_of_the_fetch(monkeypatch):
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "ftp://me:secret@x")
    with pytest.raises(
        FetchError, match=r"GET http://innocent\.example/x: http_proxy names a proxy"
    ) as caught:
        Fetcher(allow_http=True).get("http://innocent.example/x")
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file")
    with pytest.raises(FetchError, match=r"REQUESTS_CA_BUNDLE: .*/no/such/file"):
        local(resolve=lambda host, port: HERE).get("https://innocent.example/")


@pytest.mark.parametrize("proxy", ["/", "//", "http://", "http://me:secret@", "http://me:secret@/"])
def test_nothing_is_fetched_directly_where_a_proxy_is_named_that_cannot_be(proxy):
    with web(document) as site, requests.Session() as session:
        session.proxies["http"] = proxy
        with pytest.raises(FetchError, match=r"session\.proxies names a proxy that cannot be used") as told:
            local(session=session).get(site.url)
        assert site.requests == []
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("host", ["169.254.169.254\\.example", "%3169.254.169.254", "[::1]\\.example"])
def test_no_other_way_to_write_an_address_leads_a_proxy_there(monkeypatch, host):
    with web(document) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(FetchError, match="this URL is not asked"):
            Fetcher(allow_http=True).get(f"http://{host}/x")
        assert proxy.requests == []


@pytest.mark.parametrize("by_proxy", [True, False])
def test_no_stranger_is_shown_the_certificate_of_the_client(by_proxy, tmp_path):
    mine = tmp_path / "mine.pem"
    mine.write_text("")
    with requests.Session() as session:
        session.trust_env, session.cert = False, str(mine)
        session.proxies = {"https": "http://proxy.example:1"} if by_proxy else {}
        fetcher = Fetcher(session=session, resolve=lambda host, port: ["93.184.216.34"])
        [(pool, _)] = fetcher._pools("GET", "https://stranger.example/")
        assert (pool.cert_file, pool.key_file) == (None, None)


def test_a_certificate_of_the_client_that_is_not_there_hinders_no_fetch():
    with web(document) as site, requests.Session() as session:
        session.cert = "/no/such/file"
        assert local(session=session).get(site.url).status == 200
        session.verify = False
        pools = local(session=session, resolve=lambda host, port: HERE)._pools("GET", "https://a.example/")
        assert len(pools) == 1


# ------------------------------------------------------------------------------ redirects


def test_a_get_follows_redirects_and_takes_no_credentials_to_another_origin():
    with web(document) as other:

        def handle(request, wire):
            to = {"/mcp": "/second", "/second": f"http://localhost:{other.port}/third#fragment"}
            wire.answer(302, b"", f"Location: {to[request.target]}")

        with web(handle) as site:
            fetched = local().get(site.url, {"Authorization": "Bearer secret", "X-Two": "2"})
            assert fetched.json() == {"a": 1}
            assert fetched.url == f"http://localhost:{other.port}/third"
            assert [r.headers.get("authorization") for r in site.requests] == ["Bearer secret"] * 2
            assert "authorization" not in other.requests[0].headers
            assert other.requests[0].headers["x-two"] == "2"


def test_loops_of_redirects():
    with web(lambda request, wire: wire.answer(302, b"", "Location: /mcp")) as site:
        with pytest.raises(FetchError, match="more than 3 redirects"):
            local().get(site.url)
        assert len(site.requests) == 1 + fetching.MAX_REDIRECTS


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("https://169.254.169.254/latest", "link-local"),
        ("http://example.com/", "it is http, which anybody"),
        ("file:///etc/passwd", "no https URL"),
        ("https://[::1", "no URL"),
        ("https://user@example.com/", "user name"),
    ],
)
def test_a_redirect_leads_to_nothing_that_may_not_be_asked_by_itself(target, fault):
    def handle(request, wire):
        wire.answer(302, b"", f"Location: {target}")

    with web(handle) as site, pytest.raises(FetchError, match=fault):
        local().get(site.url)


def test_a_redirect_to_nowhere_is_the_answer():
    with web(lambda request, wire: wire.answer(302)) as site:
        assert local().get(site.url).status == 302


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_post_follows_no_redirect(status):
    with web(lambda request, wire: wire.answer(status, b"", "Location: /other")) as site:
        assert local().post(site.url, {"code": "secret"}).status == status
        assert len(site.requests) == 1


# ------------------------------------------------------------------------------ size and time


@pytest.mark.parametrize("how", ["length", "chunks", "close"])
def test_huge_documents(how):
    def handle(request, wire):
        if how == "length":
            wire.head(200, JSON, "Content-Length: 1000000000")
        elif how == "chunks":
            wire.head(200, JSON, "Transfer-Encoding: chunked")
        else:
            wire.head(200, JSON, "Connection: close")
        for _ in range(100):
            wire.chunk(b"x" * 10_000) if how == "chunks" else wire.send(b"x" * 10_000)
        wire.close()

    with web(handle) as site, pytest.raises(FetchError, match="longer than 1,000 bytes"):
        local(limit=1000).get(site.url)


def test_a_document_as_long_as_it_may_be_is_read():
    with web(document) as site:
        assert local(limit=8).get(site.url).json() == {"a": 1}


def test_a_document_is_not_unpacked():
    """A few kilobytes could become a gigabyte."""
    with web(lambda request, wire: wire.answer(200, b"\x1f\x8b", "Content-Encoding: gzip")) as site:
        assert local().get(site.url).body == b"\x1f\x8b"


@pytest.mark.parametrize("drips", ["head", "body"])
def test_slow_documents(drips):
    def handle(request, wire):
        if drips == "body":
            wire.head(200, JSON, "Content-Length: 1000")
        while not wire.site.over.wait(0.01):
            wire.send(b"H")

    with web(handle) as site:
        begun = time.monotonic()
        with pytest.raises(FetchError, match=r"no answer within 0\.2 s|no HTTP"):
            local(seconds=0.2).get(site.url)
        assert time.monotonic() - begun < PATIENCE / 2


def test_one_document_at_a_time():
    inside, go_on = threading.Event(), threading.Event()
    under_way = []

    def handle(request, wire):
        under_way.append(1)
        inside.set()
        assert go_on.wait(PATIENCE)
        assert len(under_way) == 1
        under_way.pop()
        document(request, wire)

    with web(handle) as site:
        fetcher = local()
        threads = [threading.Thread(target=fetcher.get, args=[site.url]) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert inside.wait(PATIENCE)
        late = local(seconds=0.05)
        late._lock = fetcher._lock
        with pytest.raises(FetchError, match=r"there was no room for it within 0\.05 s"):
            late.get(site.url)
        go_on.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(site.requests) == 3


def test_stop_ends_what_is_under_way_and_lets_nothing_begin():
    with web(lambda request, wire: wire.gone()) as site:
        fetcher = local()
        told = []

        def fetch():
            with pytest.raises(FetchError, match="the client was closed"):
                fetcher.get(site.url)
            told.append(True)

        thread = threading.Thread(target=fetch)
        thread.start()
        assert eventually(lambda: site.requests)
        fetcher.stop()
        thread.join(PATIENCE)
        assert told
        with pytest.raises(FetchError, match="the client was closed"):
            fetcher.get(site.url)


def test_what_is_no_http_is_told():
    def handle(request, wire):
        wire.send(b"SSH-2.0-OpenSSH\r\n")
        wire.close()

    with web(handle) as site, pytest.raises(FetchError, match=f"GET {site.url}: "):
        local().get(site.url)
