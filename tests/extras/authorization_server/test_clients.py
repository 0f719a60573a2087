"""extras/authorization_server/clients: who registers, how, and how clients show who they are."""

import base64
import json
import time
from urllib.parse import quote_plus

import pytest
import requests
from oauth_peers import REDIRECT, RESOURCE, Browser, authorization
from peers import PATIENCE
from web import web

from mcp_ref.extras.authorization_server import RegisteredClient, clients
from mcp_ref.runtime.jose import KeySet, new_key, sign

KEY = new_key("ES256")
KEYS = KeySet([KEY]).public()
SECRET = "a secret: with % and + and é"
BOTH = ("authorization_code", "refresh_token", "client_credentials")
TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture(scope="module")
def auth():
    operators = (
        RegisteredClient("with secret", (REDIRECT,), SECRET, grant_types=BOTH),
        RegisteredClient("with key", (REDIRECT,), jwks=KEYS, grant_types=BOTH),
        RegisteredClient("public", (REDIRECT,), grant_types=BOTH),
    )
    with authorization(clients=operators, allow_private=True) as running:
        yield running


def ask(auth, client_id=None, headers=None, basic=None, **form):
    given = {"grant_type": "client_credentials", "resource": RESOURCE, **form}
    if client_id is not None:
        given["client_id"] = client_id
    return auth.post("/token", given, headers=headers, auth=basic)


def error_of(response, status=401):
    assert response.status_code == status, response.text
    assert response.headers["Cache-Control"] == "no-store"
    return response.json()["error"]


# -- client authentication -------------------------------------------------------------------------


def quoted(client_id, secret):
    text = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_a_secret_in_the_header_is_encoded_as_in_a_form(auth):
    assert ask(auth, headers=quoted("with secret", SECRET)).status_code == 200
    assert ask(auth, "with secret", headers=quoted("with secret", SECRET)).status_code == 200


def test_a_secret_in_the_form(auth):
    assert ask(auth, "with secret", client_secret=SECRET).status_code == 200


@pytest.mark.parametrize(
    ("client_id", "form", "headers"),
    [
        ("with secret", {"client_secret": "wrong"}, {}),
        ("with secret", {}, {}),
        ("nobody", {"client_secret": SECRET}, {}),
        ("nobody", {}, {}),
        (None, {}, {}),
        ("public", {"client_secret": "x"}, {}),
        ("with key", {}, {}),
        ("with key", {"client_secret": "(kept as a hash)"}, {}),
        ("with secret", {"client_secret": "(kept as a hash)"}, {}),
        (None, {}, {"Authorization": "Bearer x"}),
        (None, {}, {"Authorization": "Basic !!!"}),
        (None, {}, {"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}),
        (None, {}, {"Authorization": "Basic " + base64.b64encode(b"\xff:x").decode()}),
        (None, {}, quoted("with secret", "wrong")),
        (None, {"client_assertion_type": TYPE, "client_assertion": "x.y"}, {}),
        (None, {"client_assertion_type": TYPE, "client_assertion": "e30.e30.e30"}, {}),
    ],
)
def test_a_client_that_is_not_who_it_says_is_refused(auth, client_id, form, headers):
    response = ask(auth, client_id, headers, **form)
    assert error_of(response) == "invalid_client"
    assert response.headers["WWW-Authenticate"].startswith("Basic ")
    assert SECRET not in response.text


def test_a_client_authenticates_in_one_way(auth):
    for response in (
        ask(auth, "with secret", quoted("with secret", SECRET), client_secret=SECRET),
        ask(auth, "with secret", client_secret=SECRET, client_assertion="x"),
        ask(auth, "public", quoted("with secret", SECRET)),
        ask(auth, client_assertion="x.y.z"),
        ask(auth, client_assertion_type="other", client_assertion="x.y.z"),
    ):
        assert error_of(response, 400) == "invalid_request"


def test_secrets_are_not_tried_for_ever():
    operator = RegisteredClient("c", (REDIRECT,), SECRET, grant_types=BOTH)
    with authorization(clients=[operator]) as auth:
        statuses = [ask(auth, "c", client_secret=f"guess {n}").status_code for n in range(65)]
        assert (statuses[0], statuses[-1]) == (401, 429)
        assert ask(auth, "c", client_secret=SECRET).status_code == 429


def test_a_secret_is_not_shown():
    client = RegisteredClient("c", (REDIRECT,), SECRET)
    assert SECRET not in repr(client)
    with pytest.raises(ValueError, match="others need https"):
        RegisteredClient("c", ("http://app.example.com/",))


def assertion(auth, key=KEY, algorithm="ES256", **more):
    now = int(time.time())
    claims = {
        "iss": "with key",
        "sub": "with key",
        "aud": auth.issuer,
        "jti": str(time.monotonic_ns()),
        "iat": now,
        "exp": now + 60,
        **more,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return {"client_assertion_type": TYPE, "client_assertion": sign(claims, key, algorithm=algorithm)}


def test_an_assertion_of_the_client(auth):
    assert ask(auth, **assertion(auth)).status_code == 200
    assert ask(auth, "with key", **assertion(auth, aud=[auth.at("/token")])).status_code == 200


def test_an_assertion_is_used_once(auth):
    made = assertion(auth)
    assert ask(auth, **made).status_code == 200
    assert error_of(ask(auth, **made)) == "invalid_client"


@pytest.mark.parametrize(
    "more",
    [
        {"iss": "public"},
        {"sub": "public"},
        {"sub": None},
        {"aud": "https://other.example"},
        {"aud": None},
        {"jti": None},
        {"exp": None},
        {"exp": 1000},
        {"exp": int(time.time()) + 10 * 86400},
        {"nbf": int(time.time()) + 1000},
        {"key": new_key("ES256")},
        {"key": new_key("ES384"), "algorithm": "ES384"},
    ],
)
def test_an_assertion_that_is_not_good(auth, more):
    assert error_of(ask(auth, **assertion(auth, **more))) == "invalid_client"


def test_keys_at_a_url():
    published = {"keys": KEYS["keys"]}
    with web(lambda request, wire: wire.json(published)) as site:
        operator = RegisteredClient("with key", (REDIRECT,), jwks_uri=site.url, grant_types=BOTH)
        with authorization(clients=[operator], allow_private=True) as auth:
            assert ask(auth, **assertion(auth)).status_code == 200
        with authorization(clients=[operator]) as auth:  # a private address
            assert error_of(ask(auth, **assertion(auth))) == "invalid_client"


# -- dynamic registration --------------------------------------------------------------------------


@pytest.mark.spec("basic/authorization/index/dcr-may-as", "basic/authorization/index/dcr-should-as")
def test_a_public_client_registers(auth):
    said = auth.register(scope="anything", software_id="x", application_type="native")
    assert len(said["client_id"]) >= 20
    assert "client_secret" not in said
    assert said["redirect_uris"] == [REDIRECT]
    assert said["application_type"] == "native"
    assert abs(said["client_id_issued_at"] - time.time()) < 60
    assert auth.tokens(said)["refresh_token"]


def test_a_confidential_client_registers_and_authenticates(auth):
    for method in "client_secret_basic", "client_secret_post":
        said = auth.register(token_endpoint_auth_method=method)
        assert said["client_secret_expires_at"] == 0
        answer = Browser().grant(auth.url(said))
        assert auth.redeem(said, answer).status_code == 401  # which left the code as it was
        basic = (said["client_id"], said["client_secret"])
        assert auth.redeem(said, answer, auth=basic).status_code == 200


def test_a_client_with_keys_registers(auth):
    said = auth.register(token_endpoint_auth_method="private_key_jwt", jwks=KEYS)
    answer = Browser().grant(auth.url(said))
    client_id = said["client_id"]
    made = assertion(auth, iss=client_id, sub=client_id)
    assert auth.redeem(said, answer, "client_id", **made).status_code == 200


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"redirect_uris": ["http://app.example.com/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example.com/#x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["com.example.app:/callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({}, "invalid_redirect_uri"),
        ({"redirect_uris": [REDIRECT], "application_type": "web"}, "invalid_redirect_uri"),
        ({"redirect_uris": [REDIRECT], "grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "x"}, "invalid_client_metadata"),
        ([], "invalid_client_metadata"),
    ],
)
def test_a_registration_that_is_refused(auth, metadata, error):
    response = auth.post_json("/register", metadata)
    assert (error_of(response, 400), "client_id" in response.json()) == (error, False)


def test_registrations_that_cannot_be_read(auth):
    for body, kind, status in (
        (b"{", "application/json", 400),
        (b"a=b", "application/x-www-form-urlencoded", 400),
        (json.dumps({"client_name": "x" * 70_000}).encode(), "application/json", 413),
        (b"[" * 1000 + b"]" * 1000, "application/json", 400),
    ):
        response = requests.post(auth.at("/register"), body, headers={"Content-Type": kind}, timeout=PATIENCE)
        assert response.status_code == status


def test_registrations_of_an_address_are_bounded(monkeypatch):
    monkeypatch.setattr(clients, "REGISTRATIONS_PER_ADDRESS", 3)
    with authorization() as auth:
        for _ in range(3):
            auth.register()
        response = auth.post_json("/register", {"redirect_uris": [REDIRECT]})
        assert error_of(response, 429) == "temporarily_unavailable"


def test_clients_are_bounded_and_those_without_a_user_go_first(monkeypatch):
    monkeypatch.setattr(clients, "MAX_DYNAMIC_CLIENTS", 3)
    with authorization() as auth:
        used, unused = auth.register(), auth.register()
        refresh = auth.tokens(used)["refresh_token"]
        for _ in range(2):
            auth.register()
        assert "not known" in Browser().open(auth.url(unused)).text
        assert auth.refresh(used, refresh).status_code == 200


def test_a_client_that_no_user_has_seen_is_forgotten(monkeypatch):
    monkeypatch.setattr(clients, "UNUSED_CLIENT_SECONDS", 0.0)
    with authorization() as auth:
        assert Browser().open(auth.url(auth.register())).status == 400


# -- client id metadata documents ------------------------------------------------------------------


class Document:
    """A document on a server of its own."""

    def __init__(self, *, headers=(), **more):
        self.headers, self.more = headers, more

    def __call__(self, request, wire):
        url = f"http://127.0.0.1:{wire.site.port}{request.target}"
        said = {"client_id": url, "client_name": "Notes", "redirect_uris": [REDIRECT], **self.more}
        wire.json({name: value for name, value in said.items() if value is not None}, *self.headers)


def id_at(site):
    """Another one each time: a document is remembered, and a port may come back."""
    return f"http://127.0.0.1:{site.port}/{time.monotonic_ns()}/client.json"


def page_of(auth, document, **more):
    with web(document) as site:
        return Browser().open(auth.url(id_at(site), **more))


@pytest.mark.spec(
    "basic/authorization/client-registration/cimd-as-fetch",
    "basic/authorization/index/cimd-should-as",
    "basic/authorization/security-considerations/localhost-warning",
)
def test_a_client_whose_id_is_the_url_of_its_document(auth):
    with web(Document(grant_types=["authorization_code", "refresh_token"])) as site:
        client_id = id_at(site)
        browser = Browser()
        page = browser.log_in(browser.open(auth.url(client_id)), "ada")
        assert f"Described by 127.0.0.1:{site.port}" in page.text
        assert "any program that runs here could say the same" in page.text
        tokens = auth.token(client_id, browser.allow(page))
        assert auth.refresh(client_id, tokens["refresh_token"]).status_code == 200
        assert len(site.requests) == 1  # the rest of the time from the cache


def test_a_document_with_a_redirect_uri_elsewhere_has_no_warning(auth):
    there = "https://app.example.com/callback"
    with web(Document(redirect_uris=[there, REDIRECT])) as site:
        client_id = id_at(site)
        browser = Browser()
        page = browser.log_in(browser.open(auth.url(client_id, redirect_uri=there)), "ada")
        assert "any program" not in page.text
        assert "app.example.com" in page.text


def test_a_client_of_a_document_that_signs_its_requests(auth):
    said = {"token_endpoint_auth_method": "private_key_jwt", "jwks": KEYS}
    with web(Document(**said)) as site:
        client_id = id_at(site)
        answer = Browser().grant(auth.url(client_id))
        assert auth.redeem(client_id, answer).status_code == 401
        made = assertion(auth, iss=client_id, sub=client_id)
        response = auth.redeem(client_id, answer, **made)
        assert response.status_code == 200
        assert "refresh_token" not in response.json()  # it did not ask for the grant type


@pytest.mark.spec(
    "basic/authorization/client-registration/cimd-as-match",
    "basic/authorization/client-registration/cimd-as-structure",
    "basic/authorization/client-registration/cimd-as-redirects",
)
@pytest.mark.parametrize(
    ("document", "more", "said"),
    [
        (Document(client_id="https://app.example.com/client.json"), {}, "is not the URL"),
        (Document(client_id=None), {}, "is not the URL"),
        (Document(client_name=None), {}, "no client_name"),
        (Document(redirect_uris=None), {}, "no redirect_uris"),
        (Document(redirect_uris=["http://app.example.com/"]), {}, "need https"),
        (Document(client_secret="x"), {}, "client secret"),
        (Document(token_endpoint_auth_method="client_secret_basic"), {}, "one of"),
        (Document(), {"redirect_uri": "https://evil.example/"}, "did not register"),
        (lambda request, wire: wire.answer(404), {}, "status is 404"),
        (lambda request, wire: wire.answer(200, b"<html>", "Content-Type: text/html"), {}, "not JSON"),
        (
            lambda request, wire: wire.answer(302, b"", "Location: https://evil.example/"),
            {},
            "it redirects",
        ),
    ],
)
def test_a_document_that_is_not_good_is_a_page_and_no_redirect(auth, document, more, said):
    page = page_of(auth, document, **more)
    assert (page.status, page.location) == (400, None)
    assert said in page.text


def test_a_document_that_vanishes_ends_the_client(auth):
    with web(Document(headers=["Cache-Control: no-store"])) as site:
        client_id = id_at(site)
        answer = Browser().grant(auth.url(client_id))
    assert error_of(auth.redeem(client_id, answer)) == "invalid_client"


@pytest.mark.spec("basic/authorization/security-considerations/cimd-ssrf")
@pytest.mark.parametrize(
    "client_id",
    [
        "https://127.0.0.1/client.json",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/client.json",
        "https://localhost/client.json",
        "http://127.0.0.1:1/client.json",
        "https://user:pass@127.0.0.1/client.json",
        "https://127.0.0.1/../client.json",
        "https://127.0.0.1",
    ],
)
def test_ssrf_targets_as_client_ids(client_id):
    with authorization() as auth:
        page = Browser().open(auth.url(client_id))
        assert (page.status, page.location) == (400, None)


def test_documents_may_be_switched_off():
    with authorization(metadata_documents=False, allow_private=True) as auth, web(Document()) as site:
        page = Browser().open(auth.url(id_at(site)))
        assert "not known here" in page.text
        assert site.requests == []
        assert auth.metadata()["client_id_metadata_document_supported"] is False
