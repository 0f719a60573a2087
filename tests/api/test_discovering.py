"""api/discovering: which documents are fetched, from where, and what becomes of failures."""

import pytest
from oauth_sites import AS_METADATA, PRM, oauth_site
from peers import MODERN, nothing_left
from web import web

from mcp_ref import AuthorizationError, OAuth
from mcp_ref.api.discovering import Discovery
from mcp_ref.basic.authorization.index.error_handling import Challenge
from mcp_ref.runtime.http_client.addresses import Reach

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def found(site, *, challenge=None, last=None, **options):
    return Discovery(OAuth(**options), site.url).find(challenge, HERE, last)


def test_what_is_found_is_the_resource_the_issuer_and_its_metadata():
    with oauth_site(prm={"scopes_supported": ["a"]}) as site:
        result = found(site, challenge=Challenge("Bearer", {"resource_metadata": f"{site.origin}{PRM}/mcp"}))
        assert result.names == (site.issuer, site.url)
        assert result.resource.scopes == ("a",)
        assert result.metadata == site.metadata()
        assert [r.target for r in site.server.requests] == [f"{PRM}/mcp"]
        problem = result.error("a fault", "a_code")
        assert (problem.error, problem.issuer) == ("a_code", site.issuer)
        assert str(problem) == f"authorization at {site.issuer}: a fault"


def test_where_the_first_authorization_server_is_refused_for_its_address_the_next_is_asked():
    with oauth_site() as site:
        servers = ["https://10.0.0.1", "https://169.254.169.254", site.issuer]
        site.change(prm={"authorization_servers": servers})
        assert found(site).issuer == site.issuer
        assert found(site, last=servers[1]).issuer == site.issuer
        with pytest.raises(AuthorizationError, match=r"169\.254\.169\.254.*a link-local address"):
            found(site, issuer=servers[1])  # no other is wanted
        site.change(prm={"authorization_servers": servers[:2]})
        with pytest.raises(AuthorizationError, match=r"10\.0\.0\.1.*a private address"):
            found(site)
        site.change(prm={"authorization_servers": [f"{site.origin}/none", site.issuer]})
        with pytest.raises(AuthorizationError, match="has no metadata"):
            found(site)


@pytest.mark.spec("basic/authorization/index/metadata-version-header")
def test_each_question_says_which_revision_is_spoken():
    with oauth_site() as site:
        found(site)
        asked = site.server.requests + site.authorization_server.requests
        assert {r.headers["mcp-protocol-version"] for r in asked} == {MODERN}


@pytest.mark.spec(
    "basic/authorization/index/base-url-drops-path",
    "basic/authorization/index/metadata-before-defaults",
    "basic/authorization/index/default-paths",
)
def test_a_server_without_metadata_is_its_own_authorization_server_or_that_of_the_options():
    with oauth_site(prm=None) as site:
        result = found(site)
        assert result.names == (site.origin, site.url)
        assert result.metadata["token_endpoint"] == f"{site.origin}/token"
        assert [r.target for r in site.server.requests] == [f"{PRM}/mcp", PRM, AS_METADATA]
        assert found(site, issuer=site.issuer).names == (site.issuer, site.url)


def test_of_several_authorization_servers_the_one_that_knows_the_client_is_asked():
    with oauth_site() as site:
        site.change(prm={"authorization_servers": ["https://first.example", site.issuer]})
        assert found(site, last=site.issuer).issuer == site.issuer
        assert found(site, issuer=site.issuer).issuer == site.issuer
        with pytest.raises(AuthorizationError, match=r"first\.example"):
            found(site)
        with pytest.raises(AuthorizationError, match=r"registered with https://old\.example"):
            found(site, client_id="c", last="https://old.example")


@pytest.mark.spec(
    "docs/security_best_practices/ssrf-considered",
    "docs/security_best_practices/block-private-ranges",
    "docs/security_best_practices/validate-redirect-targets",
)
@pytest.mark.parametrize(
    ("peer", "options", "allowed"),
    [
        (None, {}, set()),
        ("93.184.216.34", {}, set()),
        (HERE, {}, {Reach.LOOPBACK}),
        ("10.0.0.1", {}, {Reach.PRIVATE}),
        ("169.254.1.1", {}, {Reach.LINK_LOCAL}),
        (None, {"allow_private": True}, {Reach.LOOPBACK, Reach.PRIVATE}),
    ],
)
def test_a_server_names_others_at_addresses_of_its_own_kind(peer, options, allowed):
    discovery = Discovery(OAuth(**options), "https://mcp.example/mcp")
    assert discovery._fetcher(peer).allowed == {Reach.PUBLIC, *allowed}
    if Reach.LOOPBACK not in allowed:
        discovery.fetcher = discovery._fetcher(peer)
        for url in ("http://localhost:1/x", "https://localhost:1/x", "https://127.0.0.1:1/x"):
            with pytest.raises(AuthorizationError, match=r"http, which anybody|leads to a"):
                discovery.get(url)


def test_what_is_no_document_is_as_good_as_none():
    answers = iter([(404, b"{}"), (500, b"{}"), (200, b"<html>"), (200, b"[]"), (200, b'{"a": 1}')])

    def handle(request, wire):
        wire.answer(*next(answers))

    with web(handle) as site:
        discovery = Discovery(OAuth(allow_private=True), site.url)
        assert [discovery.get(site.url) for _ in range(5)] == [None, None, None, None, {"a": 1}]


def test_a_failure_says_what_it_was_for():
    discovery = Discovery(OAuth(allow_private=True), "https://mcp.example/mcp?key=secret")
    with pytest.raises(AuthorizationError, match=r"for https://mcp\.example/mcp: GET .*:1/x: no conn"):
        discovery.get("https://127.0.0.1:1/x?secret")
    with pytest.raises(AuthorizationError, match=r"for https://mcp\.example/mcp: POST .*: no conn"):
        discovery.post("https://127.0.0.1:1/x", {}, {})
    discovery.stop()
    with pytest.raises(AuthorizationError, match="the client was closed"):
        discovery.get("https://127.0.0.1:1/x")


def test_what_was_stopped_finds_nothing_more():
    """The client may be closed while a thread is about to look for the authorization server."""
    discovery = Discovery(OAuth(allow_private=True), "http://127.0.0.1:1/mcp")
    discovery.stop()
    with pytest.raises(AuthorizationError, match="the client was closed"):
        discovery.find(None, "127.0.0.1", None)
