"""extensions/enterprise_managed_authorization: the company's identity provider decides."""

import pytest
from flows import Flow

from mcp_ref import AuthorizationError
from mcp_ref.basic.authorization.token_requests import BadAssertion, TokenClient
from mcp_ref.extensions import enterprise_managed_authorization as page
from mcp_ref.extensions.enterprise_managed_authorization import EnterpriseManaged, check_id_jag
from mcp_ref.runtime.jose import KeySet, new_key, sign

IDP, IDP_TOKEN = "https://idp.test", "https://idp.test/token"
ISSUER, SERVER = "https://issuer.test", "https://server.test/mcp"
CLIENT = TokenClient("me", method="client_secret_basic", secret="the secret")
ANSWER = {
    "access_token": "the.id.jag",
    "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
    "token_type": "N_A",
    "expires_in": 300,
}


def grant(**other):
    given = {"id_token": "the.id.token", "idp_token_endpoint": IDP_TOKEN, "idp_client_id": "me-at-idp"}
    return EnterpriseManaged(**given | other)


@pytest.mark.spec(
    "extensions/enterprise-managed-authorization/exchange-request",
    "extensions/enterprise-managed-authorization/access-token-request",
)
def test_what_the_sign_in_gave_is_exchanged_and_then_presented():
    flow = Flow(CLIENT, answer=ANSWER)
    assert grant().fetch(flow) == "the tokens"
    exchange = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": ISSUER,
        "resource": SERVER,
        "scope": "notes:read notes:write",
        "subject_token": "the.id.token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
    }
    token = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "the.id.jag",
        "resource": SERVER,
    }
    assert flow.sent == [
        (IDP_TOKEN, exchange, TokenClient("me-at-idp")),
        ("token endpoint", token, CLIENT),
    ]


def test_a_saml_assertion_may_be_the_subject_and_scopes_may_be_left_out():
    flow = Flow(CLIENT, answer=ANSWER, scopes=())
    grant(subject_token_type=page.SAML2, id_token=lambda: "<saml/>").fetch(flow)
    form = flow.sent[0][1]
    assert form["subject_token_type"] == "urn:ietf:params:oauth:token-type:saml2"
    assert form["subject_token"] == "<saml/>"
    assert "scope" not in form


@pytest.mark.spec("extensions/enterprise-managed-authorization/exchange-authenticated")
def test_a_client_with_a_secret_authenticates_at_the_idp():
    for method, said in (("client_secret_post", None), ("client_secret_basic", "client_secret_basic")):
        flow = Flow(CLIENT, answer=ANSWER)
        grant(idp_client_secret="idp secret", idp_auth_method=said).fetch(flow)
        assert flow.sent[0][2] == TokenClient("me-at-idp", method=method, secret="idp secret")
        assert flow.sent[1][2] == CLIENT  # neither secret goes to the other


@pytest.mark.spec("extensions/enterprise-managed-authorization/exchange-response")
@pytest.mark.parametrize(
    "wrong",
    [
        {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"},
        {"issued_token_type": None},
        {"token_type": "Bearer"},
        {"token_type": 5},
        {"access_token": ""},
        {"access_token": None},
        {"access_token": {}},
    ],
    ids=lambda wrong: "-".join(map(str, next(iter(wrong.items())))),
)
def test_an_answer_without_an_id_jag_ends_it(wrong):
    flow = Flow(CLIENT, answer={**ANSWER, **wrong})
    with pytest.raises(AuthorizationError, match=f"{next(iter(wrong))}") as problem:
        grant().fetch(flow)
    assert "the.id" not in str(problem.value)
    assert len(flow.sent) == 1


def test_a_refusal_of_the_idp_ends_it():
    flow = Flow(CLIENT, answer=AuthorizationError("invalid_grant"))
    with pytest.raises(AuthorizationError, match="invalid_grant"):
        grant().fetch(flow)
    assert len(flow.sent) == 1


@pytest.mark.parametrize("token", ["", lambda: None])
def test_without_a_sign_in_there_is_no_request(token):
    flow = Flow(CLIENT, answer=ANSWER)
    with pytest.raises(AuthorizationError, match="the ID token is a text"):
        grant(id_token=token).fetch(flow)
    assert flow.sent == []


def test_nothing_secret_is_in_the_repr():
    said = repr(grant(idp_client_secret="idp secret"))
    assert "idp secret" not in said
    assert "the.id.token" not in said
    assert grant().registers is True


# -- server ----------------------------------------------------------------------------------------

NOW = 1_800_000_000.0
KEY = new_key()
CLAIMS = {
    "jti": "9e43f81b64a33f20116179",
    "iss": IDP,
    "sub": "U019488227",
    "aud": ISSUER,
    "resource": SERVER,
    "client_id": "me",
    "exp": int(NOW) + 300,
    "iat": int(NOW),
    "scope": "notes:read notes:write",
}


def id_jag(key=KEY, typ="oauth-id-jag+jwt", **claims):
    whole = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return sign(whole, key, algorithm="ES256", header={"typ": typ})


def check(token, **other):
    given = {"idp": IDP, "issuer": ISSUER, "client_id": "me", "resources": [SERVER], "now": NOW}
    return check_id_jag(token, KeySet.of({"keys": [KEY.public_jwk()]}), **given | other)


def refused(token, **other):
    with pytest.raises(BadAssertion) as problem:
        check(token, **other)
    assert CLAIMS["sub"] not in str(problem.value)
    return str(problem.value)


@pytest.mark.spec(
    "extensions/enterprise-managed-authorization/typ",
    "extensions/enterprise-managed-authorization/aud",
    "extensions/enterprise-managed-authorization/client-id",
)
def test_an_id_jag_for_this_server_and_client_is_accepted():
    found = check(id_jag())
    assert (found.subject, found.resource, found.jti) == ("U019488227", SERVER, CLAIMS["jti"])
    assert (found.scopes, found.ends) == ({"notes:read", "notes:write"}, NOW + 300)
    assert found.claims == CLAIMS
    assert check(id_jag(scope=None)).scopes is None
    assert check(id_jag(scope="")).scopes == frozenset()


@pytest.mark.spec("extensions/enterprise-managed-authorization/typ")
@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "", "id_token+jwt"])
def test_another_token_of_the_idp_is_no_id_jag(typ):
    assert "oauth-id-jag+jwt" in refused(id_jag(typ=typ))


@pytest.mark.spec("extensions/enterprise-managed-authorization/aud")
def test_wrong_audience_is_refused():
    for aud in ("https://other.test", f"{ISSUER}/", SERVER, None, []):
        assert "another server" in refused(id_jag(aud=aud))


@pytest.mark.spec("extensions/enterprise-managed-authorization/client-id")
def test_an_id_jag_of_another_client_is_refused():
    for client_id in ("you", None, "", ["me"]):
        assert "another client" in refused(id_jag(client_id=client_id))


def test_wrong_key_another_idp_and_expired_are_refused():
    assert "no known key" in refused(id_jag(new_key()))
    assert "another issuer" in refused(id_jag(iss="https://other.test"))
    assert "expired" in refused(id_jag(exp=NOW - 31))


def test_another_resource_is_refused():
    for resource in ("https://other.test/mcp", None, [SERVER], ISSUER):
        assert "not known here" in refused(id_jag(resource=resource))


def test_what_the_page_requires_is_required():
    assert "jti" in refused(id_jag(jti=None))
    for iat in (None, "1", True):
        assert "iat" in refused(id_jag(iat=iat))
    for scope in (["notes:read"], 5, {}):
        assert "scope" in refused(id_jag(scope=scope))
