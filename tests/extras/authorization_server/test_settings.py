"""extras/authorization_server/settings: what may be set, and what requests may ask for."""

import pytest

from mcp_ref.extras.authorization_server.messages import OAuthError
from mcp_ref.extras.authorization_server.settings import Settings, check_issuer

RESOURCE = "https://mcp.example.com/mcp"


def settings(issuer="https://auth.example.com", resources=(RESOURCE,), **more):
    return Settings(issuer, resources, {"read": "Read", "write": "Write"}, **more)


@pytest.mark.parametrize(
    "issuer",
    [
        "https://auth.example.com",
        "https://auth.example.com/",
        "https://auth.example.com/tenant1",
        "https://auth.example.com:8443",
        "http://localhost:9000",
        "http://127.0.0.1:9000/a",
        "http://[::1]:9000",
    ],
)
def test_an_issuer_has_https_or_is_on_this_machine(issuer):
    assert check_issuer(issuer) == issuer
    assert settings(issuer).is_secure is issuer.startswith("https")


@pytest.mark.spec("basic/authorization/security-considerations/https-endpoints")
@pytest.mark.parametrize(
    "issuer",
    [
        "http://auth.example.com",
        "https://auth.example.com?a=b",
        "https://auth.example.com#a",
        "https://user@auth.example.com",
        "https://",
        "auth.example.com",
        "ftp://auth.example.com",
    ],
)
def test_any_other_issuer_is_refused(issuer):
    with pytest.raises(ValueError):
        settings(issuer)


@pytest.mark.parametrize(
    ("issuer", "path", "token"),
    [
        ("https://auth.example.com", "", "https://auth.example.com/token"),
        ("https://auth.example.com/", "", "https://auth.example.com/token"),
        ("https://auth.example.com/a/b", "/a/b", "https://auth.example.com/a/b/token"),
    ],
)
def test_endpoints_are_below_the_path_of_the_issuer(issuer, path, token):
    made = settings(issuer)
    assert (made.path, made.endpoint("token"), made.origin) == (path, token, "https://auth.example.com")


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"resources": ()}, ValueError),
        ({"resources": ("mcp.example.com",)}, ValueError),
        ({"resources": (RESOURCE + "#a",)}, ValueError),
        ({"resources": (7,)}, TypeError),
        ({"token_seconds": 0}, ValueError),
        ({"refresh_seconds": -1}, ValueError),
        ({"registration": 1}, TypeError),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, kind):
    with pytest.raises(kind):
        settings(**wrong)


@pytest.mark.parametrize("scopes", [{"two words": "x"}, {'"': "x"}, {"": "x"}])
def test_a_scope_is_a_word(scopes):
    with pytest.raises(ValueError, match="a scope has no"):
        Settings("https://auth.example.com", (RESOURCE,), scopes)


@pytest.mark.parametrize("given", [RESOURCE, "HTTPS://MCP.Example.COM/mcp", None])
def test_a_resource_is_found_whatever_the_case_of_its_host(given):
    assert settings().resource_of(given) == RESOURCE


def test_a_slash_alone_is_no_path():
    assert settings(resources=("https://mcp.example.com",)).resource_of("https://mcp.example.com/")


@pytest.mark.parametrize(
    "given",
    ["https://other.example.com/mcp", RESOURCE + "/", RESOURCE + "#a", "https://mcp.example.com/MCP", ""],
)
def test_another_resource_is_no_target(given):
    with pytest.raises(OAuthError) as caught:
        settings().resource_of(given)
    assert caught.value.error == "invalid_target"


def test_of_several_resources_one_is_named():
    several = settings(resources=(RESOURCE, "https://other.example.com"))
    with pytest.raises(OAuthError):
        several.resource_of(None)
    assert several.resource_of("https://other.example.com") == "https://other.example.com"


@pytest.mark.spec("docs/security_best_practices/scope-subset")
def test_scopes_are_among_those_that_there_are():
    made = settings()
    assert made.scopes_of(None) == ("read", "write")
    assert made.scopes_of("write read write") == ("write", "read")
    assert made.scopes_of("read offline_access") == ("read", "offline_access")
    assert made.described(("write", "offline_access")) == [("write", "Write")]
    for wrong in ("admin", "read admin", "read  write", "READ"):
        with pytest.raises(OAuthError) as caught:
            made.scopes_of(wrong)
        assert caught.value.error == "invalid_scope"
