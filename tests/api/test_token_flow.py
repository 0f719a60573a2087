"""api/token_flow: who asks for tokens at one authorization server, and how."""

import time
from types import SimpleNamespace

import pytest
from oauth_sites import oauth_site
from peers import nothing_left

from mcp_ref import AuthorizationError, OAuth
from mcp_ref.api import token_flow
from mcp_ref.api.discovering import Discovery
from mcp_ref.api.token_flow import Flow
from mcp_ref.basic.authorization.token_requests import TokenClient
from mcp_ref.extensions.dpop import Proofs
from mcp_ref.runtime.jose import new_key

REDIRECT = "http://127.0.0.1:1/callback"
MACHINE = {"grant_type": "client_credentials"}


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def flow_at(site, scopes=("a",), redirect_uri=REDIRECT, proofs=None, auth=None, **options):
    auth = auth or OAuth(**options)
    discovery = Discovery(auth, site.url)
    found = discovery.find(None, "127.0.0.1", None)
    owner = SimpleNamespace(oauth=auth, discovery=discovery, proofs=proofs)
    return Flow(owner, found, scopes, redirect_uri)


def test_a_flow_says_what_grants_need():
    with oauth_site() as site:
        flow = flow_at(site, client_id="c", client_secret="s")
        assert (flow.issuer, flow.resource, flow.scopes) == (site.issuer, site.url, ("a",))
        assert flow.metadata["token_endpoint"] == f"{site.issuer}/token"
        assert flow.client is flow.client
        assert (flow.client.client_id, flow.client.method) == ("c", "client_secret_basic")
        tokens = flow.request(MACHINE)
        assert (tokens.issuer, tokens.resource, tokens.requested) == (site.issuer, site.url, ("a",))
        assert flow_at(site, scopes=None).scopes == ()


@pytest.mark.spec(
    "basic/authorization/client-registration/no-credential-reuse",
    "basic/authorization/client-registration/reregister-on-change",
    "basic/authorization/authorization-server-discovery/no-credential-crossing",
)
def test_a_registration_is_kept_for_its_server_and_its_redirect_uri():
    auth = OAuth()
    with oauth_site() as site, oauth_site() as other:
        assert flow_at(site, auth=auth).client.client_id == "client-1"
        assert flow_at(site, auth=auth).client.client_id == "client-1"
        assert (
            flow_at(site, auth=auth, redirect_uri="http://127.0.0.1:2/callback").client.client_id
            == "client-2"
        )
        assert flow_at(site, auth=auth).known_client().client_id == "client-2"
        assert flow_at(other, auth=auth).client.client_id == "client-1"
        assert (len(site.registered), len(other.registered)) == (2, 1)
        auth.store.set(f"client {site.issuer}", {"client_id": "of another", "issuer": other.issuer})
        assert flow_at(site, auth=auth).known_client().client_id == "client-3"


def test_a_client_whose_secret_is_over_registers_again(monkeypatch):
    auth, now = OAuth(), time.time()
    with oauth_site() as site:
        for number, end in ((1, 1000), (2, 4000)):
            said = {"client_secret": "s", "client_secret_expires_at": now + end}
            site.change(registration=(201, {"client_id": f"c{number}", **said}))
            assert flow_at(site, auth=auth).client.client_id == f"c{number}"
            monkeypatch.setattr(token_flow.time, "time", lambda: now + 2000)


def test_a_registration_whose_secret_has_expired_already_is_not_used():
    auth = OAuth()
    said = {"client_id": "c", "client_secret": "s", "client_secret_expires_at": 1}
    with oauth_site(registration=(201, said)) as site:
        with pytest.raises(AuthorizationError, match="with a secret that has expired already"):
            _ = flow_at(site, auth=auth).client
        assert auth.store.keys() == []
        site.change(registration=(201, {**said, "client_secret_expires_at": 0}))
        assert flow_at(site, auth=auth).client.client_id == "c"


@pytest.mark.spec("basic/authorization/client-registration/cimd-portable")
def test_the_url_of_a_document_is_the_id_with_a_key_or_without():
    url = "https://app.example/client.json"
    metadata = {"client_id_metadata_document_supported": True}
    supported = {"token_endpoint_auth_methods_supported": ["private_key_jwt", "none"]}
    with oauth_site(metadata={**metadata, **supported}) as site:
        assert flow_at(site, client_metadata_url=url).client.method == "none"
        key = new_key().private_jwk()
        flow = flow_at(site, client_metadata_url=url, private_key=key)
        assert (flow.client.client_id, flow.client.method) == (url, "private_key_jwt")
        flow.request(MACHINE)
        assert site.forms[-1]["client_assertion"].count(".") == 2
        assert flow.known_client().client_id == url


def test_a_method_without_what_it_takes_is_told():
    with oauth_site() as site:
        for options in ({"auth_method": "client_secret_basic"}, {"auth_method": "private_key_jwt"}):
            with pytest.raises(AuthorizationError, match=f"authorization at {site.issuer}: "):
                flow_at(site, client_id="c", **options).request(MACHINE)


def test_errors_of_a_token_endpoint():
    with oauth_site() as site:
        flow = flow_at(site, client_id="c")
        for said, fault in (
            ({"error": "invalid_scope", "error_description": "no"}, "refused with invalid_scope: no"),
            ({"error": "server_error", "status": 500}, "refused with server_error"),
            ({"status": 500}, "answered with status 500 and no tokens"),
            ({"status": 200}, "has no access token"),
        ):
            site.change(refuses={"client_credentials": said})
            with pytest.raises(AuthorizationError, match=fault):
                flow.request(MACHINE)
        site.authorization_server._handle = lambda request, wire: wire.answer(200, b"<html>")
        with pytest.raises(AuthorizationError, match="answered with status 200 and no tokens"):
            flow.request(MACHINE)


def test_a_post_is_followed_nowhere_with_its_secrets():
    with oauth_site() as site:
        flow = flow_at(site, client_id="c")
        site.authorization_server._handle = lambda request, wire: wire.answer(307, b"", "Location: /token")
        with pytest.raises(AuthorizationError, match="answered with status 307"):
            flow.request(MACHINE)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_proof_with_the_nonce_of_the_server_is_sent_where_it_wants_one(stubborn):
    nonces = iter(["n1", "n1" if stubborn else "n2", "n3"])

    def handle(request, wire, site):
        if not request.target.startswith("/token"):
            return site.auth(request, wire)
        count = len(proofs_seen)
        proofs_seen.append(request.headers["dpop"])
        if count == 0 or stubborn:
            return wire.json({"error": "use_dpop_nonce"}, f"DPoP-Nonce: {next(nonces)}", status=400)
        return wire.json({"access_token": "t", "token_type": "DPoP"}, f"DPoP-Nonce: {next(nonces)}")

    proofs_seen = []
    with oauth_site() as site:
        proofs = Proofs()
        flow = flow_at(site, client_id="c", proofs=proofs)
        site.authorization_server._handle = lambda request, wire: handle(request, wire, site)
        if stubborn:
            with pytest.raises(AuthorizationError, match="use_dpop_nonce"):
                flow.request(MACHINE)
        else:
            assert flow.request(MACHINE).token_type == "DPoP"
            assert proofs.nonce(f"{site.issuer}/token", of_resource=False) == "n2"
        assert len(set(proofs_seen)) == 2


def test_an_assertion_is_made_anew_for_the_second_attempt():
    """An assertion is good once, and the first was perhaps looked at."""
    supported = {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}
    with oauth_site(metadata=supported) as site:
        key = new_key()
        flow = flow_at(site, client_id="c", private_key=key.private_jwk(), proofs=Proofs())
        token = site.authorization_server._handle

        def handle(request, wire):
            if request.target == "/token" and not site.forms:
                site._token(request, SimpleNamespace(json=lambda *_, **__: None), "")
                return wire.json({"error": "use_dpop_nonce"}, "DPoP-Nonce: n1", status=400)
            return token(request, wire)

        site.authorization_server._handle = handle
        flow.request(MACHINE)
        assert len({form["client_assertion"] for form in site.forms}) == 2


def test_a_server_that_the_application_has_named_is_asked_without_proof_wherever_it_is():
    """An identity provider in a company's network: the metadata of strangers names no such address."""
    with oauth_site() as site:
        flow = flow_at(site, client_id="c", client_secret="the secret", proofs=Proofs())
        discovery = Discovery(OAuth(), "https://mcp.example/mcp")
        flow._owner.discovery = discovery
        with pytest.raises(AuthorizationError, match="authorization for https:"):
            discovery.post(f"{site.issuer}/token", MACHINE, {})
        said = flow.post(f"{site.issuer}/token", MACHINE, client=TokenClient("at-idp"))
        assert said["access_token"] == "access-1"
        assert site.forms == [{**MACHINE, "client_id": "at-idp"}]
        assert "dpop" not in site.form_headers[0]
        site.change(refuses={"client_credentials": {"error": "access_denied"}})
        with pytest.raises(AuthorizationError, match="access_denied"):
            flow.post(f"{site.issuer}/token", MACHINE, client=TokenClient("at-idp"))
        discovery.stop()
        with pytest.raises(AuthorizationError, match="the client was closed"):
            flow.post(f"{site.issuer}/token", MACHINE, client=TokenClient("at-idp"))
