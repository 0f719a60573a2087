"""runtime/suggestions: what was meant by a target that `connect` does not take, as code that it does take."""

import sys
from pathlib import Path

import pytest

from mcp_ref.runtime.suggestions import (
    MAX_ADVICE_CHARACTERS,
    call_for,
    call_for_command,
    call_for_url,
    is_address,
    is_for_shell,
    local_url,
    nearest,
)


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    """A folder of programs, in which there is a python3 and no python; a home; no files to mistake."""
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("HOME", "/home/user")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("target", "argument"),
    [
        ("npx weather --units 'degrees C'", "['npx', 'weather', '--units', 'degrees C']"),
        (b"node server", "['node', 'server']"),
        (Path("/srv/run it"), "['/srv/run it']"),
        ("~/run now", "['/home/user/run', 'now']"),
    ],
)
def test_a_command_becomes_a_list_of_its_words(target, argument):
    assert call_for(target) == f"connect({argument})"


@pytest.mark.parametrize(
    ("target", "argument"),
    [
        ("server.py --port 1", "[sys.executable, 'server.py', '--port', '1']"),
        (Path("server.py"), "[sys.executable, 'server.py']"),
        ("server.js", "['node', 'server.js']"),
        ("server.mjs", "['node', 'server.mjs']"),
        ("file:///srv/a%20b.py", "[sys.executable, '/srv/a b.py']"),
    ],
)
def test_a_script_is_given_to_its_interpreter(target, argument):
    assert call_for(target) == f"connect({argument})"


def test_a_python_that_would_not_be_found_is_this_one():
    assert call_for("python server.py") == "connect([sys.executable, 'server.py'])"
    assert call_for("python3 server.py") == "connect(['python3', 'server.py'])"


@pytest.mark.parametrize("text", ["cd /srv && ./run", "run < questions", "DEBUG=1 run", "run *.json", "a\nb"])
def test_what_only_a_shell_understands_is_given_to_one(text):
    assert call_for(text) == f"connect({['sh', '-c', text]!r})"


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("localhost", "http://localhost"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]:80/x", "http://[::1]:80/x"),
        ("example.com/mcp", "https://example.com/mcp"),
        ("//example.com/mcp", "https://example.com/mcp"),
        ("example.com:443", "https://example.com:443"),
        ("example.com:8443/mcp", "http://example.com:8443/mcp"),
        ("ws://example.com/the mcp", "http://example.com/the%20mcp"),
        ("WSS://example.com/mcp", "https://example.com/mcp"),
        (" http://example.com/mcp", "http://example.com/mcp"),
        ("http//example.com/mcp", "http://example.com/mcp"),
        ("http:/example.com/mcp?of=http:b", "http://example.com/mcp?of=http:b"),
    ],
)
def test_an_address_becomes_a_url(target, url):
    """By TLS, unless it is this machine's own or has a port that is not TLS's."""
    assert call_for(target) == f"connect({url!r})"


def test_a_name_that_could_be_an_address_is_a_program_where_more_speaks_for_that(tmp_path):
    assert call_for("weather.server") == "connect(['weather.server'])"
    (tmp_path / "bin.d").mkdir()
    (tmp_path / "bin.d" / "run").touch()
    assert call_for("bin.d/run") == "connect(['bin.d/run'])"


@pytest.mark.parametrize(
    "target",
    ["", "   ", "say 'it", b"\xff", "ftp://example.com/", "ws://ann:secret@example.com/"],
)
def test_where_it_is_not_known_what_was_meant_there_is_no_advice(target):
    assert call_for(target) is None


def test_a_long_target_is_not_repeated():
    assert call_for("a" * (MAX_ADVICE_CHARACTERS - 4)) is not None
    assert call_for("a" * (MAX_ADVICE_CHARACTERS - 3)) is None
    assert call_for_url("http://h/" + "a" * MAX_ADVICE_CHARACTERS + "#x") is None


def test_a_space_in_the_name_of_a_server_is_not_escaped_since_that_names_no_server_either():
    assert call_for_url("http://a b/mcp") is None
    assert call_for("ws://a b/mcp") is None


@pytest.mark.parametrize(
    ("url", "call"),
    [
        ("http://h/mcp#top", "connect('http://h/mcp')"),
        ("https://h/a b#top", "connect('https://h/a%20b')"),
        ("http://ann:secret@h/mcp", "connect('http://h/mcp', headers={'Authorization': ...})"),
        ("HTTPS:/h/mcp", "connect('https://h/mcp')"),
        ("http:h:8000/mcp", "connect('http://h:8000/mcp')"),
        ("http://h/mcp\n", "connect('http://h/mcp')"),
    ],
)
def test_a_url_is_repeated_without_the_part_that_it_must_not_have(url, call):
    """And without its password: that belongs into a header."""
    assert call_for_url(url) == call


@pytest.mark.parametrize("url", ["http:///mcp", "http://h/\x1b"])
def test_a_url_that_is_none_is_not_repeated(url):
    assert call_for_url(url) is None


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        (["server.py"], "[sys.executable, 'server.py']"),
        (["./server.py", "a b"], "[sys.executable, './server.py', 'a b']"),
        (["python3 -u", "a b.py"], "['python3', '-u', 'a b.py']"),
        (["python", "server.py"], "[sys.executable, 'server.py']"),
        (["~/run"], "['/home/user/run']"),
        (["cd /srv && ./run"], "['sh', '-c', 'cd /srv && ./run']"),
    ],
)
def test_a_command_that_could_not_be_started_becomes_one_that_can(command, argument):
    assert call_for_command(command) == f"connect({argument})"


@pytest.mark.parametrize("command", [["run"], ["python3", "server.py"], ["run", "$HOME", "a b"], ["a" * 600]])
def test_of_a_command_that_is_right_as_far_as_is_known_nothing_is_advised(command):
    assert call_for_command(command) is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]/mcp", "http://[::1]/mcp"),
        ("//localhost/mcp", None),
        ("10.0.0.1:80", None),
        ("localhost.example.org:80", None),
        ("127.0.0.1.example.org:80", None),
        ("localhost run", None),
    ],
)
def test_an_address_of_this_machine_is_a_url_without_a_scheme(text, url):
    """Of another machine it is not known whether what is sent there is to be encrypted."""
    assert local_url(text) == url


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ws://h/mcp", True),
        ("http//h", True),
        ("//h/mcp", True),
        ("h.example.org/mcp", True),
        ("h:8000", True),
        ("ann:secret@h/mcp", True),
        ("run ann:secret@h", False),
        ("npx @scope/server", False),
        ("weather.server", False),
        ("run http://h/mcp", False),
    ],
)
def test_addresses_are_told_from_commands(text, address):
    assert is_address(text) is address


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("run 'a & b' \"c; d\" e\\*", False),
        ('run "$HOME"', True),
        ("run 'it''s' & true", True),
        ("A=1 run", True),
        ("run A=1", False),
        ("run `ls`", True),
    ],
)
def test_what_is_quoted_is_not_for_a_shell(text, needed):
    assert is_for_shell(text) is needed


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("arg", "args"),
        ("ARGS", "args"),
        ("serverurl", "serverUrl"),
        ("x", None),
        ("", None),
        ("y" * 9999, None),
    ],
)
def test_a_name_that_there_is_not_probably_is_one_that_is_like_it(name, meant):
    assert nearest(name, ["args", "env", "serverUrl"]) == meant
