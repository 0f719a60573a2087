"""extras/authorization_server/server: paths, methods, hosts, origins, failures; and what a process does."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import requests
from oauth_peers import RESOURCE, SCOPES, Browser, authorization, log_in
from peers import ENV, PATIENCE, port_kept

from mcp_ref.extras.authorization_server import AuthorizationServer
from mcp_ref.runtime.jose import new_key


@pytest.fixture(scope="module")
def auth():
    with authorization() as running:
        yield running


@pytest.mark.spec("basic/authorization/index/as-own-tokens")
def test_a_verifier_knows_the_tokens_for_its_resource(auth):
    tokens = auth.tokens(scope="notes:read notes:write")
    verify = auth.server.verifier(RESOURCE)
    found = verify(tokens["access_token"])
    assert (found.subject, found.scopes) == ("ada", {"notes:read", "notes:write"})
    assert (found.issuer, found.audience, found.confirmation) == (auth.issuer, (RESOURCE,), None)
    assert found.expires_at == found.claims["exp"]
    assert found.client_id
    for wrong in ("", "x", tokens["refresh_token"], tokens["access_token"] + "x"):
        assert verify(wrong) is None
    with pytest.raises(ValueError, match="no tokens are issued for"):
        auth.server.verifier("https://other.example.com")


def test_a_verifier_of_another_resource_knows_none_of_them():
    other = "https://other.example.com"
    with authorization(resources=[RESOURCE, other]) as auth:
        token = auth.tokens()["access_token"]
        assert auth.server.verifier(RESOURCE)(token)
        assert auth.server.verifier(other)(token) is None


@pytest.mark.spec(
    "basic/authorization/index/default-uri-schema",
    "basic/authorization/index/metadata-at-root",
)
def test_a_server_of_2025_03_26_has_its_metadata_at_the_root_and_its_endpoints_at_the_default_paths(auth):
    said = requests.get(auth.at("/.well-known/oauth-authorization-server"), timeout=PATIENCE).json()
    for name, path in (
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("registration_endpoint", "/register"),
    ):
        assert said[name] == f"{auth.issuer}{path}"
        assert requests.get(said[name], timeout=PATIENCE).status_code in (400, 405)


@pytest.mark.spec("basic/authorization/index/discovery-as", "basic/authorization/index/rfc8414-as")
def test_metadata_and_keys_are_public(auth):
    response = requests.get(auth.at("/.well-known/oauth-authorization-server"), timeout=PATIENCE)
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert response.headers["Cache-Control"] == "public, max-age=60"
    assert response.json()["issuer"] == auth.issuer
    assert requests.get(response.json()["jwks_uri"], timeout=PATIENCE).json() == auth.server.jwks()
    assert requests.head(response.url, timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("path", ["/tenant1", "/a/b/", "/"])
def test_an_issuer_with_a_path_has_its_endpoints_below_it(path):
    with authorization(path) as auth:
        said = auth.metadata()
        assert said["issuer"] == auth.issuer
        assert said["token_endpoint"] == f"{auth.issuer.rstrip('/')}/token"
        assert auth.tokens()["token_type"] == "Bearer"
        origin = auth.issuer.removesuffix(path)
        other = requests.get(f"{origin}/.well-known/oauth-authorization-server", timeout=PATIENCE)
        assert other.status_code == (200 if path == "/" else 404)


def test_there_is_no_openid_provider(auth):
    for place in ("/.well-known/openid-configuration",):
        assert requests.get(auth.at(place), timeout=PATIENCE).status_code == 404


def test_an_unknown_path_and_a_wrong_method(auth):
    assert requests.get(auth.at("/nothing"), timeout=PATIENCE).status_code == 404
    response = requests.get(auth.at("/token"), timeout=PATIENCE)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert requests.options(auth.at("/authorize"), timeout=PATIENCE).status_code == 405


def test_a_request_that_is_refused_is_answered_with_the_error_code_of_oauth(auth):
    response = requests.post(auth.at("/token"), json={}, timeout=PATIENCE)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_request")


def test_scripts_of_any_origin_may_use_what_needs_no_cookie(auth):
    for path in ("/token", "/register", "/revoke", "/introspect", "/jwks"):
        response = requests.options(
            auth.at(path), headers={"Origin": "https://app.example"}, timeout=PATIENCE
        )
        assert (response.status_code, response.headers["Access-Control-Allow-Origin"]) == (204, "*")
        assert "DPoP" in response.headers["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Credentials" not in response.headers
    page = requests.get(
        auth.url(auth.register()), headers={"Origin": "https://app.example"}, timeout=PATIENCE
    )
    assert "Access-Control-Allow-Origin" not in page.headers


def test_a_name_that_was_made_to_lead_to_this_machine_is_refused(auth):
    for host, status in ("evil.example", 403), ("localhost:1", 200), ("[::1]", 200), ("", 403):
        response = requests.get(
            auth.at("/.well-known/oauth-authorization-server"), headers={"Host": host}, timeout=PATIENCE
        )
        assert response.status_code == status or (host, response.status_code) == ("", 400)


def test_any_host_may_lead_to_a_server_with_https():
    app = AuthorizationServer(
        "https://auth.example.com", users=log_in, resources=[RESOURCE], scopes=SCOPES
    ).wsgi_app()
    said = {}
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/.well-known/oauth-authorization-server",
        "HTTP_HOST": "internal:8000",
    }
    [body] = app(environ, lambda status, headers: said.update(status=status))
    assert (said["status"], json.loads(body)["issuer"]) == ("200 OK", "https://auth.example.com")


def test_a_function_that_fails_is_an_error_that_shows_nothing(caplog):
    def fails(name, password):
        raise RuntimeError(f"the database of {name}")

    with authorization(users=fails) as auth:
        browser = Browser()
        page = browser.submit(browser.open(auth.url(auth.register())), name="ada", password="secret-word")
        assert page.status == 500
        assert "database" not in page.html
        assert "secret-word" not in caplog.text
        assert "the database of ada" in caplog.text


def test_without_registration_there_is_no_endpoint_for_it():
    with authorization(registration=False) as auth:
        assert auth.post_json("/register", {}).status_code == 404


def test_the_key_may_be_given(auth):
    key = new_key()
    given = {"users": {}, "resources": [RESOURCE], "scopes": {}}
    made = AuthorizationServer("https://auth.example.com", key=key.private_jwk(), **given)
    assert made.jwks()["keys"][0]["kid"] == key.kid
    assert made.issuer == "https://auth.example.com"
    with pytest.raises(TypeError):
        AuthorizationServer("https://auth.example.com", scopes_of=7, **given)


RUN = """
from mcp_ref.extras.authorization_server import AuthorizationServer
import sys
port = int(sys.argv[1])
auth = AuthorizationServer(f"http://127.0.0.1:{port}", users={}, resources=["https://a.example"], scopes={})
auth.run(port=port, on_ready=lambda issuer: print(issuer, flush=True))
print("ended")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_serves_until_a_signal(number):
    with contextlib.ExitStack() as running:
        command = [sys.executable, "-c", RUN, str(running.enter_context(port_kept()))]
        process = running.enter_context(
            subprocess.Popen(command, env={**os.environ, **ENV}, stdout=subprocess.PIPE, text=True)
        )
        issuer = process.stdout.readline().strip()
        try:
            assert requests.get(f"{issuer}/jwks", timeout=PATIENCE).status_code == 200
        finally:
            process.send_signal(number)
        assert process.communicate(timeout=PATIENCE)[0] == "ended\n"
        assert process.returncode == 0


def test_run_in_this_process(monkeypatch):
    given = {"users": {}, "resources": [RESOURCE], "scopes": {}}
    made = AuthorizationServer("http://127.0.0.1:9000", **given)

    def ready(issuer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.run(port=0, on_ready=ready)


def test_many_users_come_at_once():
    with authorization() as auth:
        client, tokens = auth.register(), []
        together = threading.Barrier(8)

        def run():
            together.wait()
            for _ in range(5):
                tokens.append(auth.tokens(client))

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({found["access_token"] for found in tokens}) == 40
        assert len({found["refresh_token"] for found in tokens}) == 40
        verify = auth.server.verifier(RESOURCE)
        assert all(verify(found["access_token"]) for found in tokens)
