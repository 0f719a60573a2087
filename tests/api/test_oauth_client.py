"""api/oauth_client: discovery, registration, authorization, tokens, renewal, step-up, as one exchange."""

import json
import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_exchanges import within
from oauth_sites import AS_METADATA, PRM, oauth_site
from peers import ENV, MODERN, PATIENCE, eventually, nothing_left
from web import web

from mcp_ref import AuthorizationError, HttpFailure, connect
from mcp_ref.api import oauth_client
from mcp_ref.api.authorization import FileTokens, MemoryTokens, OAuth
from mcp_ref.api.discovering import Discovery
from mcp_ref.runtime import jose
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.http_client.authorizing import Refusal
from mcp_ref.runtime.threads.deadlines import Clock, Deadline


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


LIFETIME = 3600
"""Seconds for which tokens are good, unless a test says otherwise: none ends by itself while a test runs."""


@pytest.fixture
def later(monkeypatch):
    """`later(seconds)`: so much later it is from now on, by the clock that tells when a token ends."""
    now, passed = time.time, []
    monkeypatch.setattr(time, "time", lambda: now() + sum(passed))
    return passed.append


def oauth(site, **options):
    return OAuth(**{"user_agent": site.person, **options})


def connected(site, **options):
    return connect(site.url, auth=oauth(site, **options), revision=MODERN)


def refused(site, match, **options):
    with pytest.raises(AuthorizationError, match=match) as told, connected(site, **options):
        pass
    return told.value


# ------------------------------------------------------------------------------ the flow


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", MODERN])
@pytest.mark.spec(
    "basic/authorization/index/token-every-request",
    "basic/authorization/index/bearer-header",
    "basic/authorization/index/resource-in-both-requests",
    "basic/authorization/index/resource-indicators",
    "basic/authorization/index/resource-always-sent",
    "basic/authorization/security-considerations/oauth-best-practice",
    "basic/authorization/index/oauth21-implementations",
    "basic/authorization/index/security-followed",
    "basic/authorization/index/discovery-requirements-followed",
    "basic/authorization/security-considerations/pkce",
    "basic/authorization/security-considerations/pkce-s256",
    "basic/authorization/index/client-id-obtained",
)
def test_a_client_that_is_refused_finds_out_by_itself_how_to_get_a_token(revision):
    with oauth_site(revision) as site:
        with connect(site.url, auth=oauth(site), revision=revision) as client:
            assert client.call_tool("a").text == "x"
            assert client.call_tool("a").text == "x"
        [asked], [form], [registered] = site.asked, site.forms, site.registered
        assert asked["response_type"] == "code"
        assert asked["resource"] == form["resource"] == site.url
        assert asked["code_challenge_method"] == "S256"
        assert form["grant_type"] == "authorization_code"
        assert len(form["code_verifier"]) >= 43
        assert registered["application_type"] == "native"
        assert registered["redirect_uris"] == [asked["redirect_uri"]]
        assert asked["client_id"] == form["client_id"] == "client-1"
        assert site.tokens_sent[0] is None
        assert set(site.tokens_sent[1:]) == {f"Bearer {next(iter(site.valid))}"}


def test_the_next_client_of_the_same_oauth_has_the_tokens():
    with oauth_site() as site:
        auth = oauth(site)
        for _ in range(2):
            with connect(site.url, auth=auth, revision=MODERN) as client:
                client.call_tool("a")
        assert len(site.asked) == 1
        assert site.tokens_sent.count(None) == 1


@pytest.mark.spec(
    "basic/authorization/authorization-server-discovery/client-both-mechanisms",
    "basic/authorization/authorization-server-discovery/client-well-known-fallback",
    "basic/authorization/index/prm-client",
)
def test_without_a_challenge_that_says_so_the_metadata_is_where_it_is_by_default():
    with oauth_site(challenge=None) as site:
        with connected(site):
            pass
        assert len(site.asked) == 1
    with oauth_site(prm=None, challenge="Bearer") as site:
        site.change(well_known={PRM: {"resource": site.origin, "authorization_servers": [site.issuer]}})
        with connected(site):
            pass
        assert site.asked[0]["resource"] == site.origin


@pytest.mark.spec(
    "basic/authorization/index/base-url-drops-path",
    "basic/authorization/index/metadata-before-defaults",
    "basic/authorization/index/default-paths",
    "basic/authorization/index/metadata-version-header",
)
@pytest.mark.parametrize("revision", ["2025-03-26", MODERN])
def test_a_server_of_2025_03_26_is_its_own_authorization_server(revision):
    with oauth_site(revision, prm=None, challenge="Bearer", redirect={"iss": None}) as site:
        with connect(site.url, auth=oauth(site), revision=revision) as client:
            client.call_tool("a")
        assert site.authorization_server.requests == []
        asked = [r.target.partition("?")[0] for r in site.server.requests if r.target != "/mcp"]
        assert asked[-4:] == [AS_METADATA, "/register", "/authorize", "/token"]
        known = [r for r in site.server.requests if r.target == AS_METADATA]
        assert known[0].headers["mcp-protocol-version"] == MODERN
        assert site.asked[0]["resource"] == site.url


def test_a_challenge_of_another_scheme_is_not_answered():
    with oauth_site(challenge="Basic realm=x") as site:
        with pytest.raises(HttpFailure, match="401"), connected(site):
            pass
        assert len(site.server.requests) == 1


# ------------------------------------------------------------------------------ metadata that lies


@pytest.mark.spec("basic/authorization/index/resource-identifies-server")
@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example/mcp",
        "http://127.0.0.1:1/mcp",
        None,
        5,
        "mcp",
        "{url}#x",
        "{url}/deeper",
        "{url}?x=1",
        "{origin}/mc",
    ],
)
def test_metadata_that_lies_about_its_resource(resource):
    with oauth_site() as site:
        if isinstance(resource, str):
            resource = resource.replace("{url}", site.url).replace("{origin}", site.origin)
        site.change(prm={"resource": resource})
        refused(site, r"and not about the server at .*/mcp: no token for it would be good here")
        assert site.authorization_server.requests == []


@pytest.mark.spec("basic/authorization/index/resource-identifies-server")
def test_a_server_that_names_the_path_above_its_own_gets_no_token():
    """There may be another tenant of the same host."""
    with oauth_site() as site:
        site.change(
            challenge=f'Bearer resource_metadata="{site.origin}{PRM}/mcp"', prm={"resource": site.url}
        )
        with (
            pytest.raises(
                AuthorizationError, match=r"is about .*/mcp, and not about the server at .*/guests"
            ),
            connect(f"{site.url}/guests", auth=oauth(site), revision=MODERN),
        ):
            pass
        assert (site.asked, site.registered) == ([], [])


@pytest.mark.spec(
    "basic/authorization/authorization-server-discovery/metadata-validated",
    "basic/authorization/authorization-server-discovery/issuer-identical",
    "basic/authorization/authorization-server-discovery/issuer-mismatch-unused",
)
@pytest.mark.parametrize("issuer", ["https://honest.example", "{issuer}/", None])
def test_metadata_that_lies_about_its_issuer(issuer):
    with oauth_site() as site:
        site.change(metadata={"issuer": issuer and issuer.replace("{issuer}", site.issuer)})
        refused(site, "which led there: it may be forged, and was not used")
        assert (site.asked, site.registered) == ([], [])


@pytest.mark.spec(
    "basic/authorization/security-considerations/oauth-communication-security",
    "docs/security_best_practices/oauth-https",
    "docs/security_best_practices/ssrf-considered",
    "docs/security_best_practices/block-private-ranges",
)
@pytest.mark.parametrize(
    ("name", "url", "fault"),
    [
        ("token_endpoint", "http://evil.example/token", "token_endpoint is http, and not https"),
        ("authorization_endpoint", "http://evil.example/authorize", "authorization_endpoint is http"),
        ("authorization_endpoint", "javascript:alert(1)", "no URL of a server"),
        ("authorization_endpoint", "file:///etc/passwd", "no URL of a server"),
        ("token_endpoint", "https://user@example.com/token", "no URL of a server"),
        ("token_endpoint", 5, "token_endpoint is no text"),
        ("token_endpoint", None, "token_endpoint is no text"),
        ("registration_endpoint", "https://169.254.169.254/latest", "link-local"),
        ("registration_endpoint", "https://10.0.0.1/register", "a private address"),
        ("registration_endpoint", "https://[::ffff:169.254.169.254]/", "link-local"),
    ],
)
def test_metadata_that_lies_about_endpoints(name, url, fault):
    """On other hosts they may be, where anybody may ask."""
    with oauth_site() as site:
        site.change(metadata={name: url})
        refused(site, fault)
        assert site.asked == []


def test_an_authorization_server_on_this_machine_is_for_a_server_on_this_machine():
    """A server elsewhere that names one could have anything asked that listens here."""
    discovery = Discovery(OAuth(), "https://mcp.example/mcp")
    discovery.fetcher = discovery._fetcher("93.184.216.34")
    for url in (
        "http://localhost:1/x",
        "https://localhost:1/x",
        "https://127.0.0.1:1/x",
        "https://10.0.0.1:1/x",
    ):
        with pytest.raises(AuthorizationError, match=r"http, which anybody|leads to a"):
            discovery.get(url)
    discovery = Discovery(OAuth(allow_private=True), "https://mcp.example/mcp")
    with pytest.raises(AuthorizationError, match="no connection"):
        discovery.get("https://127.0.0.1:1/x")


def test_a_loop_of_redirects_and_a_huge_document_are_told():
    with oauth_site() as site:
        with web(lambda request, wire: wire.answer(302, b"", "Location: /mcp")) as loop:
            site.change(challenge=f'Bearer resource_metadata="{loop.url}"')
            refused(site, "more than 3 redirects")
        with web(lambda request, wire: wire.answer(200, b" " * 1_000_000)) as huge:
            site.change(challenge=f'Bearer resource_metadata="{huge.url}"')
            refused(site, "longer than 262,144 bytes")
        with web(lambda request, wire: wire.answer(200, b"<html>")) as page:
            site.change(challenge=f'Bearer resource_metadata="{page.url}"')
            refused(site, "where none is")


@pytest.mark.parametrize(
    ("announced", "fault"),
    [
        ("http://evil.example/x", "is http, and not https"),
        ("file:///x", "no URL of a server"),
        ("", "no URL"),
    ],
)
def test_a_challenge_that_names_what_is_no_place_for_metadata(announced, fault):
    with oauth_site(challenge=f'Bearer resource_metadata="{announced}"') as site:
        refused(site, fault)


@pytest.mark.parametrize("servers", [[], None, "x", [5], ["http://evil.example"], ["https://a.example/?q"]])
def test_metadata_without_an_authorization_server_that_can_be_asked(servers):
    with oauth_site(prm={"authorization_servers": servers}) as site:
        refused(site, "names no authorization server that can be asked")


def test_an_authorization_server_without_metadata_is_named_with_all_places():
    with oauth_site(metadata_at="/elsewhere") as site:
        refused(site, "has no metadata; asked were .*oauth-authorization-server, .*openid-configuration")


@pytest.mark.spec(
    "basic/authorization/security-considerations/pkce-support-verified",
    "basic/authorization/security-considerations/pkce-from-metadata",
    "basic/authorization/security-considerations/pkce-refuse-oauth",
    "basic/authorization/security-considerations/pkce-refuse-oidc",
    "basic/authorization/security-considerations/pkce-verify-oidc",
)
@pytest.mark.parametrize("at", [AS_METADATA, "/.well-known/openid-configuration"])
@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256"])
def test_a_server_that_does_not_say_that_it_has_pkce_is_not_asked(methods, at):
    with oauth_site(metadata={"code_challenge_methods_supported": methods}, metadata_at=at) as site:
        refused(site, "does not list S256")
        assert (site.asked, site.registered) == ([], [])


# ------------------------------------------------------------------------------ the response


@pytest.mark.spec("basic/authorization/security-considerations/state-verified")
@pytest.mark.parametrize("state", ["forged", None, ""])
def test_states_forged(state):
    with oauth_site(redirect={"state": state}) as site:
        refused(site, "another state than the request")
        assert site.forms == []


@pytest.mark.spec(
    "basic/authorization/index/iss-validated",
    "basic/authorization/index/iss-present-compared",
    "basic/authorization/index/iss-absent-rejected",
    "basic/authorization/index/iss-no-normalisation",
    "basic/authorization/index/iss-mismatch-no-error-display",
    "basic/authorization/index/record-issuer",
)
@pytest.mark.parametrize("advertised", [True, None])
@pytest.mark.parametrize("iss", ["https://evil.example", "{issuer}/", "{upper}", None])
def test_a_response_of_another_issuer_is_dropped_with_its_error(iss, advertised):
    if iss is None and advertised is None:
        return
    with oauth_site(metadata={"authorization_response_iss_parameter_supported": advertised}) as site:
        iss = iss and iss.replace("{issuer}", site.issuer).replace(
            "{upper}", site.issuer.replace("http", "HTTP")
        )
        site.change(redirect={"iss": iss, "error": "access_denied", "error_description": "evil words"})
        problem = refused(site, r"iss\)|from another authorization server")
        assert "evil words" not in str(problem)
        assert problem.error is None
        assert site.forms == []


def test_a_person_who_refuses_is_told_in_the_words_of_the_server():
    said = {"code": None, "error": "access_denied", "error_description": "Ada said\nno"}
    with oauth_site(redirect=said) as site:
        problem = refused(
            site, r"authorization endpoint .*/authorize refused with access_denied: Ada said\\nno"
        )
        assert (problem.error, problem.issuer) == ("access_denied", site.issuer)


def test_codes_replayed():
    with oauth_site(refuses={"authorization_code": {"error": "invalid_grant"}}) as site:
        problem = refused(site, "token endpoint .*/token refused with invalid_grant")
        assert problem.error == "invalid_grant"
        assert "code-" not in str(problem)


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        ({"access_token": None}, "has no access token"),
        ({"access_token": "a\r\nb"}, "fits into no header"),
        ({"token_type": "mac"}, "a token of the type 'mac'"),
        ({"token_type": "DPoP"}, "a token of the type DPoP, and not Bearer"),
        ({"refresh_token": 5}, "a refresh token that cannot be one"),
        ({"error": "server_error"}, "refused with server_error"),
    ],
)
def test_a_token_response_that_makes_no_sense_is_told(tokens, fault):
    with oauth_site(tokens=tokens) as site:
        refused(site, fault)


def test_a_token_that_was_just_issued_and_is_refused_is_the_end():
    with oauth_site() as site:
        site.issue = lambda scope="": {"access_token": "not-known", "token_type": "Bearer"}
        site.change(challenge='Bearer error="invalid_token", error_description="wrong audience"')
        problem = refused(site, "refuses the token that was just issued for it: wrong audience")
        assert problem.issuer == site.issuer
        assert len(site.asked) == 1


# ------------------------------------------------------------------------------ who the client is


@pytest.mark.spec(
    "basic/authorization/client-registration/registration-priority",
    "basic/authorization/client-registration/static-credentials",
    "basic/authorization/client-registration/cimd-capability-checked",
    "basic/authorization/client-registration/cimd-fallback",
)
def test_the_ways_to_a_client_id_have_an_order():
    document = "https://app.example/client.json"
    with oauth_site(metadata={"client_id_metadata_document_supported": True}) as site:
        with connected(site, client_id="known", client_secret="s", client_metadata_url=document):
            assert site.asked[-1]["client_id"] == "known"
            assert site.form_headers[-1]["authorization"].startswith("Basic ")
        with connected(site, client_metadata_url=document):
            assert site.asked[-1]["client_id"] == document
        assert site.registered == []
        site.change(metadata={})
        with connected(site, client_metadata_url=document):
            assert site.asked[-1]["client_id"] == "client-1"
        site.change(metadata={"registration_endpoint": None})
        refused(site, r"registers no client by itself: register one there, and write OAuth\(client_id=")


@pytest.mark.spec(
    "basic/authorization/client-registration/registration-failure",
    "basic/authorization/client-registration/registration-failure-surfaced",
)
def test_a_registration_that_is_refused_is_told():
    said = {"error": "invalid_redirect_uri", "error_description": "only https"}
    with oauth_site(registration=(400, said)) as site:
        problem = refused(
            site, r"did not register .* http://127.*/callback \(invalid_redirect_uri\): only https"
        )
        assert problem.error == "invalid_redirect_uri"
    with oauth_site(registration=(500, {})) as site:
        refused(site, r"status 500")
    with oauth_site(registration=(201, {"client_id": None})) as site:
        refused(site, "without a client_id")


@pytest.mark.spec(
    "basic/authorization/client-registration/credentials-keyed-by-issuer",
    "basic/authorization/client-registration/no-credential-reuse",
    "basic/authorization/client-registration/reregister-on-change",
    "basic/authorization/authorization-server-discovery/registration-per-as",
    "basic/authorization/authorization-server-discovery/no-credential-crossing",
)
def test_where_the_authorization_server_changes_the_client_registers_anew():
    with oauth_site() as site, oauth_site() as other:
        with connected(site) as client:
            client.call_tool("a")
            site.valid.clear()
            site.change(prm={"authorization_servers": [other.issuer]})
            other.issue = site.issue
            client.call_tool("a")
        assert len(site.registered) == len(other.registered) == 1
        assert other.grants() == ["authorization_code"]
        assert "refresh-" not in str(other.forms)


@pytest.mark.spec("basic/authorization/client-registration/preregistered-mismatch")
def test_credentials_of_one_authorization_server_are_not_shown_to_another():
    with oauth_site() as site:
        refused(
            site,
            "this client is registered with https://as.example",
            client_id="c",
            issuer="https://as.example",
        )
        store = MemoryTokens()
        with connected(site, client_id="c", store=store):
            pass
        site.valid.clear()
        site.change(prm={"authorization_servers": ["https://other.example"]})
        refused(site, f"this client is registered with {site.issuer}", client_id="c", store=store)
        assert len(site.asked) == 1


@pytest.mark.spec("basic/authorization/client-registration/cimd-portable")
def test_a_document_is_good_everywhere():
    document = "https://app.example/client.json"
    knobs = {"metadata": {"client_id_metadata_document_supported": True}}
    with oauth_site(**knobs) as site, oauth_site(**knobs) as other:
        with connected(site, client_metadata_url=document) as client:
            site.valid.clear()
            site.change(prm={"authorization_servers": [other.issuer]})
            other.issue = site.issue
            client.call_tool("a")
        assert site.asked[0]["client_id"] == other.asked[0]["client_id"] == document
        assert site.registered == other.registered == []


def test_a_registration_that_the_server_has_lost_is_made_again():
    with oauth_site() as site:
        with connected(site) as client:
            client.call_tool("a")
            site.valid.clear()
            site.change(refuses={"refresh_token": {"error": "invalid_client", "status": 401}})
            client.call_tool("a")
        assert len(site.registered) == 2


@pytest.mark.parametrize(
    ("supported", "method"),
    [
        (["none"], "none"),
        (["client_secret_basic"], "client_secret_basic"),
        (["client_secret_post"], "client_secret_post"),
        (None, "client_secret_basic"),
    ],
)
def test_a_client_authenticates_as_the_server_wants_it(supported, method):
    said = {"client_id": "c", "client_secret": "se:cret"}
    metadata = {"token_endpoint_auth_methods_supported": supported}
    with oauth_site(metadata=metadata, registration=(201, said)) as site:
        with connected(site):
            pass
        assert site.registered[0]["token_endpoint_auth_method"] == method
        basic = site.form_headers[0].get("authorization", "")
        assert basic.startswith("Basic") == (method == "client_secret_basic")
        assert ("client_secret" in site.forms[0]) == (method == "client_secret_post")


def test_a_method_that_the_server_does_not_have_is_told():
    with oauth_site(metadata={"token_endpoint_auth_methods_supported": ["tls_client_auth"]}) as site:
        refused(site, "takes no", client_id="c", client_secret="s")


# ------------------------------------------------------------------------------ scopes


@pytest.mark.spec(
    "basic/authorization/index/scope-priority",
    "basic/authorization/index/scope-fallback",
    "basic/authorization/index/least-privilege",
    "basic/authorization/index/no-scope-set-assumption",
)
def test_scopes_are_those_of_the_challenge_else_those_of_the_metadata_else_none():
    with oauth_site(prm={"scopes_supported": ["b", "c"]}) as site:
        with connected(site):
            pass
        site.change(challenge='Bearer scope="a"')
        with connected(site):
            pass
        site.change(prm={}, challenge="Bearer")
        with connected(site):
            pass
        with connected(site, scopes="x y"):
            pass
        assert [asked.get("scope") for asked in site.asked] == ["b c", "a", None, "x y"]


@pytest.mark.spec(
    "basic/authorization/index/refresh-offline-access", "basic/authorization/index/refresh-grant-type"
)
def test_offline_access_is_asked_for_where_the_authorization_server_lists_it():
    with oauth_site(challenge='Bearer scope="a"') as site:
        with connected(site):
            assert site.asked[-1]["scope"] == "a"
        site.change(metadata={"scopes_supported": ["a", "offline_access"]})
        with connected(site):
            assert site.asked[-1]["scope"] == "a offline_access"
        with connected(site, offline_access=False):
            assert site.asked[-1]["scope"] == "a"
        assert site.registered[0]["grant_types"] == ["authorization_code", "refresh_token"]


@pytest.mark.spec(
    "basic/authorization/index/step-up",
    "basic/authorization/index/step-up-for-users",
    "basic/authorization/index/step-up-union",
    "basic/authorization/index/reauth-keeps-scopes",
    "basic/authorization/index/challenge-authoritative",
)
def test_a_403_asks_for_more_scopes_and_the_old_ones_are_kept():
    with oauth_site(challenge='Bearer scope="read"') as site:
        site.needed = {"write": "files:write", "admin": "admin"}
        with connected(site) as client:
            client.call_tool("a")
            client.call_tool("write")
            client.call_tool("admin")
            client.call_tool("write")
        assert [a["scope"] for a in site.asked] == ["read", "read files:write", "read files:write admin"]


@pytest.mark.spec("basic/authorization/index/step-up-few-retries", "basic/authorization/index/retry-limits")
def test_a_403_in_spite_of_all_scopes_is_final():
    with oauth_site() as site:
        with connected(site) as client:
            site.needed = {"never": "unobtainable"}
            site.issue = lambda scope="", issue=site.issue: issue("")
            for _ in range(3):
                with pytest.raises(HttpFailure, match="403"):
                    client.call_tool("never")
        assert len(site.asked) == 3


def test_another_403_is_none_of_ours():
    with oauth_site() as site, connected(site) as client:
        site._mcp = lambda request, wire: wire.answer(403, b"", 'WWW-Authenticate: Bearer error="blocked"')
        with pytest.raises(HttpFailure, match="403"):
            client.call_tool("a")
        assert len(site.asked) == 1


def test_a_403_before_there_is_a_token_asks_for_one():
    def first(request, wire, mcp):
        if "authorization" in request.headers or request.target != "/mcp":
            return mcp(request, wire)
        return wire.answer(403, b"", 'WWW-Authenticate: Bearer error="insufficient_scope", scope="a"')

    with oauth_site() as site:
        site.server._handle = lambda request, wire: first(request, wire, site.mcp)
        with connected(site) as client:
            client.call_tool("x")
        assert site.asked[0]["scope"] == "a"


# ------------------------------------------------------------------------------ renewal


@pytest.mark.spec(
    "basic/authorization/index/refresh-not-assumed", "basic/authorization/index/refresh-confidential"
)
def test_after_a_401_the_refresh_token_is_used_and_no_person_asked():
    with oauth_site() as site:
        with connected(site) as client:
            client.call_tool("a")
            first = next(iter(site.valid))
            site.valid.clear()
            client.call_tool("a")
            assert first not in site.valid
        assert site.grants() == ["authorization_code", "refresh_token"]
        assert site.forms[1]["resource"] == site.url
        assert len(site.asked) == 1


def test_without_a_refresh_token_the_person_is_asked_again():
    with oauth_site(refreshes=False) as site, connected(site) as client:
        client.call_tool("a")
        site.valid.clear()
        client.call_tool("a")
        assert site.grants() == ["authorization_code"] * 2


def test_a_refresh_token_that_is_over_leads_to_the_person():
    with oauth_site() as site, connected(site) as client:
        client.call_tool("a")
        site.valid.clear()
        site.refresh_tokens.clear()
        client.call_tool("a")
        assert site.grants() == ["authorization_code", "refresh_token", "authorization_code"]


def test_a_refreshed_token_that_is_refused_leads_to_the_person():
    with oauth_site() as site, connected(site) as client:
        client.call_tool("a")
        site.valid.clear()
        issue, given = site.issue, []

        def bad_once(scope=""):
            answer = issue(scope)
            if not given:
                site.valid.clear()
            given.append(answer)
            return answer

        site.issue = bad_once
        client.call_tool("a")
        assert site.grants() == ["authorization_code", "refresh_token", "authorization_code"]


def test_tokens_expired_are_renewed_before_they_are_refused(later):
    with oauth_site() as site, connected(site) as client:
        later(LIFETIME)
        client.call_tool("a")
        client.call_tool("a")
        assert site.grants() == ["authorization_code", "refresh_token"]
        assert site.tokens_sent.count(None) == 1
        assert len([s for s in site.tokens_sent if s == site.tokens_sent[1]]) <= 2


@pytest.mark.parametrize("skew", [-86400, 86400])
def test_clock_skew(monkeypatch, skew):
    """What counts is for how long a token is good, and not what the server's clock says."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + skew)
    with oauth_site() as site, connected(site) as client:
        client.call_tool("a")
        client.call_tool("a")
        assert site.grants() == ["authorization_code"]
        monkeypatch.setattr(time, "time", lambda: now() + skew + 3590)
        client.call_tool("a")
        assert site.grants() == ["authorization_code", "refresh_token"]


def test_where_no_token_can_be_had_in_advance_the_old_one_is_tried(later, monkeypatch):
    monkeypatch.setattr(oauth_client, "PAUSE_SECONDS", 10 * PATIENCE)
    with oauth_site() as site, connected(site) as client:
        site.authorization_server._handle = lambda request, wire: wire.close()
        later(LIFETIME)
        asked = len(site.authorization_server.requests)
        for _ in range(5):
            assert client.call_tool("a").text == "x"
        assert len(site.authorization_server.requests) == asked + 1


def test_while_a_person_is_asked_for_more_others_go_on_with_what_there_is(later):
    with oauth_site() as site:
        inside, go_on = threading.Event(), threading.Event()

        def person(url):
            if site.asked:
                inside.set()
                assert go_on.wait(PATIENCE)
            return site.person(url)

        with connect(site.url, auth=OAuth(user_agent=person), revision=MODERN) as client:
            site.needed = {"write": "write"}
            with ThreadPoolExecutor(1) as pool:
                writing = pool.submit(client.call_tool, "write")
                assert inside.wait(PATIENCE)
                later(LIFETIME)
                assert client.call_tool("a").text == "x"
                go_on.set()
                assert writing.result(PATIENCE).text == "x"


def test_an_authorization_server_that_is_gone_is_told_and_nothing_is_lost():
    with oauth_site() as site, connected(site) as client:
        site.valid.clear()
        handle = site.authorization_server._handle
        site.authorization_server._handle = lambda request, wire: wire.close()
        with pytest.raises(AuthorizationError, match=f"authorization for {site.url}: GET {site.issuer}"):
            client.call_tool("a")
        site.authorization_server._handle = handle
        client.call_tool("a")
        assert site.grants()[-1] == "refresh_token"
        assert len(site.asked) == 1


def test_100_threads_that_find_the_token_expired_at_the_same_moment_do_one_refresh():
    with oauth_site() as site, connected(site) as client:
        client.call_tool("a")
        go = threading.Barrier(100)

        def call(number):
            go.wait(PATIENCE)
            return client.call_tool("a").text

        with ThreadPoolExecutor(100) as pool:
            site.valid.clear()
            assert set(pool.map(call, range(100))) == {"x"}
        assert site.grants() == ["authorization_code", "refresh_token"]


def test_100_threads_that_know_it_to_be_expired_do_one_refresh_too(later):
    with oauth_site() as site, connected(site) as client:
        later(LIFETIME)
        go = threading.Barrier(100)

        def headers(number):
            go.wait(PATIENCE)
            return client.asker.line._exchanges.auth.headers("POST", site.url)["Authorization"]

        with ThreadPoolExecutor(100) as pool:
            assert len(set(pool.map(headers, range(100)))) == 1
        assert site.grants() == ["authorization_code", "refresh_token"]


def test_two_flows_at_once_ask_the_person_once():
    """Of one client; the second thread waits for the first, and its deadline stands still."""
    with oauth_site() as site:
        inside, go_on = threading.Event(), threading.Event()

        def person(url):
            inside.set()
            assert go_on.wait(PATIENCE)
            return site.person(url)

        auth = OAuth(user_agent=person).authorizer(site.url)
        told = Refusal(401, f'Bearer resource_metadata="{site.origin}{PRM}/mcp"', None, {}, "127.0.0.1")
        clock = Clock()
        waits = Deadline(PATIENCE, clock)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(auth.refused, told, within(PATIENCE))
            assert inside.wait(PATIENCE)
            second = pool.submit(auth.refused, told, waits)
            assert eventually(lambda: clock.is_held)
            left = waits.left()
            time.sleep(0.01)  # of which nothing counts
            assert waits.left() == left
            assert not second.done()
            go_on.set()
            assert first.result(PATIENCE) and second.result(PATIENCE)
        assert len(site.asked) == 1


class Crowd:
    """Threads that call a tool at the same moment; which of them have begun their request is known.

    What a person refuses is refused to requests that had begun before, and to no later ones.
    """

    def __init__(self, client):
        self._client, self._auth = client, client.asker.line._exchanges.auth
        self._headers, self._auth.headers = self._auth.headers, self._begin
        self._begun, self._count = set(), 1

    def _begin(self, *given):
        self._begun.add(threading.get_ident())
        return self._headers(*given)

    def has_begun(self):
        return eventually(lambda: len(self._begun) >= self._count)

    def answers(self, count, tool):
        """What so many threads hear."""
        self._begun, self._count = set(), count
        return answers_of(self._client, count, tool)


def answers_of(client, count, tool):
    """What so many threads hear that call a tool at the same moment."""
    go = threading.Barrier(count)

    def call(number):
        go.wait(PATIENCE)
        try:
            return client.call_tool(tool).text
        except (AuthorizationError, HttpFailure) as problem:
            return type(problem), getattr(problem, "error", None)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def says_no(site, crowd):
    """A person who refuses, once the whole crowd has begun to ask."""
    site.change(redirect={"code": None, "error": "access_denied"})

    def person(url):
        assert crowd.has_begun()
        return site.person(url)

    return person


def test_60_threads_ask_a_person_who_says_no_once_and_later_once_more(later):
    with oauth_site() as site:
        people = [site.person]
        with connect(site.url, auth=OAuth(user_agent=lambda url: people[-1](url)), revision=MODERN) as client:
            client.call_tool("a")
            crowd = Crowd(client)
            later(LIFETIME)
            site.valid.clear()
            site.refresh_tokens.clear()
            people.append(says_no(site, crowd))
            assert set(crowd.answers(60, "a")) == {(AuthorizationError, "access_denied")}
            assert len(site.asked) == 2
            with pytest.raises(AuthorizationError, match="access_denied") as told:
                client.call_tool("a")
            assert told.value.issuer == site.issuer
            assert len(site.asked) == 3
            site.change(redirect={})
            assert set(crowd.answers(10, "a")) == {"x"}
            assert len(site.asked) == 4


@pytest.mark.spec("basic/authorization/index/step-up-few-retries", "basic/authorization/index/retry-limits")
def test_30_threads_ask_twice_at_most_for_a_scope_that_is_never_granted():
    with oauth_site() as site, connected(site) as client:
        site.needed = {"never": "unobtainable"}
        site.issue = lambda scope="", issue=site.issue: issue("")
        for _ in range(2):
            assert {kind for kind, _ in answers_of(client, 30, "never")} == {HttpFailure}
            assert len(site.asked) == 3


def test_30_threads_whose_step_up_a_person_refuses_ask_once():
    with oauth_site() as site:
        people = [site.person]
        with connect(site.url, auth=OAuth(user_agent=lambda url: people[-1](url)), revision=MODERN) as client:
            site.needed = {"write": "write", "admin": "admin"}
            crowd = Crowd(client)
            people.append(says_no(site, crowd))
            for number, tool in enumerate(("write", "admin"), 2):
                assert set(crowd.answers(30, tool)) == {(AuthorizationError, "access_denied")}
                assert len(site.asked) == number


def test_of_the_rounds_that_failed_the_last_ones_are_remembered():
    turn = oauth_client._Turn()
    for number in range(oauth_client.MAX_ROUNDS + 1):
        with pytest.raises(AuthorizationError), turn.round(number, time.monotonic()):
            raise AuthorizationError("no", error=str(number))
    with turn.round(0, 0.0):
        pass
    with pytest.raises(AuthorizationError) as told, turn.round(1, 0.0):
        pass
    assert told.value.error == "1"


CHILD = """
import sys
from mcp_ref import connect
from mcp_ref.api.authorization import FileTokens, OAuth

def person(url):
    raise SystemExit("a person was asked")

with connect(sys.argv[1], auth=OAuth(user_agent=person, store=FileTokens(sys.argv[2]))) as client:
    print(client.call_tool("a").text, flush=True)
    sys.stdin.readline()
    print(client.call_tool("a").text, flush=True)
"""


def test_processes_that_share_a_file_do_one_refresh(tmp_path):
    path = tmp_path / "tokens"
    with oauth_site() as site:
        with connected(site, store=FileTokens(path)):
            pass
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", CHILD, site.url, str(path)]
        children = [subprocess.Popen(command, env=ENV, **pipes) for _ in range(3)]
        assert [child.stdout.readline() for child in children] == ["x\n"] * 3
        site.valid.clear()
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        assert [child.communicate(timeout=PATIENCE)[0] for child in children] == ["x\n"] * 3
        assert site.grants() == ["authorization_code", "refresh_token"]


def test_a_file_of_tokens_that_was_damaged_leads_to_the_person(tmp_path, caplog):
    path = tmp_path / "tokens"
    with oauth_site() as site:
        for damage in (b"", b'{"server', b"\0" * 100, b"[]", json.dumps({f"server {site.url}": 5}).encode()):
            with connected(site, store=FileTokens(path)):
                pass
            path.write_bytes(damage)
        with connected(site, store=FileTokens(path)):
            pass
        assert len(site.asked) == 6
        assert "begun anew" in caplog.text


@pytest.mark.parametrize("token", ["a b", "a\r\nX: y", "", 5, None])
def test_a_token_in_a_store_that_cannot_be_sent_is_as_good_as_lost(token, tmp_path, caplog):
    store = FileTokens(tmp_path / "tokens")
    with oauth_site() as site:
        with connected(site, store=store):
            pass
        key = f"tokens {site.issuer} {site.url}"
        store.set(key, {**store.get(key), "access_token": token})
        with connected(site, store=store) as client:
            assert client.call_tool("a").text == "x"
        with connected(site, store=store):
            pass
        assert len(site.asked) == 2
        assert caplog.text.count("is damaged, and begun anew: the tokens") == 1


def test_a_token_that_is_damaged_while_it_is_used_leads_to_the_person_too(caplog):
    store = MemoryTokens()
    with oauth_site() as site, connected(site, store=store) as client:
        key = f"tokens {site.issuer} {site.url}"
        store.set(key, {"access_token": "a b"})
        site.valid.clear()
        site.refresh_tokens.clear()
        client.call_tool("a")
        assert len(site.asked) == 2
        assert caplog.text.count("is damaged") == 1


# ------------------------------------------------------------------------------ without a person


class Machine:
    registers = False

    def fetch(self, flow):
        assert flow.issuer == flow.metadata["issuer"]
        return flow.request(
            {"grant_type": "client_credentials", "scope": " ".join(flow.scopes)}, client=flow.client
        )


def test_a_grant_gets_tokens_without_a_person_and_others_when_they_end(later):
    options = {"client_id": "m", "client_secret": "s", "grant": Machine()}
    with oauth_site(challenge='Bearer scope="a"', refreshes=False) as site:
        with connected(site, **options) as client:
            later(LIFETIME)
            client.call_tool("a")
            client.call_tool("a")
        assert site.grants() == ["client_credentials"] * 2
        assert {form["scope"] for form in site.forms} == {"a"}
        assert site.asked == []
        site.change(refuses={"client_credentials": {"error": "invalid_client", "status": 401}})
        refused(site, "refused with invalid_client", **options)


def test_a_grant_whose_tokens_are_refused_is_told():
    with oauth_site() as site:
        site.issue = lambda scope="": {"access_token": "not-known", "token_type": "Bearer"}
        refused(
            site, "refuses the token that was just issued", client_id="m", client_secret="s", grant=Machine()
        )


# ------------------------------------------------------------------------------ secrets, and the end


def test_nothing_secret_is_in_logs_reprs_and_errors(caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    store = MemoryTokens()
    with oauth_site(registration=(201, {"client_id": "c", "client_secret": "hush-1"})) as site:
        auth = oauth(site, store=store)
        with connect(site.url, auth=auth, revision=MODERN) as client:
            client.call_tool("a")
            authorizer = client.asker.line._exchanges.auth
            shown = [repr(auth), repr(authorizer), repr(store), repr(authorizer._tokens), repr(client)]
            site.valid.clear()
            site.change(refuses={"refresh_token": {"error": "invalid_grant", "error_description": "over"}})
            site.change(redirect={"code": None, "error": "access_denied"})
            with pytest.raises(AuthorizationError) as told:
                client.call_tool("a")
        shown += [str(told.value), repr(told.value), caplog.text]
        secrets = [
            "hush-1",
            "access-",
            "refresh-",
            "code-",
            site.asked[0]["state"],
            site.forms[0]["code_verifier"],
        ]
        for secret in secrets:
            assert not [text for text in shown if secret in text and "urllib3" not in text], secret


@pytest.mark.spec("basic/authorization/index/foreign-token-not-sent")
def test_a_token_goes_to_no_other_origin():
    with oauth_site() as site, connected(site) as client:
        authorizer = client.asker.line._exchanges.auth
        assert authorizer.headers("POST", site.url)
        for url in (
            "https://evil.example/mcp",
            site.url.replace("http:", "https:"),
            "http://127.0.0.1:1/mcp",
        ):
            assert authorizer.headers("POST", url) == {}
        assert not any("authorization" in r.headers for r in site.authorization_server.requests)


def test_close_ends_the_wait_for_a_person():
    with oauth_site() as site:
        from mcp_ref.api.user_agents import Browser

        opened = threading.Event()
        auth = OAuth(user_agent=Browser(open=lambda url: opened.set()), timeout=60).authorizer(site.url)
        told = Refusal(401, None, None, {}, "127.0.0.1")
        with ThreadPoolExecutor(2) as pool:
            waits = pool.submit(auth.refused, told, within())
            assert opened.wait(PATIENCE)
            auth.stop()
            with pytest.raises(AuthorizationError, match="the client was closed"):
                waits.result(PATIENCE)
        assert auth.refused(told, within()) is False
        assert auth.headers("POST", site.url) == {}
        auth.stop()


def test_a_thread_that_is_at_it_for_ever_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(oauth_client, "MAX_FETCH_SECONDS", 0.02)
    auth = OAuth(timeout=0.05).authorizer("https://mcp.example/mcp")
    with auth._turn.lock:
        with pytest.raises(AuthorizationError, match="another thread is still at it"):
            auth.headers("POST", auth.url)
        with pytest.raises(AuthorizationError, match="another thread is still at it"):
            auth.refused(Refusal(401, None, None, {}), within())


def test_an_application_without_a_browser_is_told_what_to_write():
    with oauth_site() as site:
        from mcp_ref.api.user_agents import Browser

        none = Browser(open=lambda url: False)
        refused(site, r"no browser could be opened .* OAuth\(user_agent=PasteUrl\(\)\)", user_agent=none)
        refused(
            site, "no answer came from the browser, within 0.1 s", user_agent=Browser(open=bool), timeout=0.1
        )


def test_a_user_agent_that_fails_is_named_and_what_it_says_is_not_repeated():
    def person(url):
        raise RuntimeError("at /callback?code=secret")

    with oauth_site() as site:
        told = refused(site, "user agent failed, and nothing was granted: RuntimeError", user_agent=person)
        assert "secret" not in str(told)
        assert isinstance(told.__cause__, RuntimeError)
        refused(site, "nothing was granted: TypeError", user_agent=lambda url: None)
        assert site.forms == []


def test_a_user_agent_whose_page_is_elsewhere_in_the_clear_is_refused():
    with oauth_site() as site:

        def person(url):
            return site.person(url)

        person.redirect_uri = "http://app.example/callback"
        refused(site, "the user agent cannot be used: .*leads to localhost", user_agent=person)
    assert issubclass(AuthorizationError, Exception) and not issubclass(AuthorizationError, LocalError)


# ------------------------------------------------------------------------------ tokens bound to a key


def test_tokens_bound_to_a_key_are_sent_with_proofs_also_by_the_next_client(tmp_path):
    tokens = {"token_type": "DPoP"}
    with oauth_site(tokens=tokens, challenge="DPoP") as site:
        asked = []

        def handle(request, wire):
            if request.target != "/mcp":
                return site.mcp(request, wire)
            authorization = request.headers.get("authorization", "")
            asked.append((authorization, request.headers.get("dpop")))
            if not authorization.startswith("DPoP "):
                return wire.answer(401, b"", "WWW-Authenticate: DPoP")
            if len(asked) == 2:
                return wire.answer(
                    401, b"", 'WWW-Authenticate: DPoP error="use_dpop_nonce"', "DPoP-Nonce: n1"
                )
            request.headers["authorization"] = authorization.replace("DPoP", "Bearer")
            return site.mcp(request, wire)

        site.server._handle = handle
        for _ in range(2):
            with connected(site, dpop=True, store=FileTokens(tmp_path / "tokens")) as client:
                client.call_tool("a")
        proofs = [proof for _, proof in asked if proof]
        assert len(set(proofs)) == len(proofs) == len(asked) - 1
        assert len(site.asked) == 1
        keys = {json.dumps(jose.peek(proof)[0]["jwk"], sort_keys=True) for proof in proofs}
        assert len(keys) == 1
        assert "nonce" not in jose.peek(proofs[0])[1]
        assert jose.peek(proofs[1])[1]["nonce"] == "n1"
        refused(site, "a token of the type DPoP, and not Bearer")


def bound(site):
    """How the MCP server of a site takes tokens that are bound."""

    def handle(request, wire):
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if request.target == "/mcp" and scheme != "DPoP":
            return wire.answer(401, b"", "WWW-Authenticate: DPoP")
        request.headers["authorization"] = f"Bearer {token}"
        return site.mcp(request, wire)

    return handle


OTHER_KEYS = {
    "of another key": lambda key: {**key, "d": jose.new_key().private_jwk()["d"]},
    "cut": lambda key: {**key, "d": "AAAA"},
    "public": lambda key: {name: value for name, value in key.items() if name != "d"},
    "of another algorithm": lambda key: jose.new_key("EdDSA").private_jwk(),
    "odd": lambda key: {**key, "x": 5},
    "empty": lambda key: {},
    "no key": lambda key: "x",
}


@pytest.mark.parametrize("damage", OTHER_KEYS.values(), ids=OTHER_KEYS)
def test_a_key_in_a_store_that_is_damaged_is_lost_with_its_tokens(damage, tmp_path, caplog):
    store = FileTokens(tmp_path / "tokens")
    with oauth_site(tokens={"token_type": "DPoP"}, challenge="DPoP") as site:
        site.server._handle = bound(site)
        with connected(site, dpop=True, store=store):
            pass
        known = store.get(f"server {site.url}")
        store.set(f"server {site.url}", {**known, "dpop_key": damage(known["dpop_key"])})
        for _ in range(2):
            with connected(site, dpop=True, store=store) as client:
                assert client.call_tool("a").text == "x"
        assert len(site.asked) == 2
        assert caplog.text.count("is damaged, and begun anew: the key for DPoP (ES256)") == 1
        assert known["dpop_key"]["d"] not in caplog.text


def test_tokens_that_are_not_bound_are_refused_where_they_were_to_be():
    with oauth_site() as site:
        refused(site, "a token of the type Bearer, and not DPoP", dpop=True)


def test_an_error_for_a_while_does_not_cost_the_refresh_token():
    with oauth_site() as site, connected(site) as client:
        site.valid.clear()
        site.change(refuses={"refresh_token": {"error": "temporarily_unavailable", "status": 503}})
        with pytest.raises(AuthorizationError, match="temporarily_unavailable"):
            client.call_tool("a")
        site.change(refuses={})
        client.call_tool("a")
        assert len(site.asked) == 1


def test_tokens_of_another_process_are_adopted_after_a_401():
    store = MemoryTokens()
    with oauth_site() as site, connected(site, store=store) as client:
        client.call_tool("a")
        with connected(site, store=store) as other:
            site.valid.clear()
            other.call_tool("a")
            client.call_tool("a")
        assert site.grants() == ["authorization_code", "refresh_token"]
