"""basic/authorization/client_registration: what a client says of itself, as a server takes it."""

import pytest

from mcp_ref.basic.authorization import client_registration as module
from mcp_ref.basic.authorization.client_registration import (
    BadRegistration,
    Registration,
    check_client_id_url,
    check_metadata_document,
    check_registration,
    choose_registration,
    is_client_id_url,
    metadata_document,
    read_registration,
    registration_request,
)
from mcp_ref.basic.authorization.index.error_handling import AuthorizationError

GRANTS = ("authorization_code", "refresh_token")
URL = "https://app.example.com/client.json"
CALLBACK = "https://app.example.com/callback"
LOCAL = "http://127.0.0.1:3000/callback"
KEYS = {"keys": []}


def registered(**given):
    return check_registration({"redirect_uris": [CALLBACK], **given}, grant_types=GRANTS)


def test_a_registration_with_nothing_but_a_redirect_uri_has_the_defaults_of_the_rfc():
    said = registered()
    assert said.redirect_uris == (CALLBACK,)
    assert (said.auth_method, said.grant_types) == ("client_secret_basic", ("authorization_code",))
    assert said.to_json() == {
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
    }


def test_what_a_client_says_is_kept_and_what_is_not_known_left_out():
    said = registered(
        client_name="Notes",
        grant_types=["authorization_code", "refresh_token", "password"],
        token_endpoint_auth_method="private_key_jwt",
        jwks=KEYS,
        application_type="web",
        logo_uri="https://tracker.example/pixel.png",
        anything=[1],
    )
    assert said.to_json() == {
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "private_key_jwt",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "client_name": "Notes",
        "application_type": "web",
        "jwks": KEYS,
    }
    assert not said.is_local_only
    assert registered(redirect_uris=[LOCAL]).is_local_only


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"redirect_uris": []}, "one to 10"),
        ({"redirect_uris": [f"{CALLBACK}/{n}" for n in range(11)]}, "one to 10"),
        ({"redirect_uris": ["http://app.example.com/"]}, "need https"),
        ({"redirect_uris": [CALLBACK + "#x"]}, "no fragment"),
        ({"redirect_uris": [LOCAL], "application_type": "web"}, "native"),
    ],
)
def test_redirect_uris_that_are_refused_have_their_own_error(given, said):
    with pytest.raises(BadRegistration, match=said) as caught:
        registered(**given)
    assert caught.value.error == "invalid_redirect_uri"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"redirect_uris": CALLBACK}, "list of strings"),
        ({"redirect_uris": [7]}, "list of strings"),
        ({"client_name": 7}, "client_name"),
        ({"grant_types": ["password"]}, "grant_types has none"),
        ({"grant_types": "password"}, "list of strings"),
        ({"response_types": ["token"]}, "response_types"),
        ({"token_endpoint_auth_method": "tls_client_auth"}, "one of"),
        ({"token_endpoint_auth_method": None}, "one of"),
        ({"application_type": "desktop"}, "web"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "jwks or jwks_uri"),
        (
            {
                "token_endpoint_auth_method": "private_key_jwt",
                "jwks": KEYS,
                "jwks_uri": "https://a.example/k",
            },
            "not both",
        ),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": []}, "named keys"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://a.example/keys"}, "https://"),
    ],
)
def test_other_metadata_that_is_refused(given, said):
    with pytest.raises(BadRegistration, match=said) as caught:
        registered(**given)
    assert caught.value.error == "invalid_client_metadata"


def test_metadata_is_an_object():
    with pytest.raises(BadRegistration, match="JSON object"):
        check_registration([], grant_types=GRANTS)


def test_a_client_without_the_authorization_code_needs_no_redirect_uri():
    said = check_registration({"grant_types": ["refresh_token"]}, grant_types=GRANTS)
    assert said.to_json()["response_types"] == []


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a" * 200, "a" * 80 + "..."),
        ("Notes\r\nSet-Cookie: a=b", "Notes\\r\\nSet-Cookie: a=b"),
        ("safe\u202eexe.txt", "safe\\u202eexe.txt"),
        ("  many \t spaces ", "many \\t spaces"),
    ],
)
def test_the_name_of_a_client_is_one_short_line_that_can_be_printed(name, shown):
    assert registered(client_name=name).client_name == shown


# -- client id metadata documents ------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [URL, "https://app.example.com/", "https://app.example.com:8443/a/b?c=d", "https://[2001:db8::1]/c"],
)
def test_the_url_of_a_document_has_https_a_host_and_a_path(url):
    assert is_client_id_url(url)
    assert check_client_id_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://app.example.com",
        "http://app.example.com/client.json",
        "http://127.0.0.1/client.json",
        "https://user@app.example.com/client.json",
        "https://app.example.com/client.json#part",
        "https://app.example.com/a/../client.json",
        "https://app.example.com/a/%2e%2E/client.json",
        "https://app.example.com/./client.json",
        "https://app.example.com/..",
        "https:///client.json",
        "https://app.example.com\\client.json/",
        "https://app.example.com/client json",
        "https://app.example.com/" + "a" * 2000,
        "file:///etc/passwd",
    ],
)
def test_any_other_url_is_no_client_id(url):
    with pytest.raises(BadRegistration):
        check_client_id_url(url)


def test_http_is_for_tests_on_this_machine():
    for url in ("http://127.0.0.1:8000/c", "http://[::1]:8000/c", "http://localhost/c"):
        assert check_client_id_url(url, allow_loopback=True) == url
    with pytest.raises(BadRegistration):
        check_client_id_url("http://app.example.com/c", allow_loopback=True)
    assert not is_client_id_url("a7f3")


DOCUMENT = {"client_id": URL, "client_name": "Notes", "redirect_uris": [CALLBACK]}


@pytest.mark.spec("basic/authorization/client-registration/cimd-as-structure")
def test_a_document_says_what_a_registration_says():
    said = check_metadata_document(URL, {**DOCUMENT, "grant_types": ["authorization_code", "refresh_token"]})
    assert (said.client_name, said.redirect_uris, said.auth_method) == ("Notes", (CALLBACK,), "none")
    assert said.grant_types == ("authorization_code", "refresh_token")


@pytest.mark.spec(
    "basic/authorization/client-registration/cimd-as-structure",
    "basic/authorization/client-registration/cimd-as-match",
)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([DOCUMENT], "no JSON object"),
        ({**DOCUMENT, "client_id": URL + "/"}, "is not the URL"),
        ({**DOCUMENT, "client_id": URL.upper()}, "is not the URL"),
        ({"client_name": "Notes", "redirect_uris": [CALLBACK]}, "is not the URL"),
        ({"client_id": URL}, "no client_name and no redirect_uris"),
        ({**DOCUMENT, "client_name": ""}, "no client_name"),
        ({**DOCUMENT, "redirect_uris": []}, "no redirect_uris"),
        ({**DOCUMENT, "redirect_uris": ["http://app.example.com/"]}, "need https"),
        ({**DOCUMENT, "client_secret": "secret"}, "client secret"),
        ({**DOCUMENT, "token_endpoint_auth_method": "client_secret_basic"}, "one of"),
        ({**DOCUMENT, "grant_types": ["client_credentials"]}, "grant_types"),
    ],
)
def test_a_document_that_is_not_of_its_url_or_lacks_something_is_refused(given, said):
    with pytest.raises(BadRegistration, match=said):
        check_metadata_document(URL, given)


# ---------------------------------------------------------------------------------- client half

LOCAL = "http://127.0.0.1:5/callback"


@pytest.mark.spec(
    "basic/authorization/client-registration/registration-priority",
    "basic/authorization/client-registration/static-credentials",
    "basic/authorization/client-registration/cimd-capability-checked",
    "basic/authorization/client-registration/cimd-fallback",
    "basic/authorization/client-registration/dcr-deprecated",
    "basic/authorization/index/client-id-obtained",
)
@pytest.mark.parametrize(
    ("has_id", "url", "document", "endpoint", "dynamic", "way"),
    [
        (True, URL, True, True, True, module.PRE_REGISTERED),
        (False, URL, True, True, True, module.DOCUMENT),
        (False, URL, None, True, True, module.DYNAMIC),
        (False, URL, "yes", True, True, module.DYNAMIC),
        (False, None, True, True, True, module.DYNAMIC),
        (False, URL, None, None, True, None),
        (False, None, None, True, False, None),
    ],
)
def test_a_client_takes_the_first_way_that_both_have(has_id, url, document, endpoint, dynamic, way):
    metadata = {"issuer": "https://as.example", "client_id_metadata_document_supported": document}
    metadata |= {"registration_endpoint": "https://as.example/register"} if endpoint else {}
    options = {"has_client_id": has_id, "document_url": url, "allow_dynamic": dynamic}
    if way is not None:
        assert choose_registration(metadata, **options) == way
        return
    with pytest.raises(AuthorizationError, match=r"https://as.example registers no client by itself") as told:
        choose_registration(metadata, **options)
    assert told.value.issuer == "https://as.example"


@pytest.mark.spec(
    "basic/authorization/client-registration/application-type",
    "basic/authorization/client-registration/application-type-native",
    "basic/authorization/client-registration/application-type-web",
    "basic/authorization/security-considerations/redirects-registered",
    "basic/authorization/index/refresh-grant-type",
)
@pytest.mark.parametrize(
    ("uris", "kind"),
    [
        ([LOCAL], "native"),
        ([LOCAL, "https://app.example/cb"], "native"),
        (["https://app.example/cb"], "web"),
        ([], "native"),
    ],
)
def test_a_registration_says_of_which_type_the_application_is(uris, kind):
    asked = registration_request("app", uris, "none", ("a", "b"))
    assert asked["application_type"] == kind
    assert asked["redirect_uris"] == uris
    assert asked["scope"] == "a b"
    assert asked["grant_types"] == ["authorization_code", "refresh_token"]
    assert "scope" not in registration_request("app", uris, "none")
    if uris:
        check_registration(asked, grant_types=("authorization_code", "refresh_token"))


@pytest.mark.spec(
    "basic/authorization/client-registration/cimd-properties",
    "basic/authorization/client-registration/cimd-client-id-matches",
    "basic/authorization/client-registration/cimd-url-path",
    "basic/authorization/client-registration/cimd-requirements",
)
def test_a_document_is_what_servers_take():
    document = metadata_document(URL, "app", [LOCAL], logo_uri="https://app.example/logo.png")
    assert (document["client_id"], document["client_name"]) == (URL, "app")
    assert document["logo_uri"] == "https://app.example/logo.png"
    for url in ("http://app.example/x", "https://app.example", "https://app.example/../x"):
        with pytest.raises(BadRegistration):
            metadata_document(url, "app", [LOCAL])
    with pytest.raises(BadRegistration, match="client_name"):
        metadata_document(URL, "", [LOCAL])


@pytest.mark.spec(
    "basic/authorization/client-registration/credentials-keyed-by-issuer",
    "basic/authorization/authorization-server-discovery/registration-per-as",
)
def test_a_registration_is_of_one_server_and_kept_as_json():
    said = {"client_id": "c", "client_secret": "hush", "client_secret_expires_at": 2000}
    made = read_registration(
        201, {**said, "token_endpoint_auth_method": "none"}, "https://as.example", [LOCAL]
    )
    assert made == Registration("https://as.example", "c", "hush", "none", 2000.0, (LOCAL,))
    assert "hush" not in repr(made)
    assert Registration.from_json(made.to_json()) == made
    assert made.is_good(LOCAL, 1999)
    assert not made.is_good(LOCAL, 2000)
    assert not made.is_good("http://127.0.0.1:6/callback", 1999)
    for damaged in ({}, {"issuer": "i"}, {"client_id": "c"}, {"issuer": "i", "client_id": ""}):
        assert Registration.from_json(damaged) is None


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ({"client_id": "c", "client_secret_expires_at": 5}, Registration("i", "c")),
        (
            {"client_id": "c", "client_secret": "s", "client_secret_expires_at": 0},
            Registration("i", "c", "s"),
        ),
        (
            {"client_id": "c", "client_secret": "s", "client_secret_expires_at": "x"},
            Registration("i", "c", "s"),
        ),
        ({"client_id": "c", "client_secret": 5, "token_endpoint_auth_method": 5}, Registration("i", "c")),
        ({"client_id": "c", "redirect_uris": ["https://evil.example"]}, Registration("i", "c")),
    ],
)
def test_what_makes_no_sense_in_a_registration_is_left_out(said, made):
    assert read_registration(200, said, "i", []) == made


@pytest.mark.spec(
    "basic/authorization/client-registration/registration-failure",
    "basic/authorization/client-registration/registration-failure-surfaced",
)
@pytest.mark.parametrize(
    ("status", "said", "fault"),
    [
        (
            400,
            {"error": "invalid_redirect_uri", "error_description": "a\nb"},
            r"\(invalid_redirect_uri\): a\\nb",
        ),
        (403, {}, r"with the redirect URI http://127.*/callback \(status 403\)"),
        (500, {"error": 5, "error_description": 5}, r"\(status 500\)"),
        (201, {}, "without a client_id"),
        (201, {"client_id": "a\nb"}, "without a client_id"),
    ],
)
def test_a_registration_that_failed_is_told(status, said, fault):
    with pytest.raises(AuthorizationError, match=fault) as told:
        read_registration(status, said, "https://as.example", [LOCAL])
    assert told.value.issuer == "https://as.example"
