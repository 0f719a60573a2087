"""api/authorization: on whose behalf a client asks."""

import pytest
from http_exchanges import within
from peers import MODERN, nothing_left
from web import opened, talking, text, web

import mcp_ref
from mcp_ref import HttpFailure, Server, connect
from mcp_ref.api.authorization import BearerToken, FileTokens, OAuth, authorizer_of
from mcp_ref.runtime.http_client.authorizing import Refusal


@pytest.fixture(autouse=True)
def clean():
    with nothing_left():
        yield


def answers(request, wire):
    wire.result(request, text("x"))


# ----------------------------------------------------------------------------- a token that is known


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.spec(
    "basic/authorization/index/bearer-header",
    "basic/authorization/index/token-every-request",
    "basic/authorization/index/no-token-in-query",
)
def test_a_token_goes_with_every_request_in_its_header(revision):
    with talking(answers, revision, session="s", auth="abc.def~=") as (site, client):
        client.call_tool("a")
        client.close()
        assert {r.headers["authorization"] for r in site.requests} == {"Bearer abc.def~="}
        assert {r.method for r in site.requests} >= (
            {"POST"} if revision == MODERN else {"POST", "GET", "DELETE"}
        )
        assert not any("abc" in r.target for r in site.requests)


def test_a_function_is_asked_for_each_request():
    tokens = iter(range(1000))
    with talking(answers, auth=lambda: f"t{next(tokens)}") as (site, client):
        client.call_tool("a")
        said = [r.headers["authorization"] for r in site.requests]
        assert said == [f"Bearer t{number}" for number in range(len(said))]


def picky(wanted):
    def handle(request, wire):
        if request.headers["authorization"] != f"Bearer {wanted()}":
            return wire.answer(401, b"", 'WWW-Authenticate: Bearer error="invalid_token"')
        return opened(answers)(request, wire)

    return handle


def test_another_token_of_the_function_is_tried_where_one_is_refused():
    good = "1"
    given = []

    def token():
        given.append(good if given else "0")
        return given[-1]

    with web(picky(lambda: good)) as site, connect(site.url, auth=token) as client:
        assert client.call_tool("a").text == "x"
    assert given[:2] == ["0", "1"]


@pytest.mark.parametrize("auth", ["0", lambda: "0"])
def test_a_token_that_is_no_good_is_not_tried_again(auth):
    with web(picky(lambda: "1")) as site:
        with pytest.raises(
            HttpFailure, match="401: it refused what the Authorization header said: an old token, perhaps"
        ) as told:
            connect(site.url, auth=auth, revision=MODERN)
        assert told.value.challenge == 'Bearer error="invalid_token"'
        assert len(site.requests) == 1


def test_no_token_is_shown():
    assert "secret" not in repr(BearerToken("secret"))
    for bad in ("secret token", "secret\n", "secr\u00e9t", "", "="):
        with pytest.raises(ValueError, match="characters that no header may") as told:
            BearerToken(bad)
        assert "secr" not in str(told.value)
    with pytest.raises(TypeError, match="a token is a string, not bytes"):
        BearerToken(lambda: b"secret").headers("POST", "http://x/")


def test_a_403_says_nothing_of_another_token():
    assert not BearerToken(lambda: "x").refused(Refusal(403, None, None, {}), within())
    assert BearerToken("x").accepted("nonce") is None


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.spec("basic/authorization/index/stdio-exempt")
@pytest.mark.parametrize("target", [["python", "server.py"], Server("x")])
def test_authorization_is_for_urls(target):
    with pytest.raises(TypeError, match="auth is for a URL, not for a command or a Server"):
        connect(target, auth="x")


def test_two_authorizations_are_one_too_many():
    with pytest.raises(TypeError, match="either auth or an Authorization header"):
        connect("http://127.0.0.1:1/", auth="x", headers={"authorization": "Bearer y"})


@pytest.mark.parametrize("auth", [5, b"x", {"token": "x"}])
def test_what_cannot_authorize_is_refused(auth):
    with pytest.raises(TypeError, match="auth is an OAuth, a token, or a function that returns one, not"):
        connect("http://127.0.0.1:1/", auth=auth)


def test_a_token_is_not_sent_in_the_clear_to_another_machine():
    with pytest.raises(ValueError, match=r"by https, or within this very machine, not to mcp\.example:80"):
        connect("http://mcp.example:80/mcp", auth="x")
    for url in ("http://localhost:1/", "http://[::1]:1/"):
        with pytest.raises(Exception, match="no connection"):
            connect(url, auth="x")


# ------------------------------------------------------------------------------- OAuth


def test_an_oauth_has_options_that_cannot_be_wrong():
    auth = OAuth(
        scopes="a b", client_id="c", client_secret="hush", private_key="hush", issuer="https://as.example"
    )
    assert auth.scopes == ("a", "b")
    assert "hush" not in repr(auth)
    assert OAuth(scopes=["a"]).scopes == ("a",)
    assert OAuth().scopes is None
    assert OAuth().store is not OAuth().store


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"client_name": 5}, TypeError, "client_name is a string"),
        ({"client_id": 5}, TypeError, "client_id is a string"),
        ({"client_secret": "s"}, ValueError, "client_secret goes with a client_id"),
        ({"issuer": "http://as.example"}, ValueError, "issuer is http, and not https"),
        ({"issuer": "as.example"}, ValueError, "issuer is no URL"),
        ({"auth_method": "tls"}, ValueError, "auth_method is one of private_key_jwt"),
        ({"client_metadata_url": "http://app.example/x"}, ValueError, "https"),
        ({"scopes": "a\u00e9"}, ValueError, "scopes are words"),
        ({"scopes": 5}, TypeError, "scopes are words"),
        ({"dpop": 1}, TypeError, "dpop is True or False"),
        ({"allow_http": "yes"}, TypeError, "allow_http is True or False"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"user_agent": 5}, TypeError, "user_agent is a Browser"),
        ({"store": {}}, TypeError, "store is a MemoryTokens or a FileTokens"),
        ({"grant": "client_credentials"}, TypeError, "grant is a Grant"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(options, error, fault):
    with pytest.raises(error, match=fault):
        OAuth(**options)


def test_an_oauth_is_for_https_but_where_it_says_otherwise():
    with pytest.raises(ValueError, match="by https, or within this very machine"):
        authorizer_of(OAuth(), "http://mcp.example/mcp")
    for auth, url in ((OAuth(allow_http=True), "http://mcp.example/mcp"), (OAuth(), "http://localhost/mcp")):
        made = authorizer_of(auth, url)
        assert repr(made) == f"<OAuthClient of {url}>"
        assert made.headers("POST", url) == {}


def test_the_names_of_authorization_are_at_the_top_of_the_package():
    assert mcp_ref.OAuth is OAuth
    assert mcp_ref.FileTokens is FileTokens
    assert mcp_ref.AuthorizationError.__doc__
