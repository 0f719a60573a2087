"""extensions/client_credentials: a client that asks on its own behalf."""

import pytest
from flows import Flow

from mcp_ref import AuthorizationError
from mcp_ref.basic.authorization.token_requests import TokenClient
from mcp_ref.extensions.client_credentials import ClientCredentials
from mcp_ref.runtime.jose import new_key

BASIC = TokenClient("me", method="client_secret_basic", secret="the secret")
SIGNING = TokenClient("me", method="private_key_jwt", key=new_key())
FORM = {
    "grant_type": "client_credentials",
    "resource": "https://server.test/mcp",
    "scope": "notes:read notes:write",
}


@pytest.mark.spec("extensions/oauth-client-credentials/token-request")
@pytest.mark.parametrize(
    "client", [BASIC, SIGNING, TokenClient("me", method="client_secret_post", secret="the secret")]
)
def test_the_token_is_asked_for_in_one_request(client):
    flow = Flow(client)
    assert ClientCredentials().fetch(flow) == "the tokens"
    assert flow.sent == [("token endpoint", FORM, client)]


@pytest.mark.spec("extensions/oauth-client-credentials/token-request")
def test_without_scopes_none_are_named():
    flow = Flow(BASIC, scopes=())
    ClientCredentials().fetch(flow)
    assert set(flow.sent[0][1]) == {"grant_type", "resource"}


@pytest.mark.spec("extensions/oauth-client-credentials/authentication")
def test_a_client_without_credentials_does_not_ask():
    flow = Flow(TokenClient("me"))
    with pytest.raises(AuthorizationError, match=r"the client 'me' has none for https://issuer.test"):
        ClientCredentials().fetch(flow)
    assert flow.sent == []


@pytest.mark.spec("extensions/oauth-client-credentials/authentication")
def test_a_signature_that_the_server_does_not_take_is_not_sent():
    supported = {"token_endpoint_auth_signing_alg_values_supported": ["RS256", "PS256"]}
    flow = Flow(SIGNING, metadata=supported)
    with pytest.raises(AuthorizationError, match=r"signed with ES256: .* is one of RS256, PS256"):
        ClientCredentials().fetch(flow)
    assert flow.sent == []
    for said in (["ES256"], "?", None):
        flow = Flow(SIGNING, metadata={"token_endpoint_auth_signing_alg_values_supported": said})
        assert ClientCredentials().fetch(flow) == "the tokens"


@pytest.mark.spec("extensions/oauth-client-credentials/no-registration")
def test_a_client_never_registers_for_it():
    assert ClientCredentials().registers is False


def test_a_refusal_is_the_outcome():
    flow = Flow(BASIC, outcome=AuthorizationError("invalid_client"))
    with pytest.raises(AuthorizationError, match="invalid_client"):
        ClientCredentials().fetch(flow)
    assert len(flow.sent) == 1
