"""basic/authorization/authorization_server_discovery: where the metadata is, and what it says."""

from __future__ import annotations

import json

import pytest
from http_wire import Wire

from mcp_ref.basic.authorization.authorization_server_discovery import (
    ProtectedResource,
    choose_issuer,
    document,
    find_resource,
    find_server,
    find_server_of_old,
    metadata_paths,
    metadata_url,
    resource_metadata,
    server_metadata_urls,
)
from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
from mcp_ref.basic.transports.streamable_http.security import Refused

# -- the server's half ---------------------------------------------------------------------------------


@pytest.mark.spec("basic/authorization/authorization-server-discovery/discovery-mechanism")
@pytest.mark.parametrize(
    ("resource", "url"),
    [
        ("https://example.com", "https://example.com/.well-known/oauth-protected-resource"),
        ("https://example.com/", "https://example.com/.well-known/oauth-protected-resource"),
        (
            "https://example.com:8443/public/mcp",
            "https://example.com:8443/.well-known/oauth-protected-resource/public/mcp",
        ),
        ("https://example.com/mcp/", "https://example.com/.well-known/oauth-protected-resource/mcp/"),
        ("https://example.com/mcp?a=b", "https://example.com/.well-known/oauth-protected-resource/mcp?a=b"),
    ],
)
def test_the_path_of_a_resource_goes_after_the_well_known_part(resource: str, url: str) -> None:
    assert metadata_url(resource) == url


def test_an_application_serves_it_for_its_public_path_for_its_own_and_at_the_root() -> None:
    root = "/.well-known/oauth-protected-resource"
    assert metadata_paths("https://example.com/public/mcp", "/mcp") == [
        f"{root}/public/mcp",
        f"{root}/mcp",
        root,
    ]
    assert metadata_paths("https://example.com/mcp", "/mcp") == [f"{root}/mcp", root]
    assert metadata_paths("https://example.com", "/") == [root]


@pytest.mark.spec(
    "basic/authorization/index/prm-server",
    "basic/authorization/authorization-server-discovery/prm-implemented",
    "basic/authorization/authorization-server-discovery/prm-authorization-servers",
)
def test_the_metadata_names_the_resource_and_its_authorization_servers() -> None:
    found = resource_metadata(
        "https://example.com/mcp",
        ["https://auth.example.com"],
        scopes_supported=["a"],
        resource_name=None,
    )
    assert found == {
        "resource": "https://example.com/mcp",
        "authorization_servers": ["https://auth.example.com"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["a"],
    }


def test_the_document_is_read_by_every_page_and_by_no_other_method() -> None:
    serve = document({"a": 1})
    for method, body in (("GET", b'{"a":1}'), ("HEAD", b"")):
        wire = Wire(REQUEST_METHOD=method)
        assert b"".join(serve(wire.reply)) == body
        assert wire.status == "200 OK"
        assert wire.headers["Access-Control-Allow-Origin"] == "*"
        assert wire.headers["Content-Length"] == "7"
    wire = Wire(REQUEST_METHOD="OPTIONS")
    assert b"".join(serve(wire.reply)) == b""
    assert wire.status == "204 No Content"
    assert wire.headers["Access-Control-Allow-Headers"] == "MCP-Protocol-Version"
    with pytest.raises(Refused) as refused:
        serve(Wire(REQUEST_METHOD="POST").reply)
    assert refused.value.status == 405
    assert json.loads(refused.value.body())["error"]["code"] == -32600


# -- the client's half ---------------------------------------------------------------------------------

MCP = "https://mcp.example/public/mcp"
AS = "https://as.example"
HOME = "https://mcp.example/.well-known/oauth-protected-resource"


class Web:
    """Documents by URL, and what was asked."""

    def __init__(self, **documents: object) -> None:
        self.documents: dict[str, dict[str, object]] = {}
        self.asked: list[str] = []

    def put(self, url: str, **document: object) -> Web:
        self.documents[url] = document
        return self

    def __call__(self, url: str) -> dict[str, object] | None:
        self.asked.append(url)
        return self.documents.get(url)


@pytest.mark.spec(
    "basic/authorization/authorization-server-discovery/client-both-mechanisms",
    "basic/authorization/authorization-server-discovery/client-well-known-fallback",
    "basic/authorization/authorization-server-discovery/parse-www-authenticate",
    "basic/authorization/index/prm-client",
)
def test_the_metadata_is_where_the_challenge_says_else_at_two_places() -> None:
    web = Web().put(
        "https://mcp.example/x", resource=MCP, authorization_servers=[AS], scopes_supported=["a", 5]
    )
    assert find_resource(web, MCP, "https://mcp.example/x") == ProtectedResource(MCP, (AS,), ("a",))
    assert web.asked == ["https://mcp.example/x"]
    web = Web()
    assert find_resource(web, f"{MCP}?key=secret", None) is None
    assert web.asked == [f"{HOME}/public/mcp", HOME]
    web.put(HOME, resource="https://mcp.example", authorization_servers=[AS])
    assert find_resource(web, MCP, None) == ProtectedResource("https://mcp.example", (AS,), None)
    web = Web()
    assert find_resource(web, "https://mcp.example/", None) is None
    assert web.asked == [HOME]


@pytest.mark.parametrize(
    ("announced", "fault"),
    [
        ("https://mcp.example/none", "where none is"),
        ("http://mcp.example/x", "is http, and not https"),
        ("x", "no URL"),
    ],
)
def test_a_challenge_that_leads_nowhere_is_told(announced: str, fault: str) -> None:
    with pytest.raises(AuthorizationError, match=fault):
        find_resource(Web(), MCP, announced)


@pytest.mark.spec("basic/authorization/index/resource-identifies-server")
def test_metadata_about_another_server_is_not_believed() -> None:
    for resource in ("https://evil.example/mcp", "https://mcp.example/other", None):
        web = Web().put(HOME, resource=resource, authorization_servers=[AS])
        with pytest.raises(
            AuthorizationError, match=r"and not about the server at https://mcp\.example/public/mcp"
        ):
            find_resource(web, MCP, None)


@pytest.mark.spec("basic/authorization/authorization-server-discovery/client-selects-as")
def test_authorization_servers_that_cannot_be_asked_are_left_out() -> None:
    listed = ["http://evil.example", "https://a.example?q", "x", 5, AS, "https://b.example"]
    web = Web().put(HOME, resource=MCP, authorization_servers=listed)
    found = find_resource(web, MCP, None)
    assert found is not None and found.issuers == (AS, "https://b.example")
    assert choose_issuer(found.issuers, None) == AS
    assert choose_issuer(found.issuers, None, ["https://b.example"]) == "https://b.example"
    assert choose_issuer(found.issuers, "https://b.example") == "https://b.example"
    for none in ([], None, "x", ["http://evil.example"]):
        with pytest.raises(AuthorizationError, match="names no authorization server that can be asked"):
            find_resource(Web().put(HOME, resource=MCP, authorization_servers=none), MCP, None)


@pytest.mark.spec("basic/authorization/client-registration/preregistered-mismatch")
def test_an_authorization_server_that_is_wanted_and_not_listed_is_told() -> None:
    with pytest.raises(
        AuthorizationError, match=r"registered with https://c\.example, and .* change issuer="
    ):
        choose_issuer((AS,), "https://c.example")


@pytest.mark.spec(
    "basic/authorization/authorization-server-discovery/multiple-well-known",
    "basic/authorization/authorization-server-discovery/issuer-with-path",
    "basic/authorization/authorization-server-discovery/issuer-without-path",
    "basic/authorization/index/discovery-client-both",
    "basic/authorization/index/rfc8414-client",
    "basic/authorization/index/metadata-discovery-followed",
)
@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        (
            "https://as.example",
            [f"{AS}/.well-known/oauth-authorization-server", f"{AS}/.well-known/openid-configuration"],
        ),
        (
            "https://as.example/",
            [f"{AS}/.well-known/oauth-authorization-server", f"{AS}/.well-known/openid-configuration"],
        ),
        (
            "https://as.example/tenant1",
            [
                f"{AS}/.well-known/oauth-authorization-server/tenant1",
                f"{AS}/.well-known/openid-configuration/tenant1",
                f"{AS}/tenant1/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_an_authorization_server_is_looked_for_at_each_place_in_order(issuer: str, places: list[str]) -> None:
    assert server_metadata_urls(issuer) == places
    web = Web()
    with pytest.raises(AuthorizationError, match="has no metadata; asked were") as told:
        find_server(web, issuer)
    assert told.value.issuer == issuer
    assert web.asked == places
    for place in places:
        web = Web().put(place, issuer=issuer, token_endpoint=f"{AS}/t")
        assert find_server(web, issuer)["token_endpoint"] == f"{AS}/t"


@pytest.mark.spec(
    "basic/authorization/authorization-server-discovery/metadata-validated",
    "basic/authorization/authorization-server-discovery/issuer-identical",
    "basic/authorization/authorization-server-discovery/issuer-mismatch-unused",
)
@pytest.mark.parametrize("said", ["https://honest.example", f"{AS}/", "HTTPS://as.example", None, 5])
def test_metadata_of_another_issuer_is_not_used(said: object) -> None:
    web = Web().put(f"{AS}/.well-known/oauth-authorization-server", issuer=said, token_endpoint=f"{AS}/t")
    with pytest.raises(AuthorizationError, match="it may be forged, and was not used"):
        find_server(web, AS)


def test_endpoints_of_metadata_are_looked_at_and_lists_are_lists() -> None:
    place = f"{AS}/.well-known/oauth-authorization-server"
    good = {"issuer": AS, "token_endpoint": f"{AS}/t"}
    for bad in (
        {"token_endpoint": None},
        {"authorization_endpoint": "http://evil.example"},
        {"registration_endpoint": 5},
    ):
        with pytest.raises(AuthorizationError, match=next(iter(bad))):
            find_server(Web().put(place, **{**good, **bad}), AS)
    found = find_server(
        Web().put(place, **good, scopes_supported="a", grant_types_supported=["x"], more=1), AS
    )
    assert found == {**good, "grant_types_supported": ["x"], "more": 1}
    there = {"token_endpoint": "http://as.example/t", "issuer": AS}
    assert find_server(Web().put(place, **there), AS, allow_http=True) == there


@pytest.mark.spec(
    "basic/authorization/index/base-url-drops-path",
    "basic/authorization/index/metadata-before-defaults",
    "basic/authorization/index/default-paths",
)
def test_a_server_of_2025_03_26_has_its_metadata_at_the_root_or_default_endpoints() -> None:
    web = Web()
    found = find_server_of_old(web, MCP)
    assert web.asked == ["https://mcp.example/.well-known/oauth-authorization-server"]
    assert found["issuer"] == "https://mcp.example"
    assert found["authorization_endpoint"] == "https://mcp.example/authorize"
    assert found["token_endpoint"] == "https://mcp.example/token"
    assert found["registration_endpoint"] == "https://mcp.example/register"
    web.put(web.asked[0], issuer="https://mcp.example", token_endpoint="https://mcp.example/oauth/token")
    assert find_server_of_old(web, MCP)["token_endpoint"] == "https://mcp.example/oauth/token"
