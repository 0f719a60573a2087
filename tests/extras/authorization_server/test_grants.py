"""extras/authorization_server/grants: the token endpoint, revocation, introspection, over a real socket."""

import threading
import time

import pytest
from oauth_peers import REDIRECT, RESOURCE, VERIFIER, Browser, authorization
from web import web

from mcp_ref.extensions.dpop import Proofs
from mcp_ref.extensions.workload_identity import JWT_BEARER
from mcp_ref.extras.authorization_server import RegisteredClient
from mcp_ref.runtime.jose import KeySet, new_key, sign, verify

SECRET = "s" * 30
OTHER = "https://other.example.com"
IDP, IDP_KEY = "https://idp.example.com", new_key("ES256")
REMOTE_IDP = "https://remote.example.com"
ALL = ("authorization_code", "refresh_token", "client_credentials", JWT_BEARER)


@pytest.fixture(scope="module")
def auth():
    operators = (
        RegisteredClient("machine", (REDIRECT,), SECRET, grant_types=ALL),
        RegisteredClient("public", (REDIRECT,), grant_types=ALL),
        RegisteredClient("code only", (REDIRECT,), grant_types=("authorization_code",)),
    )
    with web(lambda request, wire: wire.json(KeySet([IDP_KEY]).public())) as site:
        providers = {IDP: KeySet([IDP_KEY]).public(), REMOTE_IDP: site.url}
        more = {"identity_providers": providers, "allow_private": True}
        with authorization(clients=operators, resources=[RESOURCE, OTHER], **more) as running:
            yield running


def machine(auth, path="/token", headers=None, **form):
    return auth.post(path, form, auth=("machine", SECRET), headers=headers)


def error_of(response, status=400):
    assert response.status_code == status, response.text
    assert response.headers["Cache-Control"] == "no-store"
    assert "access_token" not in response.json()
    return response.json()["error"]


def is_good(auth, token):
    said = machine(auth, "/introspect", token=token).json()
    return said["active"]


# -- codes -----------------------------------------------------------------------------------------


def test_a_code_gives_tokens_for_what_was_granted(auth):
    client = auth.register()
    response = auth.redeem(client, Browser().grant(auth.url(client)))
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Type"] == "application/json"
    said = response.json()
    assert said.keys() == {"access_token", "token_type", "expires_in", "scope", "refresh_token"}
    assert (said["token_type"], said["expires_in"], said["scope"]) == ("Bearer", 600, "notes:read")
    claims = verify(said["access_token"], KeySet.of(auth.server.jwks()), algorithms=["ES256"]).claims
    assert (claims["aud"], claims["sub"]) == (RESOURCE, "ada")


def test_a_token_is_for_the_resource_that_was_named(auth):
    client = auth.register()
    answer = Browser().grant(auth.url(client, resource=OTHER))
    claims = auth.server._tokens.find(auth.token(client, answer, resource=OTHER)["access_token"]).claims
    assert claims["aud"] == OTHER


def test_without_the_resource_the_one_of_the_code_is_meant(auth):
    client = auth.register()
    assert auth.redeem(client, Browser().grant(auth.url(client)), "resource").status_code == 200


def test_a_client_that_did_not_ask_for_refresh_tokens_gets_none(auth):
    assert "refresh_token" not in auth.tokens("code only")


def test_a_code_replayed_revokes_what_came_of_it(auth):
    client = auth.register()
    answer = Browser().grant(auth.url(client))
    tokens = auth.token(client, answer)
    assert is_good(auth, tokens["access_token"])
    assert error_of(auth.redeem(client, answer)) == "invalid_grant"
    assert not is_good(auth, tokens["access_token"])
    assert error_of(auth.refresh(client, tokens["refresh_token"])) == "invalid_grant"


def test_a_code_redeemed_by_many_at_the_same_moment_gives_one_token(auth):
    client = auth.register()
    answer, statuses = Browser().grant(auth.url(client)), []
    together = threading.Barrier(10)

    def run():
        together.wait()
        statuses.append(auth.redeem(client, answer).status_code)

    threads = [threading.Thread(target=run) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [400] * 9


@pytest.mark.parametrize(
    ("leave_out", "more", "error"),
    [
        (("code_verifier",), {}, "invalid_grant"),
        ((), {"code_verifier": "w" * 43}, "invalid_grant"),
        ((), {"code_verifier": VERIFIER + "x"}, "invalid_grant"),
        ((), {"code": "made up"}, "invalid_grant"),
        (("code",), {}, "invalid_request"),
        ((), {"redirect_uri": "http://127.0.0.1:2/callback"}, "invalid_grant"),
        ((), {"redirect_uri": REDIRECT + "/"}, "invalid_grant"),
        ((), {"resource": OTHER}, "invalid_target"),
        ((), {"resource": "https://unknown.example"}, "invalid_target"),
        ((), {"grant_type": "password"}, "unsupported_grant_type"),
        (("grant_type",), {}, "unsupported_grant_type"),
        ((), {"grant_type": "client_credentials"}, "unauthorized_client"),
    ],
)
def test_a_request_that_does_not_fit_gets_nothing(auth, leave_out, more, error):
    client = auth.register()
    answer = Browser().grant(auth.url(client))
    assert error_of(auth.redeem(client, answer, *leave_out, **more)) == error


def test_a_code_of_another_client_is_worth_nothing(auth):
    victim, thief = auth.register(), auth.register()
    answer = Browser().grant(auth.url(victim))
    assert error_of(auth.redeem(thief, answer)) == "invalid_grant"
    assert auth.redeem(victim, answer).status_code == 200


def test_a_parameter_that_occurs_twice(auth):
    body = f"grant_type=refresh_token&grant_type=client_credentials&client_id={auth.register()['client_id']}"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error_of(auth.post("/token", body, headers=headers)) == "invalid_request"


def test_huge_forms_and_other_bodies(auth):
    for path in "/token", "/revoke", "/introspect":
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert error_of(auth.post(path, "a=" + "x" * 70_000, headers=headers), 413) == "invalid_request"
        assert error_of(auth.post(path, "&".join(["a=b"] * 99), headers=headers)) == "invalid_request"
        json = {"Content-Type": "application/json"}
        assert error_of(auth.post(path, "{}", headers=json)) == "invalid_request"


# -- refresh tokens --------------------------------------------------------------------------------


@pytest.mark.spec(
    "basic/authorization/security-considerations/rotate-refresh-tokens",
    "basic/authorization/security-considerations/token-rotation",
    "basic/authorization/security-considerations/token-expiry-rotation",
)
def test_a_refresh_token_is_rotated_and_its_reuse_ends_all(auth):
    client = auth.register()
    first = auth.tokens(client)
    second = auth.refresh(client, first["refresh_token"]).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["access_token"] != first["access_token"]
    third = auth.refresh(client, second["refresh_token"]).json()
    assert is_good(auth, third["access_token"])
    assert error_of(auth.refresh(client, first["refresh_token"])) == "invalid_grant"
    assert error_of(auth.refresh(client, third["refresh_token"])) == "invalid_grant"
    assert not is_good(auth, third["access_token"])


def test_fewer_scopes_may_be_asked_for_and_more_may_not(auth):
    client = auth.register()
    tokens = auth.tokens(client, scope="notes:read notes:write")
    less = auth.refresh(client, tokens["refresh_token"], scope="notes:read").json()
    assert less["scope"] == "notes:read"
    again = auth.refresh(client, less["refresh_token"]).json()
    assert again["scope"] == "notes:read notes:write"
    narrow = auth.tokens(client)["refresh_token"]
    assert error_of(auth.refresh(client, narrow, scope="notes:write")) == "invalid_scope"
    assert error_of(auth.refresh(client, narrow, scope="admin")) == "invalid_scope"
    assert error_of(auth.refresh(client, narrow, resource=OTHER)) == "invalid_target"
    assert auth.refresh(client, narrow, resource=RESOURCE).status_code == 200  # it was not used up


def test_a_refresh_token_of_another_client_is_worth_nothing(auth):
    client, thief = auth.register(), auth.register()
    token = auth.tokens(client)["refresh_token"]
    for request in (
        auth.refresh(thief, token),
        auth.refresh(client, "made.up"),
        auth.refresh(client, ""),
        auth.refresh(client, token.partition(".")[0]),
    ):
        assert error_of(request) == "invalid_grant"


# -- client credentials, ID-JAG --------------------------------------------------------------------


def test_client_credentials(auth):
    said = machine(auth, grant_type="client_credentials", resource=RESOURCE, scope="notes:read").json()
    assert "refresh_token" not in said
    claims = auth.server._tokens.find(said["access_token"]).claims
    assert (claims["sub"], claims["client_id"], claims["scope"]) == ("machine", "machine", "notes:read")
    response = machine(auth, grant_type="client_credentials", resource=RESOURCE)
    assert response.json()["scope"] == "notes:read notes:write"


def test_client_credentials_are_for_clients_that_have_some(auth):
    form = {"grant_type": "client_credentials", "client_id": "public", "resource": RESOURCE}
    assert error_of(auth.post("/token", form)) == "unauthorized_client"
    response = machine(auth, grant_type="client_credentials", resource="https://unknown.example")
    assert error_of(response) == "invalid_target"
    assert error_of(machine(auth, grant_type="client_credentials")) == "invalid_target"  # which of two?


def id_jag(auth, key=IDP_KEY, typ="oauth-id-jag+jwt", **more):
    now = int(time.time())
    claims = {
        "iss": IDP,
        "sub": "ada",
        "aud": auth.issuer,
        "resource": RESOURCE,
        "client_id": "machine",
        "jti": str(time.monotonic_ns()),
        "iat": now,
        "exp": now + 60,
        "scope": "notes:read",
        **more,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return sign(claims, key, algorithm="ES256", header={"typ": typ})


@pytest.mark.parametrize("issuer", [IDP, REMOTE_IDP])
def test_an_id_jag_gives_a_token_for_its_user(auth, issuer):
    said = machine(auth, grant_type=JWT_BEARER, assertion=id_jag(auth, iss=issuer)).json()
    claims = auth.server._tokens.find(said["access_token"]).claims
    assert (claims["sub"], claims["aud"], claims["scope"]) == ("ada", RESOURCE, "notes:read")
    assert "refresh_token" not in said


def test_an_id_jag_is_used_once(auth):
    made = id_jag(auth)
    assert machine(auth, grant_type=JWT_BEARER, assertion=made).status_code == 200
    assert error_of(machine(auth, grant_type=JWT_BEARER, assertion=made)) == "invalid_grant"


def test_an_id_jag_without_scopes_leaves_them_to_the_server_and_the_request(auth):
    said = machine(auth, grant_type=JWT_BEARER, assertion=id_jag(auth, scope=None)).json()
    assert said["scope"] == "notes:read notes:write"
    given = {"assertion": id_jag(auth, scope=None), "scope": "notes:write", "resource": RESOURCE}
    assert machine(auth, grant_type=JWT_BEARER, **given).json()["scope"] == "notes:write"


@pytest.mark.parametrize(
    "more",
    [
        {"iss": "https://unknown.example"},
        {"aud": "https://other.example"},
        {"client_id": "public"},
        {"resource": "https://unknown.example"},
        {"jti": None},
        {"exp": 1000},
        {"typ": "JWT"},
        {"sub": "machine"},
        {"key": new_key("ES256")},
    ],
)
def test_an_id_jag_that_is_not_good(auth, more):
    assert error_of(machine(auth, grant_type=JWT_BEARER, assertion=id_jag(auth, **more))) == "invalid_grant"


def test_an_id_jag_that_does_not_fit_the_request(auth):
    assert error_of(machine(auth, grant_type=JWT_BEARER)) == "invalid_request"
    assert error_of(machine(auth, grant_type=JWT_BEARER, assertion="x")) == "invalid_grant"
    response = machine(auth, grant_type=JWT_BEARER, assertion=id_jag(auth), resource=OTHER)
    assert error_of(response) == "invalid_target"
    form = {"grant_type": JWT_BEARER, "client_id": "public", "assertion": id_jag(auth, client_id="public")}
    assert error_of(auth.post("/token", form)) == "unauthorized_client"


def test_without_an_identity_provider_there_is_no_such_grant():
    with authorization() as auth:
        assert JWT_BEARER not in auth.metadata()["grant_types_supported"]
        form = {"grant_type": JWT_BEARER, "client_id": auth.register()["client_id"], "assertion": "x"}
        assert error_of(auth.post("/token", form)) == "unsupported_grant_type"


# -- DPoP ------------------------------------------------------------------------------------------


def proof(auth, proofs, method="POST", path="/token"):
    return {"DPoP": proofs.proof(method, auth.at(path))}


def test_a_token_is_bound_to_the_key_of_the_proof_and_so_are_refresh_tokens(auth):
    proofs, other, client = Proofs(), Proofs(), auth.register()
    answer = Browser().grant(auth.url(client))
    said = auth.redeem(client, answer, headers=proof(auth, proofs)).json()
    assert said["token_type"] == "DPoP"
    assert auth.server._tokens.find(said["access_token"]).claims["cnf"] == {"jkt": proofs.thumbprint}
    assert error_of(auth.refresh(client, said["refresh_token"])) == "invalid_grant"
    wrong = auth.refresh(client, said["refresh_token"], headers=proof(auth, other))
    assert error_of(wrong) == "invalid_grant"
    again = auth.refresh(client, said["refresh_token"], headers=proof(auth, proofs)).json()
    assert again["token_type"] == "DPoP"


def test_a_client_with_credentials_may_change_its_key(auth):
    answer = Browser().grant(auth.url("machine"))
    first = auth.redeem("machine", answer, headers=proof(auth, Proofs()), auth=("machine", SECRET)).json()
    form = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    assert machine(auth, headers=proof(auth, Proofs()), **form).json()["token_type"] == "DPoP"


def test_a_proof_that_is_not_good_uses_nothing_up(auth):
    proofs, client = Proofs(), auth.register()
    answer = Browser().grant(auth.url(client))
    used = proof(auth, proofs)
    machine(auth, headers=used, grant_type="client_credentials", resource=RESOURCE)
    for headers in (
        {"DPoP": "x"},
        proof(auth, proofs, method="GET"),
        proof(auth, proofs, path="/other"),
        used,  # once more
    ):
        assert error_of(auth.redeem(client, answer, headers=headers)) == "invalid_dpop_proof"
    assert auth.redeem(client, answer, headers=proof(auth, proofs)).status_code == 200


def test_a_code_may_be_bound_to_a_key(auth):
    proofs, client = Proofs(), auth.register()
    url = auth.url(client, dpop_jkt=proofs.thumbprint)
    assert error_of(auth.redeem(client, Browser().grant(url))) == "invalid_grant"
    stolen = auth.redeem(client, Browser().grant(url), headers=proof(auth, Proofs()))
    assert error_of(stolen) == "invalid_grant"
    assert auth.redeem(client, Browser().grant(url), headers=proof(auth, proofs)).status_code == 200


# -- revocation, introspection ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_client_revokes_its_tokens(auth, kind):
    client = auth.register()
    tokens = auth.tokens(client)
    thief = auth.register()
    form = {"token": tokens[kind], "client_id": thief["client_id"]}
    assert auth.post("/revoke", form).status_code == 200  # which tells nothing
    assert is_good(auth, tokens["access_token"])
    assert auth.post("/revoke", {**form, "client_id": client["client_id"]}).status_code == 200
    assert not is_good(auth, tokens["access_token"])
    assert error_of(auth.refresh(client, tokens["refresh_token"])) == "invalid_grant"


def test_a_revocation_needs_a_client_and_a_token(auth):
    client_id = auth.register()["client_id"]
    assert error_of(auth.post("/revoke", {"client_id": client_id})) == "invalid_request"
    assert error_of(auth.post("/revoke", {"token": "x", "client_id": "nobody"}), 401) == "invalid_client"
    assert auth.post("/revoke", {"token": "x", "client_id": client_id}).status_code == 200


def test_introspection_is_for_servers_of_the_operator_and_about_own_tokens(auth):
    client = auth.register()
    token = auth.tokens(client)["access_token"]
    said = machine(auth, "/introspect", token=token).json()
    assert (said["active"], said["sub"], said["aud"], said["token_type"]) == (True, "ada", RESOURCE, "Bearer")
    assert said["iss"] == auth.issuer
    assert machine(auth, "/introspect", token="x").json() == {"active": False}
    assert machine(auth, "/introspect", token_type_hint="access_token").json() == {"active": False}
    form = {"token": token, "client_id": client["client_id"]}
    assert error_of(auth.post("/introspect", form), 401) == "invalid_client"  # a public client
    other = auth.register(token_endpoint_auth_method="client_secret_post")
    form = {"token": token, "client_id": other["client_id"], "client_secret": other["client_secret"]}
    assert auth.post("/introspect", form).json() == {"active": False}


def test_introspection_of_a_bound_token(auth):
    headers = proof(auth, Proofs())
    said = machine(auth, headers=headers, grant_type="client_credentials", resource=RESOURCE).json()
    assert machine(auth, "/introspect", token=said["access_token"]).json()["token_type"] == "DPoP"
