"""What `connect` takes for a server, what it refuses before anything is started, and the line to write."""

import re
import sys
from pathlib import Path

import pytest
from peers import nothing_left

from mcp_ref import ClientOptions, LocalError, Server, connect
from mcp_ref.api.targets import PlacedEntry, place_of

USUAL = ClientOptions()


def target_of(target, options=USUAL):
    return place_of(target, None, options).target


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to be in, with a script, and one with a space in its name."""
    for name in ("server.py", "my server.py"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- what it takes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://example.org/mcp", "http://example.org/mcp"),
        ("HTTPS://example.org/mcp", "HTTPS://example.org/mcp"),
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("localhost", "http://localhost"),
        ("localhost/mcp", "http://localhost/mcp"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("127.0.1.1/mcp", "http://127.0.1.1/mcp"),
        (" [::1]:8000/mcp", "http://[::1]:8000/mcp"),
    ],
)
def test_a_url_may_lack_its_scheme_on_this_machine(text, url):
    assert target_of(text) == url


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("a-server", ["a-server"]),
        ("a-server --port 1", ["a-server", "--port", "1"]),
        ("a-server 'two words' \"a 'b'\"", ["a-server", "two words", "a 'b'"]),
        ("npx -y @scope/server", ["npx", "-y", "@scope/server"]),
        ("sh -c 'cd /srv && ./run'", ["sh", "-c", "cd /srv && ./run"]),
        ('query "select * from t"', ["query", "select * from t"]),
        ("run a\\ b\\;", ["run", "a b;"]),
        ("weather.server", ["weather.server"]),
        ("x" * 5000, ["x" * 5000]),
    ],
)
def test_a_command_may_be_text_that_no_shell_reads(text, command):
    assert target_of(text) == command


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("server.py", ["server.py"]),
        (" my server.py ", ["my server.py"]),
        ("./server.py --fast 'a b'", ["./server.py", "--fast", "a b"]),
        (Path("my server.py"), ["my server.py"]),
    ],
)
def test_a_file_of_python_code_is_run_by_this_python(target, command, folder):
    assert target_of(target) == [sys.executable, *command]


def test_a_script_is_looked_for_where_the_server_is_to_run(folder, monkeypatch):
    there = ClientOptions(cwd=folder / "sub")
    for target in ("other.py", Path("other.py")):
        assert target_of(target, there) == [sys.executable, "other.py"]
        with pytest.raises(LocalError, match=rf"no file 'other\.py' in {re.escape(str(folder))}$"):
            target_of(target)
    with pytest.raises(LocalError, match=r"no file '/nowhere/a\.py'$"):
        target_of(Path("/nowhere/a.py"))
    monkeypatch.setenv("HOME", "/home/user")
    with pytest.raises(LocalError, match=r"; write connect\(\[sys\.executable, '/home/user/a\.py'\]\)"):
        target_of("~/a.py")


@pytest.mark.parametrize(("path", "word"), [("/opt/a server", "/opt/a server"), ("run", "./run")])
def test_another_path_is_a_program_that_is_not_looked_for_elsewhere(path, word):
    assert target_of(Path(path)) == [word]


def test_lists_and_servers_are_what_they_are():
    server = Server("x")
    for target in (server, ["a-server --port 1"], ("server.py", Path("x"))):
        assert target_of(target) is target


# -- entries -----------------------------------------------------------------------------------------


def test_an_entry_of_a_command_brings_its_environment_and_its_folder():
    entry = {"type": "stdio", "command": "run", "args": ["-v", "a b"], "env": {"A": "1"}, "cwd": "/srv"}
    target, headers, options = place_of(entry, None, USUAL)
    assert (target, headers) == (["run", "-v", "a b"], None)
    assert (options.env, options.cwd) == ({"A": "1"}, "/srv")
    _, _, options = place_of(entry, None, ClientOptions(env={"A": "2", "B": "3"}, cwd="/here", name="me"))
    assert (options.env, options.cwd, options.name) == ({"A": "2", "B": "3"}, "/here", "me")
    assert place_of({"command": "run"}, None, USUAL) == (["run"], None, USUAL)


def test_an_entry_of_a_url_brings_its_headers():
    entry = {"type": "http", "url": "https://h/mcp", "headers": {"X-A": "1", "X-B": "2"}}
    assert place_of(entry, None, USUAL) == ("https://h/mcp", {"X-A": "1", "X-B": "2"}, USUAL)
    _, headers, _ = place_of(entry, {"x-a": "3"}, USUAL)
    assert headers == {"x-a": "3", "X-B": "2"}
    _, headers, _ = place_of({"url": "https://h/mcp"}, dict, USUAL)
    assert headers is dict
    with pytest.raises(TypeError, match="headers are a function here"):
        place_of(entry, dict, USUAL)


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_url_has_the_name_that_any_of_the_hosts_gives_it(key, monkeypatch):
    monkeypatch.setenv("PLACE", "h")
    entry = {key: "https://${PLACE}/mcp", "headers": {"X-A": "1"}}
    assert place_of(entry, None, USUAL) == ("https://h/mcp", {"X-A": "1"}, USUAL)
    assert target_of({"httpUrl": "http://other/", **entry, "url": "https://h/"}) == "https://h/"


def test_of_a_key_that_nobody_reads_there_is_one_warning(caplog):
    entry = {"command": "run", "arg": ["-v"], "frobnicate": 1, "//": "a remark", "_note": "another"}
    of_others = {
        "type": "stdio",
        "disabled": False,
        "timeout": 60,
        "alwaysAllow": [],
        "gallery": True,
        "trust": 1,
    }
    for _ in range(2):
        assert target_of({**entry, **of_others}) == ["run"]
        target_of(PlacedEntry({"url": "http://h/", "header": {}}, "files in mcp.json"))
    said = ", which means nothing here"
    assert [record.getMessage() for record in caplog.records] == [
        f"an entry of mcpServers has 'arg'{said}: did you mean 'args'?",
        f"an entry of mcpServers has 'frobnicate'{said}",
        f"files in mcp.json has 'header'{said}: did you mean 'headers'?",
    ]


def test_an_entry_that_knows_its_place_is_refused_with_it():
    for entry, kind, why in [
        ({"comand": "x"}, TypeError, r"has comand: did you mean command\? \(files in mcp\.json\)$"),
        ({"command": "x", "args": [1]}, TypeError, r"; write '1' \(files in mcp\.json\)$"),
        ({"url": "h/mcp"}, ValueError, r"is no URL of a server, .* \(files in mcp\.json\)$"),
    ]:
        with pytest.raises(kind, match=why):
            target_of(PlacedEntry(entry, "files in mcp.json"))


def test_variables_of_the_environment_stand_in_an_entry(monkeypatch):
    monkeypatch.setenv("KEY", "secret")
    monkeypatch.delenv("NONE", raising=False)
    entry = {
        "command": "${NONE:-run}",
        "args": ["${KEY}-${env:KEY}", "$KEY", "${NONE:-}"],
        "env": {"K": "${KEY}"},
        "cwd": "/srv/${KEY}",
    }
    target, _, options = place_of(entry, None, USUAL)
    assert target == ["run", "secret-secret", "$KEY", ""]
    assert (options.env, options.cwd) == ({"K": "secret"}, "/srv/secret")
    for text, why in [
        ("${NONE}", r"headers\[A\] has \$\{NONE\}, and there is no such"),
        ("Bearer ${input:key}", r"headers\[A\] has \$\{input:key\}, which only another program"),
    ]:
        with pytest.raises(ValueError, match=why):
            target_of({"url": "https://h/mcp", "headers": {"A": text}})


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"mcpServers": {}}, r"write connect_all\(config\), or connect\(config\['mcpServers'\]\['name'\]\)"),
        ({"servers": {}}, r"connect_all"),
        ({"context_servers": {"a": 1, "b": 2}}, r"several; write connect_all\(config\)"),
        ({"mcpServers": {"one": {"command": "x"}}}, r"; write connect\(config\['mcpServers'\]\['one'\]\)$"),
        ({"one": {"command": "x"}}, r"has it by its name; write connect\(config\['one'\]\)$"),
        ({"a": {"command": "x"}, "b": {"url": "x"}}, r"several; write .* or connect\(config\['name'\]\)$"),
        ({}, "either command or url, and this one has nothing"),
        ({"args": [], "comand": "x"}, "and this one has args, comand: did you mean command\\?$"),
        ({"uri": "http://h/"}, "and this one has uri: did you mean url\\?$"),
        ({"name": "x"}, "and this one has name$"),
        ({"command": "run", "url": "http://h/"}, "either command or url"),
        ({"command": "run", "httpUrl": "http://h/"}, "either command or url, .* has command, httpUrl$"),
        ({"command": "run", "args": "-v"}, "args is a list of strings, not '-v'"),
        ({"command": "run", "args": [1]}, "not of 1; write '1'"),
        ({"command": "run", "env": {"A": 1}}, r"env\[A\] is a string"),
        ({"command": "run", "env": ["A=1"]}, "env is a dict"),
        ({"url": "http://h/", "args": ["-v"]}, "args is for a command"),
        ({"url": "http://h/", "env": {"A": "1"}}, "env is for a command, not for a URL"),
        ({"command": "run", "headers": {"A": "1"}}, "headers is for a URL"),
        ({"url": 5}, "connect takes a URL"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_by_its_key(entry, why):
    with nothing_left(), pytest.raises(TypeError, match=why):
        connect(entry)


@pytest.mark.parametrize("url", ["ftp://h/", "h/mcp", ""])
def test_the_url_of_an_entry_is_whole(url):
    with nothing_left(), pytest.raises(ValueError, match="is no URL of a server"):
        connect({"url": url})


# -- what it refuses, with the line to write -----------------------------------------------------------


@pytest.mark.parametrize("make", [str, Path])
def test_a_file_of_a_configuration_is_refused_with_the_line_that_connects_to_its_servers(make, folder):
    (folder / "mcp.json").write_text("{}")
    with nothing_left(), pytest.raises(TypeError, match=r"JSON; write connect_all\('mcp\.json'\)$"):
        connect(make("mcp.json"))
    assert target_of("run mcp.json") == ["run", "mcp.json"]


def advised(target):
    """The target in the line that the refusal of another one tells to write."""
    with nothing_left(), pytest.raises(TypeError) as refused:
        connect(target)
    line = re.fullmatch(r"connect takes a URL, .*; write (connect\(.*\))", str(refused.value))
    assert line, refused.value
    return eval(line[1], {"connect": lambda target: target, "sys": sys})


@pytest.mark.parametrize(
    ("target", "right"),
    [
        (b"a-server -v", ["a-server", "-v"]),
        (" http://localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("http//localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("cd /srv && ./run", ["sh", "-c", "cd /srv && ./run"]),
        ("KEY=1 a-server", ["sh", "-c", "KEY=1 a-server"]),
        ("a-server $HOME", ["sh", "-c", "a-server $HOME"]),
        ('a-server "$HOME"', ["sh", "-c", 'a-server "$HOME"']),
        ("a-server *.json", ["sh", "-c", "a-server *.json"]),
        ("//localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("10.0.0.1:8000/mcp", "http://10.0.0.1:8000/mcp"),
        ("mcp.example.org:8000/mcp", "http://mcp.example.org:8000/mcp"),
        ("mcp.example.org:443/mcp", "https://mcp.example.org:443/mcp"),
        ("mcp.example.org/mcp", "https://mcp.example.org/mcp"),
        ("ws://localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("wss://example.org/mcp", "https://example.org/mcp"),
        ("file:///srv/my%20server.py", [sys.executable, "/srv/my server.py"]),
        (["http://localhost:8000/mcp"], "http://localhost:8000/mcp"),
    ],
)
def test_what_is_refused_is_refused_with_the_line_that_works(target, right):
    assert advised(target) == right


@pytest.mark.parametrize(
    ("target", "right"),
    [
        (["a-server --port 1"], ["a-server", "--port", "1"]),
        ("~/run now", [str(Path("~/run").expanduser()), "now"]),
        (["nowhere/server.py"], [sys.executable, "nowhere/server.py"]),
        ({"command": "no-such-program -v"}, ["no-such-program", "-v"]),
    ],
)
def test_a_command_that_does_not_start_is_refused_with_the_line_that_works(target, right):
    with nothing_left(), pytest.raises(LocalError) as refused:
        connect(target)
    line = re.search(r"; write (connect\(.*\))$", str(refused.value))
    assert eval(line[1], {"connect": lambda target: target, "sys": sys}) == right


@pytest.mark.parametrize("target", ["", "  ", "ftp://example.org/mcp", b"\xff"])
def test_where_no_line_is_known_to_work_none_is_advised(target):
    with nothing_left(), pytest.raises(TypeError, match="connect takes a URL") as refused:
        connect(target)
    assert "write" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "wss://me:secret@example.org/mcp",
        "me:secret@example.org:1/mcp",
        f"me:{'secret' * 50}@example.org:1/mcp",
        b"http://me:secret@example.org/mcp",
        b"http:me:secret@example.org",
        "wss://me:a secret@example.org/mcp",
        b"http://me:a secret@example.org/mcp",
    ],
)
def test_an_address_that_is_refused_does_not_repeat_a_password(text):
    with nothing_left(), pytest.raises(TypeError) as refused:
        connect(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://example.org/@a/mcp#top", "https://example.org/@a/my server/mcp"])
def test_an_at_sign_in_the_path_of_a_url_hides_nothing_of_it(url):
    with pytest.raises(ValueError, match="URL") as refused:
        connect(url)
    assert repr(url) in str(refused.value)


def test_what_has_an_at_sign_and_is_no_url_is_repeated_whole():
    with pytest.raises(TypeError) as refused:
        connect("npx -y @scope/server; exit")
    assert "'npx -y @scope/server; exit'" in str(refused.value)


def test_a_quotation_mark_that_is_not_closed_is_refused():
    with nothing_left(), pytest.raises(ValueError, match="No closing quotation; write it as a list"):
        connect("say 'it")


@pytest.mark.parametrize(
    ("target", "right"),
    [
        ("http://example.org/mcp#part", "connect('http://example.org/mcp')"),
        ("http://example.org/m cp", "connect('http://example.org/m%20cp')"),
        ("http:/example.org/mcp", "connect('http://example.org/mcp')"),
        (
            "https://me:secret@example.org:1/mcp",
            "connect('https://example.org:1/mcp', headers={'Authorization': ...})",
        ),
    ],
)
def test_a_url_that_is_refused_is_refused_with_the_line_that_works(target, right):
    with nothing_left(), pytest.raises(ValueError, match=re.escape(f"; write {right}")):
        connect(target)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("http:///mcp", "has a host"),
        ("http://", "has a host"),
        ("https:/example.org/mcp", "has a host"),
        ("http://example.org:port/mcp", "is no URL"),
        ("http://example.org:99999/mcp", "is no URL"),
        ("localhost:99999/mcp", "is no URL"),
        ("http://[::1/mcp", "is no URL"),
        ("http://example.org/m cp", "is no URL"),
        ("http://a b/mcp", "no spaces$"),
        ("http://example.org/m\ncp", "is no URL"),
        ("http://example.org/mcp#part", "no fragment"),
        ("http://example.org/mcp#", "no fragment"),
        ("https://me:secret@example.org/mcp", "Authorization"),
        ("https://me@example.org/mcp", "Authorization"),
        ("http:me:secret@a..b", r"'a\.\.b' is no URL"),
        ("http:me:secret@example.org/mcp#part", "no fragment: 'example.org/mcp#part'"),
        ("http:/me:secret@example.org/m cp", "is no URL"),
        ("http:me:secret secret@a..b", "is no URL"),
        ("http://me:secret/x@example.org/mcp", "'http://example.org/mcp' is no URL"),
        ("http://me:secret\u2100@example.org/mcp", "is no URL"),
        (f"http:me:{'secret' * 50}@a..b", "is no URL"),
        (f"http://me:{'secret' * 50}@[a", "is no URL"),
    ],
)
def test_a_url_of_no_server_is_refused_before_anything_is_sent(target, why):
    with nothing_left(), pytest.raises(ValueError, match=why) as refused:
        connect(target)
    assert "secret" not in str(refused.value)


def test_the_class_of_a_server_is_not_a_server():
    with (
        nothing_left(),
        pytest.raises(TypeError, match=r"not the class Server; write connect\(Server\('name'\)\)"),
    ):
        connect(Server)


def test_a_number_in_a_command_is_refused_with_the_text_that_works():
    with nothing_left(), pytest.raises(TypeError, match="not of 8000; write '8000'"):
        connect(["a-server", 8000])


class OfBytes:
    def __fspath__(self):
        return b"server.py"


@pytest.mark.parametrize("target", [None, 5, object(), int, OfBytes()])
def test_what_is_no_target_is_refused(target):
    with nothing_left(), pytest.raises(TypeError, match=r"a command, a \.py file or a Server"):
        connect(target)


def test_an_empty_command_is_refused():
    with nothing_left(), pytest.raises(ValueError, match="empty"):
        connect([])
