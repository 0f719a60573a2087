"""extras/authorization_server/metadata: the document, and where it is."""

import pytest

from mcp_ref.extras.authorization_server.metadata import metadata, metadata_path
from mcp_ref.extras.authorization_server.settings import Settings


def settings(issuer, **more):
    return Settings(issuer, ("https://mcp.example.com",), {"read": "Read"}, **more)


@pytest.mark.spec("basic/authorization/index/discovery-as", "basic/authorization/index/rfc8414-as")
@pytest.mark.parametrize(
    ("issuer", "place"),
    [
        ("https://auth.example.com", "/.well-known/oauth-authorization-server"),
        ("https://auth.example.com/", "/.well-known/oauth-authorization-server"),
        ("https://auth.example.com/tenant1", "/.well-known/oauth-authorization-server/tenant1"),
        ("https://auth.example.com/a/b/", "/.well-known/oauth-authorization-server/a/b"),
    ],
)
def test_the_place_is_that_of_the_rfc(issuer, place):
    assert metadata_path(settings(issuer)) == place
    assert metadata(settings(issuer), [])["issuer"] == issuer  # character for character


@pytest.mark.spec(
    "basic/authorization/index/default-uri-schema",
    "basic/authorization/index/metadata-at-root",
)
def test_an_issuer_without_a_path_has_the_places_of_2025_03_26():
    found = settings("https://auth.example.com")
    assert metadata_path(found) == "/.well-known/oauth-authorization-server"
    said = metadata(found, ["authorization_code"])
    assert said["authorization_endpoint"] == "https://auth.example.com/authorize"
    assert said["token_endpoint"] == "https://auth.example.com/token"
    assert said["registration_endpoint"] == "https://auth.example.com/register"


@pytest.mark.spec("basic/authorization/index/iss-advertised")
def test_the_document_says_what_the_server_does():
    said = metadata(settings("https://auth.example.com/t"), ["authorization_code", "refresh_token"])
    assert said["authorization_endpoint"] == "https://auth.example.com/t/authorize"
    assert said["registration_endpoint"] == "https://auth.example.com/t/register"
    assert said["code_challenge_methods_supported"] == ["S256"]
    assert said["response_types_supported"] == ["code"]
    assert said["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert said["authorization_response_iss_parameter_supported"] is True
    assert said["scopes_supported"] == ["read", "offline_access"]
    assert "none" in said["token_endpoint_auth_methods_supported"]
    assert "none" not in said["introspection_endpoint_auth_methods_supported"]


def test_what_is_switched_off_is_not_in_it():
    said = metadata(settings("https://a.example", registration=False, metadata_documents=False), [])
    assert "registration_endpoint" not in said
    assert said["client_id_metadata_document_supported"] is False
