"""docs/examples/auth: the demo shows every message, with a clause that there is, and no secret; server and
client run as programs of their own.
"""

import contextlib
import csv
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from peers import ENV, PATIENCE, eventually, port_kept

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs" / "examples" / "auth"
PERSON = ROOT / "tests" / "conformance" / "person.py"
LOGIN = [
    "POST /mcp, without a token",
    "401 Unauthorized",
    "GET /.well-known/oauth-protected-resource/mcp",
    "200 OK",
    "GET /.well-known/oauth-authorization-server",
    "200 OK",
    "POST /register",
    "201 Created",
    "GET /authorize",
    "200 OK",
    "POST /login",
    "303 See Other",
    "GET /consent",
    "200 OK",
    "POST /consent",
    "303 See Other",
    "POST /token",
    "200 OK",
]
USE = ["POST /mcp", "200 OK"]
STEP_UP = ["POST /mcp", "403 Forbidden", *LOGIN[8:10], *LOGIN[14:18]]


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=PLACE,
        env={**os.environ, **ENV, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def shown():
    done = run("demo.py")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def messages(text):
    """Each message of a part of the demo, without who sent it."""
    return [
        re.split(r"  +", found)[1].strip()
        for found in re.findall(r"^(?:client|browser) (?:-->|<--) .*", text, re.M)
    ]


def test_the_demo_goes_the_whole_way_for_both_users(shown):
    ada, bob = shown.split("== bob")
    assert messages(ada) == [*LOGIN, *USE * 3, *STEP_UP, *USE]
    asked = messages(bob)
    assert asked[: len(LOGIN) + 6 + len(STEP_UP)] == [*LOGIN, *USE * 3, *STEP_UP]
    assert asked[-2:] == ["POST /mcp", "403 Forbidden"]
    assert asked.count("GET /authorize") <= 4  # the client gives up
    assert 'notes: ["buy milk"]\n' in ada
    assert "ada has 2 notes\n" in ada
    assert 'notes: ["buy milk"]\n' in bob  # not those of Ada
    assert "not allowed: " in bob


def test_every_message_has_a_clause_that_there_is(shown):
    with (ROOT / "docs" / "clauses.tsv").open(encoding="utf-8", newline="") as lines:
        known = {row["id"] for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)}
    said = re.findall(r" (basic/authorization/\S+)$", shown, re.M)
    assert len(said) == len(messages(shown))
    assert set(said) <= known
    assert len(set(said)) > 15


def test_no_secret_is_shown(shown):
    assert not re.search(r"eyJ[\w-]{20}", shown)
    assert "lovelace" not in shown
    assert "builder" not in shown
    assert max(map(len, shown.splitlines())) <= 130


@pytest.fixture
def ports():
    with port_kept() as one, port_kept() as another:
        yield str(one), str(another)


def test_the_server_and_the_client_are_programs_of_their_own(ports):
    """The client opens a browser: here a program that logs in as Ada and allows what is asked."""
    server = subprocess.Popen(
        [sys.executable, "-W", "error", "notes_server.py", *ports],
        cwd=PLACE,
        env={**os.environ, **ENV},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with server:
        try:
            assert "is protected" in server.stdout.readline()
            assert eventually(lambda: all(map(listens, ports)))
            browser = f"{sys.executable} {PERSON} ada lovelace %s"
            done = run("notes_client.py", f"http://127.0.0.1:{ports[0]}/mcp", BROWSER=browser)
        finally:
            server.send_signal(signal.SIGINT)
            _, said = server.communicate(timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == 'notes: ["buy milk"]\nada has 2 notes\n'
    assert (server.returncode, said) == (0, "")


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
        return True
    return False
