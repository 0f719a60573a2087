"""extensions/workload_identity: the platform says who a machine is."""

import pytest
from flows import Flow

from mcp_ref import AuthorizationError
from mcp_ref.basic.authorization.token_requests import BadAssertion, TokenClient
from mcp_ref.extensions.workload_identity import JWT_BEARER, WorkloadIdentity, check_workload
from mcp_ref.runtime.jose import KeySet, load_key, new_key, sign

ISSUER, PLATFORM = "https://issuer.test", "https://platform.test"
NOW = 1_800_000_000.0
KEY = new_key()
CLAIMS = {"iss": PLATFORM, "sub": "ns/notes", "aud": ISSUER, "exp": int(NOW) + 600}


@pytest.mark.spec("extensions/workload-identity/token-request")
@pytest.mark.parametrize("token", ["a.b.c", lambda: " a.b.c\n"])
def test_the_token_of_the_platform_is_the_grant(token):
    flow = Flow(TokenClient("me"))
    assert WorkloadIdentity(token).fetch(flow) == "the tokens"
    form = {
        "grant_type": JWT_BEARER,
        "assertion": "a.b.c",
        "resource": "https://server.test/mcp",
        "scope": "notes:read notes:write",
    }
    assert flow.sent == [("token endpoint", form, TokenClient("me"))]


@pytest.mark.spec("extensions/workload-identity/token-request")
def test_the_client_is_a_public_one():
    flow = Flow(TokenClient("me", method="client_secret_basic", secret="the secret"), scopes=())
    WorkloadIdentity("a.b.c").fetch(flow)
    assert flow.sent[0][2] == TokenClient("me", method="none")
    assert "scope" not in flow.sent[0][1]
    assert WorkloadIdentity("a.b.c").registers is False


@pytest.mark.spec("extensions/workload-identity/one-request")
def test_a_request_that_is_refused_is_not_sent_again():
    flow = Flow(outcome=AuthorizationError("invalid_grant"))
    with pytest.raises(AuthorizationError, match="invalid_grant"):
        WorkloadIdentity("a.b.c").fetch(flow)
    assert len(flow.sent) == 1


def test_the_token_is_read_each_time():
    tokens = iter(["first", "second"])
    grant, flow = WorkloadIdentity(lambda: next(tokens)), Flow()
    for _ in range(2):
        grant.fetch(flow)
    assert [form["assertion"] for _, form, _ in flow.sent] == ["first", "second"]


@pytest.mark.parametrize("token", ["", " \n", lambda: "", lambda: None, lambda: b"x"])
def test_without_a_token_there_is_no_request(token):
    flow = Flow()
    with pytest.raises(AuthorizationError, match="the platform's token is a text, and not empty"):
        WorkloadIdentity(token).fetch(flow)
    assert flow.sent == []


def test_the_token_is_not_in_the_repr():
    assert repr(WorkloadIdentity("a.b.c")) == "WorkloadIdentity()"


# -- server ----------------------------------------------------------------------------------------


def check(token, **other):
    given = {"platform": PLATFORM, "issuer": ISSUER, "subjects": {"ns/notes"}, "now": NOW}
    keys = KeySet.of({"keys": [KEY.public_jwk()]})
    return check_workload(token, keys, **given | other)


def assertion(key=KEY, **claims):
    return sign({**CLAIMS, **claims}, key, algorithm="ES256")


@pytest.mark.spec("extensions/workload-identity/server-checks")
def test_a_known_workload_is_accepted():
    assert check(assertion()).subject == "ns/notes"


@pytest.mark.spec("extensions/workload-identity/server-checks")
def test_wrong_key_wrong_audience_expired_and_unknown_are_refused():
    stranger = load_key({**new_key().private_jwk(), "kid": KEY.kid})
    for token, why in (
        (assertion(stranger), "signature"),
        (assertion(new_key()), "no known key"),
        (assertion(iss="https://other.test"), "another issuer"),
        (assertion(aud="https://wrong.test"), "another server"),
        (assertion(exp=NOW - 60), "expired"),
        (assertion(sub="ns/other"), "not known here"),
        ("a.b.c", "not accepted"),
    ):
        with pytest.raises(BadAssertion, match=why):
            check(token)
