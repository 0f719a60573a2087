"""extras/authorization_server/documents: what clients publish is fetched, within bounds."""

import contextlib
import json
import socket
import threading

import pytest
from web import JSON, web

from mcp_ref.extras.authorization_server import documents as module
from mcp_ref.extras.authorization_server.documents import FetchedDocuments, cache_seconds


@contextlib.contextmanager
def publishing(*lines, body=None, status=200, kind=JSON):
    def handle(request, wire):
        wire.answer(status, json.dumps({"a": 1}).encode() if body is None else body, kind, *lines)

    with web(handle) as site:
        yield site


def test_a_document_is_fetched_and_kept():
    with publishing() as site:
        documents = FetchedDocuments(allow_private=True)
        assert [documents.get(site.url) for _ in range(3)] == [{"a": 1}] * 3
        assert len(site.requests) == 1


@pytest.mark.spec("basic/authorization/client-registration/cimd-as-cache")
def test_a_document_that_may_not_be_kept_is_fetched_again():
    for said in "no-store", "private, no-cache", "max-age=0":
        with publishing(f"Cache-Control: {said}") as site:
            documents = FetchedDocuments(allow_private=True)
            documents.get(site.url)
            documents.get(site.url)
            assert len(site.requests) == 2


@pytest.mark.spec("basic/authorization/client-registration/cimd-as-cache")
@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("max-age=60", 60.0),
        ('public, Max-Age = "60"', 60.0),
        ("max-age=999999999", module.MAX_SECONDS),
        ("max-age=99999999999999999999", module.MAX_SECONDS),
        ("max-age=-1", module.DEFAULT_SECONDS),
        ("", module.DEFAULT_SECONDS),
        ("no-store, max-age=60", 0.0),
    ],
)
def test_how_long_a_document_is_kept(said, seconds):
    assert cache_seconds({"cache-control": said}) == seconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"status": 404}, "the status is 404"),
        ({"status": 201}, "the status is 201"),
        ({"body": b"[]"}, "no JSON object"),
        ({"body": b"{"}, "no JSON"),
        ({"body": b'{"a": 1, "a": 2}'}, "no JSON"),
        ({"kind": "Content-Type: text/html"}, "not JSON"),
        ({"body": b" " * 40_000}, "32"),
    ],
)
def test_what_is_no_document_is_refused_and_not_remembered(given, said):
    with publishing(**given) as site:
        documents = FetchedDocuments(allow_private=True)
        for count in 1, 2:
            with pytest.raises(ValueError, match=said):
                documents.get(site.url)
            assert len(site.requests) == count


def test_a_document_of_another_json_type_is_one():
    with publishing(kind="Content-Type: application/jwk-set+json; charset=utf-8") as site:
        assert FetchedDocuments(allow_private=True).get(site.url) == {"a": 1}


def test_a_redirect_is_not_accepted_and_not_followed():
    """Its target could be any host, whose fetches are not counted."""
    asked = []

    def handle(request, wire):
        asked.append(request.target)
        if request.target == "/mcp":
            wire.answer(302, b"", "Location: /elsewhere")
        else:
            wire.json({"a": 1})

    with web(handle) as site, pytest.raises(ValueError, match="it redirects, which"):
        FetchedDocuments(allow_private=True).get(site.url)
    assert asked == ["/mcp"]


@pytest.mark.spec(
    "basic/authorization/security-considerations/cimd-ssrf",
    "basic/authorization/security-considerations/cimd-security",
    "basic/authorization/client-registration/cimd-as-security",
)
@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://[::1]/client.json",
        "https://[::ffff:127.0.0.1]/client.json",
        "https://[::ffff:10.0.0.1]/client.json",
        "https://10.0.0.1/client.json",
        "https://192.168.1.1/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/client.json",
        "https://[fc00::1]/client.json",
        "https://0.0.0.0/client.json",
        "https://2130706433/client.json",
        "https://0x7f000001/client.json",
        "http://example.com/client.json",
        "ftp://example.com/client.json",
    ],
)
def test_ssrf_targets_are_not_asked(url):
    with pytest.raises(ValueError):
        FetchedDocuments().get(url)


@pytest.mark.spec("basic/authorization/security-considerations/cimd-ssrf")
@pytest.mark.parametrize("is_lenient", [False, True])
def test_nobody_learns_what_a_name_stands_for(monkeypatch, caplog, is_lenient):
    """One sentence, where the log has several."""
    places = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "224.0.0.1", "fd00::1", "::ffff:10.0.0.1", None]
    told = set()
    caplog.set_level("INFO", "mcp_ref.authorization_server")
    for place in places if not is_lenient else ["127.0.0.1", "169.254.169.254", "224.0.0.1", None]:

        def resolve(host, port, *more, place=place, **named):
            if place is None:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port))]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        with pytest.raises(ValueError) as problem:
            FetchedDocuments(allow_private=is_lenient).get("https://name.example:1/client.json")
        told.add(str(problem.value))
    assert told == {module.NOT_FETCHED}
    assert len({record.getMessage() for record in caplog.records}) > 2


def test_a_private_address_is_not_asked_by_default():
    with publishing() as site:
        with pytest.raises(ValueError):
            FetchedDocuments().get(site.url)
        assert site.requests == []


def test_a_host_is_not_asked_too_often(monkeypatch):
    monkeypatch.setattr(module, "FETCHES_PER_HOST", 2)
    with publishing("Cache-Control: no-store") as site:
        documents = FetchedDocuments(allow_private=True)
        documents.get(site.url)
        documents.get(site.url + "/2")
        with pytest.raises(ValueError, match="too often"):
            documents.get(site.url + "/3")


def test_few_documents_are_fetched_at_once(monkeypatch):
    monkeypatch.setattr(module, "MAX_AT_ONCE", 1)
    began, go_on = threading.Event(), threading.Event()

    def handle(request, wire):
        began.set()
        go_on.wait(20)
        wire.json({"a": 1})

    with web(handle) as site:
        documents = FetchedDocuments(allow_private=True)

        def fetch():
            with contextlib.suppress(ValueError):
                documents.get(site.url)

        first = threading.Thread(target=fetch)
        first.start()
        began.wait(20)
        monkeypatch.setattr(module, "MAX_FETCH_SECONDS", 0.05)
        with pytest.raises(ValueError, match="at once"):
            documents.get(site.url)
        go_on.set()
        first.join()


def test_a_slow_document_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "MAX_FETCH_SECONDS", 0.2)

    def handle(request, wire):
        wire.head(200, JSON, "Content-Length: 100")
        wire.gone()

    with web(handle) as site, pytest.raises(ValueError, match="nothing comes"):
        FetchedDocuments(allow_private=True).get(site.url)
