"""mcp-ref login, logout and --auth: tokens that commands share."""

import io
import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import requests
from oauth_sites import oauth_site
from peers import MODERN, PATIENCE

from mcp_ref import AuthorizationError
from mcp_ref.cli import login
from mcp_ref.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    """The file of this test, and no terminal at which a person could be asked."""
    path = tmp_path / "place" / "tokens"
    monkeypatch.setenv("MCP_REF_TOKENS", str(path))
    return path


@pytest.fixture
def browser(monkeypatch):
    """What the person does with a URL, once there is a site: its URLs are opened in turn."""
    opened = []

    def follow(site):
        def visit(url):
            opened.append(url)
            there = site.person(url)
            thread = threading.Thread(target=lambda: requests.get(there, timeout=PATIENCE))
            thread.start()
            return True

        monkeypatch.setattr(login.webbrowser, "open", visit)
        return opened

    return follow


def said(capsys):
    got = capsys.readouterr()
    return got.out + got.err


@REVISIONS
def test_a_login_is_kept_and_serves_the_commands_that_follow(revision, tokens, browser, capsys):
    with oauth_site(revision) as site:
        opened = browser(site)
        at = ["--revision", revision, site.url]
        assert main(["ping", *at]) == 3
        assert "401" in said(capsys)
        assert main(["login", *at]) == 0
        assert f"logged in to {site.url} by {site.issuer}" in said(capsys)
        assert len(opened) == 1
        assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
        assert main(["ping", "--auth", *at]) == 0
        assert main(["ping", *at]) == 3  # without --auth nothing is sent
        assert len(opened) == 1


@REVISIONS
def test_a_logout_forgets_the_tokens_and_commands_say_to_log_in(revision, tokens, browser, capsys):
    with oauth_site(revision) as site:
        browser(site)
        at = ["--revision", revision, site.url]
        assert main(["login", *at]) == 0
        assert main(["logout", site.url]) == 0
        assert f"logged out of {site.url}" in said(capsys)
        kept = json.loads(tokens.read_text())
        assert not [key for key in kept if key.startswith(("tokens ", "login "))]
        assert main(["logout", site.url]) == 0
        assert "there was no login" in said(capsys)
        assert main(["ping", "--auth", *at]) == 4
        assert "mcp-ref login" in said(capsys)


@REVISIONS
def test_a_server_that_refuses_is_told_with_the_command_that_logs_in(revision, tokens, capsys):
    with oauth_site(revision) as site:
        for given in [], ["--header", "Authorization: Bearer xyzzy"]:
            assert main(["ping", "--revision", revision, *given, site.url]) == 3
            told = said(capsys)
            assert f"\n  to log in: mcp-ref login {site.url}; then the same command with --auth\n" in told
            assert "xyzzy" not in told


@REVISIONS
def test_a_shell_sends_the_tokens_of_a_login(revision, tokens, browser, capsys, monkeypatch):
    with oauth_site(revision) as site:
        browser(site)
        at = ["--revision", revision, site.url]
        assert main(["login", *at]) == 0
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"ping\n:revision {revision}\nping\n"))
        assert main(["shell", "--auth", *at]) == 0
        assert said(capsys).count("answered in") == 2


def test_a_second_login_is_for_another_account(tokens, browser):
    with oauth_site() as site:
        opened = browser(site)
        assert main(["login", site.url]) == 0
        assert main(["login", site.url]) == 0
        assert len(opened) == 2


def test_a_login_by_a_registered_client_is_renewed_by_that_client(tokens, browser, tmp_path, capsys):
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    with oauth_site() as site:
        opened = browser(site)
        given = ["--client-id", "mine", "--client-secret-file", str(secret), "--scope", "a", "--scope", "b"]
        assert main(["login", *given, site.url]) == 0
        assert "client_id=mine" in opened[0]
        assert "scope=a+b" in opened[0]
        assert json.loads(tokens.read_text())[f"login {site.url}"] == {
            "client_id": "mine",
            "client_secret": "s3cret",
            "scopes": ["a", "b"],
        }
        assert main(["ping", "--auth", site.url]) == 0
    assert "s3cret" not in said(capsys)


def test_a_login_that_fails_leaves_nothing_behind(tokens, monkeypatch, capsys):
    with oauth_site() as site:

        def deny(url):
            there = site.person(url)
            denied = re.sub(r"code=[^&]*", "error=access_denied", there)
            threading.Thread(target=lambda: requests.get(denied, timeout=PATIENCE)).start()

        monkeypatch.setattr(login.webbrowser, "open", deny)
        assert main(["login", site.url]) == 4
        assert "access_denied" in said(capsys)
        assert not tokens.exists() or "login" not in tokens.read_text()


def test_a_login_that_fails_leaves_the_one_before_it_as_it_was(tokens, browser, monkeypatch, capsys):
    with oauth_site() as site:
        browser(site)
        assert main(["login", site.url]) == 0
        before = json.loads(tokens.read_text())
        monkeypatch.setattr(login.webbrowser, "open", lambda url: 1 / 0)
        assert main(["login", "--client-id", "other", site.url]) != 0
        assert main(["login", "--scope", 'a"b', site.url]) == 2
        assert json.loads(tokens.read_text()) == before
        assert main(["ping", "--auth", site.url]) == 0


def test_a_logout_forgets_the_tokens_of_every_login(tokens, browser):
    with oauth_site() as site:
        browser(site)
        assert main(["login", site.url]) == 0
        first = json.loads(tokens.read_text())
        assert main(["login", "--client-id", "mine", site.url]) == 0
        second = json.loads(tokens.read_text())
        # As if the two had been done by two programs.
        tokens.write_text(json.dumps({**first, **second}))
        assert main(["logout", site.url]) == 0
        assert {key.partition(" ")[0] for key in json.loads(tokens.read_text())} <= {"client"}


def test_where_no_person_can_be_asked_the_error_says_which_scopes_are_missing():
    at, url = (
        "https://a.example/mcp",
        "https://auth.example/authorize?scope=notes%3Aread+notes%3Awrite&state=x",
    )
    with pytest.raises(
        AuthorizationError, match=f"mcp-ref login --scope notes:read --scope notes:write {at}$"
    ):
        login._refuse(at, url)
    with pytest.raises(AuthorizationError, match=f"wants a login: mcp-ref login {at}$"):
        login._refuse(at, "https://auth.example/authorize?state=x")


def test_a_server_that_asks_for_no_token_needs_no_login(tokens, capsys, open_server):
    assert main(["login", open_server]) == 0
    assert f"{open_server} answers without a login" in said(capsys)
    assert main(["ping", "--auth", open_server]) == 0


@pytest.fixture
def open_server():
    from http_peers import endpoint

    from mcp_ref import Server

    with endpoint(Server("open", version="1")) as at:
        yield f"http://127.0.0.1:{at.port}/mcp"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["login", "--", "python", "server.py"], "a login is for a server at a URL"),
        (["logout", "--", "python", "server.py"], "a login is for a server at a URL"),
        (["ping", "--auth", "--", sys.executable, "-c", "pass"], "--auth is for a server at a URL"),
        (["login", "--client-secret-file", "x", "http://127.0.0.1:9/mcp"], "goes with --client-id"),
    ],
)
def test_misuse_is_exit_code_2(arguments, says, tokens, capsys):
    assert main(arguments) == 2
    assert says in said(capsys)


def test_a_file_that_others_may_read_is_not_used(tokens, capsys):
    tokens.parent.mkdir()
    tokens.write_text("{}")
    tokens.chmod(0o644)
    assert main(["ping", "--auth", "http://127.0.0.1:9/mcp"]) == 4
    assert "other users may read" in said(capsys)


@REVISIONS
def test_on_a_machine_without_a_browser_the_person_pastes_the_last_url(revision, tokens):
    with oauth_site(revision) as site:
        command = [sys.executable, "-m", "mcp_ref", "login", "--paste", "--revision", revision, site.url]
        child = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdin and child.stdout and child.stderr
            lines = [child.stderr.readline() for _ in range(3)]
            child.stdin.write(site.person(lines[-1].strip()) + "\n")
            child.stdin.close()
            assert "logged in" in child.stdout.read()
            assert child.wait(PATIENCE) == 0
        assert tokens.is_file()


def test_without_an_answer_to_the_paste_there_is_no_login(tokens):
    with oauth_site() as site:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_ref", "login", "--paste", site.url],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 4
    assert "nothing was pasted" in done.stderr


def test_what_is_pasted_is_a_line_of_stdin(tokens, monkeypatch, capsys):
    with oauth_site() as site:

        class Person:
            """At the other end of stdin."""

            def readline(self):
                prompt = capsys.readouterr().err
                (url,) = re.findall(r"^http\S+$", prompt, re.MULTILINE)
                return site.person(url) + "\n"

        monkeypatch.setattr(sys, "stdin", Person())
        assert main(["login", "--paste", site.url]) == 0
        monkeypatch.setattr(Person, "readline", lambda self: "")
        assert main(["login", "--paste", site.url]) == 4
