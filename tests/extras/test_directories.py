"""server/resources, "file://": directories of real files as resources."""

import base64
import errno
import os
import re
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, RawClient, nothing_left

from mcp_ref import Change, Server, connect
from mcp_ref.basic.index.error_responses import ErrorResponse, InternalError
from mcp_ref.extras import directories, files
from mcp_ref.extras.directories import Directory, mime_type_of, text_of
from mcp_ref.extras.files import MAX_DEPTH
from mcp_ref.schema import Mismatch, checker
from mcp_ref.server.resources import RegisteredResource, Resource, ResourceNotFound

PREFIX = "docs://handbook/"
SOON = 0.005
PNG = b"\x89PNG\r\n\x1a\n\0"


class Listening:
    """What a directory needs of a server: it notes what it is told, and wakes whoever waits for that."""

    def __init__(self):
        self.resources = self
        self.items = {}
        self.said = []
        self.news = threading.Condition()

    def get(self, uri):
        return self.items.get(uri)

    def change(self, added, removed):
        added = {item.definition["uri"]: item for item in added}
        if added or removed:
            self._note("listed", *added, *(f"not {uri}" for uri in removed))
        self.items = {uri: item for uri, item in self.items.items() if uri not in removed} | added

    def resource_updated(self, uri):
        self._note("updated", uri)

    def _note(self, *said):
        with self.news:
            self.said.append(said)
            self.news.notify_all()

    def wait_for(self, *said):
        with self.news:
            assert self.news.wait_for(lambda: said in self.said, PATIENCE), f"{said} not in {self.said}"

    def wait_until_listed(self, uri):
        """Also where another file was listed anew with it: one that was caught half written."""
        with self.news:
            assert self.news.wait_for(
                lambda: any(kind == "listed" and uri in uris for kind, *uris in self.said), PATIENCE
            ), f"{uri} is not in {self.said}"

    def heard(self):
        """What was said since this was last asked."""
        said, self.said = self.said, []
        return said


@pytest.fixture
def root(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    return inside


def write(root, *paths, text="x"):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def handbook(root, **options):
    return Directory(root, uri=PREFIX, **options)


def read(directory, uri):
    """The one content of a file."""
    found = directory.find(uri)
    assert found is not None, f"{uri} is not found"
    (contents,) = found.read(None)
    return contents


def look(directory, server):
    """Refresh, however recent the last look was."""
    directory._next_scan = 0.0
    directory.refresh(server)
    return server.heard()


def listed(directory):
    server = Listening()
    directory.refresh(server)
    return [resource.definition["name"] for resource in server.items.values()]


# ------------------------------------------------------------------------------- one file


def test_a_file_is_a_resource_with_a_name_a_type_a_size_and_a_time(root):
    write(root, "a/b c.md", text="# Hä?")
    os.utime(root / "a/b c.md", (0, 1_786_000_000.75))
    found = handbook(root).find(PREFIX + "a/b%20c.md")
    assert isinstance(found, RegisteredResource)
    assert found.definition == {
        "uri": PREFIX + "a/b%20c.md",
        "name": "a/b c.md",
        "mimeType": "text/markdown",
        "size": 6,
        "annotations": {"lastModified": "2026-08-06T07:06:40Z"},
    }
    checker(Resource, MODERN)(found.definition)
    assert found.read(None) == [{"uri": PREFIX + "a/b%20c.md", "mimeType": "text/markdown", "text": "# Hä?"}]
    assert found.hints is None


def test_without_a_prefix_uris_are_those_of_the_real_paths(root):
    write(root, "a b/ü@%.txt")
    (root.parent / "by another name").symlink_to(root)
    directory = Directory(root.parent / "by another name")
    uri = (root.resolve() / "a b/ü@%.txt").as_uri()
    assert directory.find(uri).definition["uri"] == uri
    assert listed(directory) == ["a b/ü@%.txt"]
    assert directory.find((root.parent / "by another name/a b/ü@%.txt").as_uri()) is None


def test_the_root_of_all_is_a_directory_too():
    assert Directory("/").prefix == "file:///"


def test_what_an_author_says_of_a_directory_is_said_of_its_files(root):
    write(root, "a")
    options = {"annotations": {"priority": 0.5, "audience": ["user"]}, "name": "book", "ttl_ms": 1000}
    found = handbook(root, **options, cache_scope="public").find(PREFIX + "a")
    assert found.definition["name"] == "book/a"
    assert found.definition["annotations"].keys() == {"priority", "audience", "lastModified"}
    assert found.hints == {"ttlMs": 1000, "cacheScope": "public"}
    assert handbook(root, ttl_ms=5).find(PREFIX + "a").hints == {"ttlMs": 5, "cacheScope": "private"}
    assert handbook(root, cache_scope="public").find(PREFIX + "a").hints["ttlMs"] == 0


@pytest.mark.spec("server/resources/annotation-values")
@pytest.mark.parametrize(
    ("seconds", "annotations"),
    [
        (0, {"lastModified": "1970-01-01T00:00:00Z"}),
        (-1.5, {"lastModified": "1969-12-31T23:59:58Z"}),
        (10**12, {}),
        (-(10**12), {}),
    ],
)
def test_a_time_that_cannot_be_written_is_left_out(root, monkeypatch, seconds, annotations):
    write(root, "a")
    odd = SimpleNamespace(st_size=1, st_ino=1, st_mtime_ns=int(seconds * 10**9))
    monkeypatch.setattr(files.Tree, "status", lambda tree, parts: odd)
    assert handbook(root).find(PREFIX + "a").definition.get("annotations", {}) == annotations


# ------------------------------------------------------------------------------ what it is


@pytest.mark.spec("server/resources/contents-text-or-blob", "server/resources/binary-encoded")
@pytest.mark.parametrize(
    ("name", "data", "mime_type", "is_text"),
    [
        ("a.txt", "grün".encode(), "text/plain", True),
        ("a.txt", b"", "text/plain", True),
        ("a.txt", b"gr\xfcn", "text/plain", False),
        ("a.txt", b"a\0b", "text/plain", False),
        ("a.json", b"{}", "application/json", True),
        ("a.svg", b"<svg/>", "image/svg+xml", True),
        ("a.rs", b"fn main() {}", "text/x-rust", True),
        ("A.TS", b"let a", "text/typescript", True),
        ("a.png", PNG, "image/png", False),
        ("a.png", b"no picture", "image/png", False),
        ("a.pdf", b"%PDF", "application/pdf", False),
        ("a.tar.gz", b"\x1f\x8b", "application/gzip", False),
        ("a.txt.Z", b"\x1f\x9d", "application/octet-stream", False),
        ("Makefile", b"all:", "text/plain", True),
        ("data", PNG, "application/octet-stream", False),
        ("data:text,x", PNG, "application/octet-stream", False),
        ("http:a.png", PNG, "image/png", False),
    ],
)
def test_a_file_is_text_or_a_blob(root, name, data, mime_type, is_text):
    (root / name).write_bytes(data)
    contents = read(handbook(root), PREFIX + quote(name, safe=""))
    assert contents["mimeType"] == mime_type
    assert ("text" in contents) is is_text
    assert ("blob" in contents) is not is_text
    if is_text:
        assert contents["text"].encode() == data
    else:
        assert base64.b64decode(contents["blob"], validate=True) == data


def test_a_type_that_the_name_does_not_tell_is_not_in_the_list(root):
    write(root, "Makefile")
    assert "mimeType" not in handbook(root).find(PREFIX + "Makefile").definition


@given(st.text(max_size=20), st.binary(max_size=20))
@example("[", b"")
@example("//[", b"\xff")
def test_every_name_and_every_content_is_text_or_a_blob(name, data):
    mime_type = mime_type_of(name.replace("/", "").replace("\0", "") or "a")
    text = text_of(data, mime_type)
    assert text is None or text.encode() == data


@pytest.mark.spec("schema/size-raw-bytes")
def test_the_size_is_that_of_the_bytes(root):
    (root / "a.png").write_bytes(PNG)
    assert handbook(root).find(PREFIX + "a.png").definition["size"] == len(PNG)


# ----------------------------------------------------------------------------- which file

BAD = [
    "",
    "..",
    ".",
    "../secret",
    "a/../../secret",
    "a/../b",
    "./a",
    "a/./b",
    "%2e%2e/secret",
    "%2E%2E/secret",
    "%2e%2e%2fsecret",
    "..%2fsecret",
    "..%5csecret",
    "..\\secret",
    "%252e%252e/secret",
    "a%2fb",
    "a//b",
    "/a",
    "//etc/passwd",
    "/etc/passwd",
    "a/",
    "a/b/",
    "a%00",
    "%00",
    "a\0",
    "a\\b",
    "a%5Cb",
    "b?",
    "b?x=1",
    "b#",
    "b#x",
    "%62",
    "b%",
    "b%2",
    "b%zz",
    "b ",
    "ü",
    "\udcff",
    "%C3%BC",
    "%c3%bc",
    "a",
    "none",
    "file:///etc/passwd",
    "a/" * 5000 + "b",
    "x" * 1_000_000,
    "a/" * 500_000,
]


@pytest.mark.spec("server/resources/sanitize-file-paths", "server/resources/validate-uris")
@pytest.mark.parametrize("path", BAD, ids=lambda path: ascii(path)[:30])
def test_a_uri_that_is_not_a_files_own_leads_nowhere(root, path):
    write(root, "b", "a/b")
    for directory in (handbook(root), Directory(root)):
        assert directory.find(directory.prefix + path) is None


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "docs:",
        "docs://handbook",
        "docs://other/b",
        "docs://handbook.evil/b",
        "docs://user@handbook/b",
        "docs://handbook:80/b",
        "DOCS://handbook/b",
        "docs://HANDBOOK/b",
        "docs:/handbook/b",
        "docs://handbook//b",
        "file:///b",
        "b",
    ],
)
def test_a_uri_with_another_beginning_leads_nowhere(root, uri):
    write(root, "b")
    assert handbook(root).find(PREFIX + "b") is not None
    assert handbook(root).find(uri) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "evil.example", "user@"])
def test_a_file_of_another_host_is_not_found(root, host):
    write(root, "b")
    directory = Directory(root)
    uri = (root.resolve() / "b").as_uri()
    assert directory.find(uri) is not None
    assert directory.find(uri.replace("file://", f"file://{host}")) is None


def test_files_beside_the_directory_are_not_found(root):
    (root.parent / "inside-too").mkdir()
    write(root.parent, "inside-too/a")
    assert Directory(root).find((root.parent.resolve() / "inside-too" / "a").as_uri()) is None
    assert Directory(root).find((root.parent.resolve() / "secret").as_uri()) is None


PIECES = [
    "..",
    ".",
    "",
    "a",
    "b",
    "link",
    "secret",
    "%2e",
    "%2E%2e",
    "%2f",
    "%5c",
    "%00",
    "\\",
    "~",
    "%",
    "?",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from(["/", "", "%2f", "\\"]))
def test_no_uri_gets_anything_out(pieces, joint):
    with tempfile.TemporaryDirectory() as above:
        root = Path(above) / "inside"
        write(root, "a/b", text="good")
        write(Path(above), "secret", "b", text="secret")
        (root / "link").symlink_to("..")
        for directory in (Directory(root), handbook(root)):
            found = directory.find(directory.prefix + joint.join(pieces))
            assert found is None or found.read(None)[0]["text"] == "good"


NAMES = st.binary(min_size=1, max_size=60).filter(
    lambda name: not re.search(rb"[/\\\0]", name) and not name.startswith(b".")
)


@given(st.lists(NAMES, min_size=1, max_size=3))
@example([b"\xff\xfe"])
@example([b"a b", b"%2e%2e", b"\xc3\xbc?#"])
@example([b"\n\x1b[31m"])
def test_every_file_is_found_by_the_uri_it_is_listed_with(names):
    with tempfile.TemporaryDirectory() as above:
        path = Path(above).resolve().joinpath(*map(os.fsdecode, names))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"good")
        server, directory = Listening(), Directory(above)
        directory.refresh(server)
        ((uri, resource),) = server.items.items()
        assert uri == path.as_uri()
        assert directory.find(uri).definition == resource.definition
        resource.definition["name"].encode("utf-8")  # it can be sent
        for way in (resource, directory.find(uri)):
            assert way.read(None)[0]["uri"] == uri


def test_a_name_that_is_no_utf_8_can_be_shown_and_read(root):
    Path(os.fsdecode(os.fsencode(root) + b"/gr\xfcn.txt")).write_text("good")
    (name,) = listed(handbook(root))
    assert name == "gr\ufffdn.txt"
    assert read(handbook(root), PREFIX + "gr%FCn.txt")["text"] == "good"


def test_hidden_files_are_not_found_unless_hidden_is_true(root):
    write(root, ".env", ".git/config", "a/.b", "c")
    for path in (".env", ".git/config", "a/.b", "%2Eenv"):
        assert handbook(root).find(PREFIX + path) is None
    assert listed(handbook(root)) == ["c"]
    assert read(handbook(root, hidden=True), PREFIX + ".git/config")["text"] == "x"
    assert listed(handbook(root, hidden=True)) == [".env", "c", ".git/config", "a/.b"]


def test_only_files_that_the_glob_names_are_there(root):
    write(root, "a.md", "b.txt", "sub/c.md")
    directory = handbook(root, glob="**/*.md")
    assert listed(directory) == ["a.md", "sub/c.md"]
    assert directory.find(PREFIX + "sub/c.md") is not None
    assert directory.find(PREFIX + "b.txt") is None


def test_files_that_are_too_deep_are_neither_listed_nor_found(root):
    path = "/".join("d" * MAX_DEPTH)
    write(root, path + "/f")
    assert listed(handbook(root)) == []
    assert handbook(root).find(f"{PREFIX}{path}/f") is None


def test_directories_are_no_resources(root):
    write(root, "a/b")
    assert handbook(root).find(PREFIX + "a") is None


@pytest.mark.spec("server/resources/sanitize-file-paths")
def test_links_out_are_neither_listed_nor_found_and_links_within_are(root):
    write(root, "a/b", text="good")
    (root / "out").symlink_to("../secret")
    (root / "up").symlink_to("..")
    (root / "in").symlink_to("a")
    directory = handbook(root)
    assert listed(directory) == ["a/b", "in/b"]
    assert directory.find(PREFIX + "out") is None
    assert directory.find(PREFIX + "up/secret") is None
    assert read(directory, PREFIX + "in/b")["text"] == "good"


# ----------------------------------------------------------------- what goes wrong at reading


@pytest.mark.parametrize(
    "make",
    [lambda path: None, lambda path: path.symlink_to("../secret"), os.mkfifo, Path.mkdir],
    ids=["nothing", "link", "pipe", "directory"],
)
def test_a_file_that_is_something_else_by_now_is_not_found(root, make):
    write(root, "a")
    found = handbook(root).find(PREFIX + "a")
    (root / "a").unlink()
    make(root / "a")
    with pytest.raises(ResourceNotFound) as caught:
        found.read(None)
    assert caught.value.data == {"uri": PREFIX + "a"}


def test_a_file_that_is_too_long_is_refused(root):
    write(root, "a", text="12345")
    assert read(handbook(root, max_bytes=5), PREFIX + "a")["text"] == "12345"
    with pytest.raises(InternalError) as caught:
        read(handbook(root, max_bytes=4), PREFIX + "a")
    assert caught.value.message == f"{PREFIX}a cannot be read: it has more than 4 bytes"


@pytest.mark.spec("server/resources/errors")
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_what_cannot_be_read_says_why_and_not_where_it_is(root, monkeypatch, caplog, number):
    write(root, "a")
    found, original = handbook(root).find(PREFIX + "a"), os.open

    def failing(path, *args, **options):
        if path == "a":
            raise OSError(number, os.strerror(number), str(root / "a"))
        return original(path, *args, **options)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(InternalError) as caught:
        found.read(None)
    assert caught.value.message == f"{PREFIX}a cannot be read: {os.strerror(number).lower()}"
    assert caught.value.code == -32603
    assert str(root) not in caught.value.message
    assert PREFIX + "a" in caplog.text


@pytest.mark.parametrize(("number", "found"), [(errno.EACCES, None), (errno.EMFILE, InternalError)])
def test_a_directory_that_cannot_be_opened_does_not_say_where_it_is(root, monkeypatch, number, found):
    write(root, "a")
    directory = handbook(root)

    def failing(path, *args, **options):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(os, "open", failing)
    if found is None:
        assert directory.find(PREFIX + "a") is None
    else:
        with pytest.raises(found) as caught:
            directory.find(PREFIX + "a")
        assert str(root) not in str(caught.value)


# ---------------------------------------------------------------------------- the list


def test_an_empty_directory_lists_nothing_and_notifies_of_nothing(root):
    server = Listening()
    assert look(handbook(root), server) == []
    assert server.items == {}


@pytest.mark.spec("server/resources/list-may-change")
def test_new_gone_and_changed_files_are_listed_and_notified_once(root):
    write(root, "a", "b", "c")
    directory, server = handbook(root), Listening()
    assert look(directory, server) == [("listed", PREFIX + "a", PREFIX + "b", PREFIX + "c")]
    assert look(directory, server) == []
    (root / "a").unlink()
    write(root, "b", text="longer")
    write(root, "d")
    assert look(directory, server) == [
        ("listed", PREFIX + "b", PREFIX + "d", f"not {PREFIX}a"),
        ("updated", PREFIX + "a"),
        ("updated", PREFIX + "b"),
        ("updated", PREFIX + "d"),
    ]
    assert list(server.items) == [PREFIX + "b", PREFIX + "c", PREFIX + "d"]
    assert server.items[PREFIX + "b"].definition["size"] == 6


def test_a_file_that_has_another_time_or_was_replaced_is_a_change(root):
    write(root, "a")
    os.utime(root / "a", (1, 1))
    directory, server = handbook(root), Listening()
    look(directory, server)
    os.utime(root / "a", (2, 2))
    assert ("updated", PREFIX + "a") in look(directory, server)
    write(root, "new", text="y")
    os.utime(root / "new", (2, 2))
    (root / "new").rename(root / "a")
    assert ("updated", PREFIX + "a") in look(directory, server)
    (root / "a").touch()
    (root / "a").chmod(0o600)
    look(directory, server)
    assert look(directory, server) == []


def test_a_directory_that_vanishes_lists_nothing_until_it_is_back(root):
    write(root, "a")
    directory, server = handbook(root), Listening()
    look(directory, server)
    root.rename(root.with_name("away"))
    assert ("listed", f"not {PREFIX}a") in look(directory, server)
    assert server.items == {}
    assert directory.find(PREFIX + "a") is None
    root.with_name("away").rename(root)
    assert ("listed", PREFIX + "a") in look(directory, server)
    assert read(directory, PREFIX + "a")["text"] == "x"


def test_a_resource_of_the_author_under_the_uri_of_a_file_stays(root):
    write(root, "a", "b")
    directory, server = handbook(root), Listening()
    own = RegisteredResource({"uri": PREFIX + "a", "name": "own"}, lambda context: [])
    server.items[PREFIX + "a"] = own
    assert look(directory, server) == [("listed", PREFIX + "b")]
    write(root, "a", text="longer")
    assert look(directory, server) == []
    (root / "a").unlink()
    assert look(directory, server) == []
    assert server.items[PREFIX + "a"] is own


def test_more_files_than_may_be_listed_are_readable_all_the_same(root, caplog):
    above = os.open(root, os.O_RDONLY)
    for number in range(10_001):
        os.close(os.open(f"{number:05}", os.O_CREAT, dir_fd=above))
    os.close(above)
    directory, server = handbook(root, poll=3600), Listening()
    look(directory, server)
    assert len(server.items) == 10_000
    assert "has too many files: only 10000 are listed" in caplog.text
    assert PREFIX + "10000" not in server.items
    assert read(directory, PREFIX + "10000")["text"] == ""
    caplog.clear()
    (root / "00000").unlink()
    assert look(directory, server)[0] == ("listed", PREFIX + "10000", f"not {PREFIX}00000")
    assert caplog.text == ""


def test_too_many_files_are_logged_once_and_not_with_every_scan(root, caplog):
    write(root, "a", "b")
    directory, server = handbook(root, max_files=1), Listening()
    look(directory, server)
    look(directory, server)
    assert caplog.text.count("too many files") == 1


def test_trouble_of_the_machine_leaves_the_list_as_it_was(root, monkeypatch, caplog):
    write(root, "a")
    directory, server = handbook(root), Listening()
    look(directory, server)
    with monkeypatch.context() as patch:

        def failing(*args, **options):
            raise OSError(errno.EMFILE, "Too many open files")

        patch.setattr(os, "open", failing)
        assert look(directory, server) == []
        assert look(directory, server) == []
    assert caplog.text.count("is listed as it was: Too many open files") == 1
    assert list(server.items) == [PREFIX + "a"]
    (root / "a").unlink()
    assert ("listed", f"not {PREFIX}a") in look(directory, server)


# ------------------------------------------------------------------------------ looking


def test_no_scan_is_repeated_before_the_poll_time_is_over(root):
    directory, server = handbook(root, poll=3600), Listening()
    directory.refresh(server)
    write(root, "a")
    directory.refresh(server)
    assert server.items == {}
    directory._next_scan = 0.0
    directory.refresh(server)
    assert list(server.items) == [PREFIX + "a"]


def test_a_scan_that_takes_long_is_not_soon_repeated(root, monkeypatch):
    directory, server = handbook(root, poll=SOON), Listening()
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    original = os.scandir

    def slow(fd):
        now[0] += 2.0
        return original(fd)

    monkeypatch.setattr(os, "scandir", slow)
    directory.refresh(server)
    assert directory._next_scan == 122.0


def held(monkeypatch):
    """Have the next look wait in the middle: two events, when it has begun and when it may go on."""
    begun, go_on, original = threading.Event(), threading.Event(), os.scandir

    def scandir(path):
        if isinstance(path, int):  # a descriptor: only directories here use these
            begun.set()
            assert go_on.wait(PATIENCE)
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return begun, go_on


def in_background(run):
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_request_during_a_scan_takes_the_list_as_it_is(root, monkeypatch):
    write(root, "a")
    directory, server = handbook(root), Listening()
    look(directory, server)
    write(root, "b")
    begun, go_on = held(monkeypatch)
    directory._next_scan = 0.0
    looking = in_background(lambda: directory.refresh(server))
    assert begun.wait(PATIENCE)
    directory.refresh(server)
    assert list(server.items) == [PREFIX + "a"]
    go_on.set()
    looking.join(PATIENCE)
    assert list(server.items) == [PREFIX + "a", PREFIX + "b"]


def test_the_first_list_is_waited_for(root, monkeypatch):
    write(root, "a")
    directory, server = handbook(root, poll=3600), Listening()
    begun, go_on = held(monkeypatch)
    seen = []
    looking = in_background(lambda: directory.refresh(server))
    assert begun.wait(PATIENCE)
    waiting = in_background(lambda: (directory.refresh(server), seen.append(list(server.items))))
    go_on.set()
    looking.join(PATIENCE)
    waiting.join(PATIENCE)
    assert seen == [[PREFIX + "a"]]
    assert server.said == [("listed", PREFIX + "a")]


def test_many_threads_may_refresh_at_once(root):
    directory, server = handbook(root, poll=0.0001), Listening()
    write(root, *(f"{i}" for i in range(20)))
    stop = threading.Event()

    def refresh():
        while not stop.wait(0.001):
            directory.refresh(server)

    with nothing_left(), directory.watch(server):
        threads = [in_background(refresh) for _ in range(4)]
        try:
            for i in range(20):
                (root / f"{i}").unlink()
                write(root, f"new {i}")
            server.wait_until_listed(PREFIX + "new%2019")
        finally:
            stop.set()
            for thread in threads:
                thread.join(PATIENCE)
    look(directory, server)
    assert sorted(server.items) == sorted(f"{PREFIX}new%20{i}" for i in range(20))


# ------------------------------------------------------------------------------ watching


@pytest.mark.spec("server/resources/list-changed")
def test_changes_are_noticed_by_themselves_while_the_server_runs(root):
    directory, server = handbook(root, poll=SOON), Listening()
    write(root, "a")
    with nothing_left(), directory.watch(server):
        server.wait_for("listed", PREFIX + "a")
        write(root, "a", text="longer")
        server.wait_for("updated", PREFIX + "a")
        (root / "a").unlink()
        server.wait_for("listed", f"not {PREFIX}a")


def test_the_watcher_ends_at_once(root):
    directory, server = handbook(root, poll=3600), Listening()
    began, before = time.monotonic(), set(threading.enumerate())
    with nothing_left(), directory.watch(server):
        own = set(threading.enumerate()) - before
        assert [t.daemon for t in own if t.name == "mcp_ref watcher"] == [True]
    assert time.monotonic() - began < PATIENCE


def test_the_watcher_ends_in_the_middle_of_a_scan(root, monkeypatch):
    write(root, "a", "sub/b")
    directory, server = handbook(root, poll=SOON), Listening()
    begun, go_on = held(monkeypatch)
    with nothing_left(), directory.watch(server):
        assert begun.wait(PATIENCE)
        in_background(go_on.set)
    assert set(server.items) in (set(), {PREFIX + "a", PREFIX + "sub/b"})


def test_a_disk_that_does_not_answer_is_not_waited_for(root, monkeypatch):
    monkeypatch.setattr(directories, "WATCHER_END_SECONDS", 0.01)
    directory, server = handbook(root, poll=SOON), Listening()
    begun, go_on = held(monkeypatch)
    with nothing_left():
        with directory.watch(server):
            assert begun.wait(PATIENCE)
        go_on.set()
    assert server.items == {}


def test_the_watcher_ends_when_the_block_raises(root):
    with nothing_left(), pytest.raises(KeyError), handbook(root).watch(Listening()):
        raise KeyError


def test_a_fault_in_one_scan_does_not_end_the_watching(root, caplog):
    write(root, "a")

    class Faulty(Listening):
        faults = 2

        def change(self, added, removed):
            if self.faults:
                self.faults -= 1
                self._note("fault")
                raise RuntimeError("no")
            super().change(added, removed)

    directory, server = handbook(root, poll=SOON), Faulty()
    with nothing_left(), directory.watch(server):
        server.wait_for("listed", PREFIX + "a")
    assert server.said.count(("fault",)) == 2
    assert "could not be scanned" in caplog.text


def test_a_directory_may_be_watched_again(root):
    directory, server = handbook(root, poll=SOON), Listening()
    for name in ("a", "b"):
        with nothing_left(), directory.watch(server):
            write(root, name)
            server.wait_until_listed(PREFIX + name)


# -------------------------------------------------------------------------- registering


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"uri": "handbook/"}, ValueError),
        ({"uri": "docs://handbook"}, ValueError),
        ({"uri": "docs://handbook/?"}, ValueError),
        ({"uri": "docs://handbook/?a=/"}, ValueError),
        ({"uri": "docs://handbook/#/"}, ValueError),
        ({"uri": "docs://handbook/../"}, ValueError),
        ({"uri": "docs://hand book/"}, ValueError),
        ({"uri": "docs://{book}/"}, ValueError),
        ({"uri": "docs://%zz/"}, ValueError),
        ({"uri": ""}, ValueError),
        ({"uri": 7}, TypeError),
        ({"poll": 0}, ValueError),
        ({"poll": -1}, ValueError),
        ({"poll": float("nan")}, ValueError),
        ({"poll": float("inf")}, ValueError),
        ({"poll": "1"}, TypeError),
        ({"poll": True}, TypeError),
        ({"glob": "../*"}, ValueError),
        ({"glob": None}, TypeError),
        ({"name": 7}, TypeError),
        ({"max_files": 0}, ValueError),
        ({"max_bytes": 0.5}, TypeError),
        ({"ttl_ms": -1}, ValueError),
        ({"cache_scope": "everybody"}, ValueError),
        ({"annotations": {"priority": 2}}, Mismatch),
        ({"annotations": {"audience": ["everybody"]}}, Mismatch),
    ],
)
@pytest.mark.spec("server/resources/custom-scheme-rfc3986", "server/resources/annotation-values")
def test_invalid_options_are_refused(root, options, problem):
    with pytest.raises(problem):
        Directory(root, **options)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", ValueError),
        ("none", FileNotFoundError),
        ("file", NotADirectoryError),
        ("loop", OSError),
        ("a\0b", ValueError),
        (7, TypeError),
        (None, TypeError),
        (b"inside", TypeError),
    ],
)
def test_a_path_that_is_not_a_directory_is_refused(root, monkeypatch, path, problem):
    monkeypatch.chdir(root.parent)
    write(root.parent, "file")
    (root.parent / "loop").symlink_to("loop")
    with pytest.raises(problem):
        Directory(path)


# ------------------------------------------------------------------------ with a server


def said(name):
    """Whether a message is that notification."""
    return lambda message: message.get("method") == f"notifications/{name}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_lists_and_reads_files(root, revision):
    write(root, "a b.md", text="# Hä?")
    (root / "c.png").write_bytes(PNG)
    server = Server("files")
    server.add_directory(root, uri=PREFIX)
    with nothing_left(), connect(server, revision=revision) as client:
        found = {r["name"]: r for r in client.request("resources/list", {})["resources"]}
        assert found.keys() == {"a b.md", "c.png"}
        assert found["c.png"]["size"] == len(PNG)
        assert ("lastModified" in found["c.png"].get("annotations", {})) is (revision >= "2025-06-18")
        (text,) = client.request("resources/read", {"uri": found["a b.md"]["uri"]})["contents"]
        assert text == {"uri": PREFIX + "a%20b.md", "mimeType": "text/markdown", "text": "# Hä?"}
        (blob,) = client.request("resources/read", {"uri": found["c.png"]["uri"]})["contents"]
        assert base64.b64decode(blob["blob"]) == PNG


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_file_outside_is_not_found_for_a_client(root, revision):
    write(root, "a")
    (root / "out").symlink_to("../secret")
    server = Server("files")
    server.add_directory(root)
    inside = root.resolve().as_uri()
    with connect(server, revision=revision) as client:
        for uri in (f"{inside}/out", f"{inside}/../secret", f"{inside}/%2e%2e/secret", "file:///etc/passwd"):
            with pytest.raises(ErrorResponse) as caught:
                client.request("resources/read", {"uri": uri})
            assert caught.value.code == (-32602 if revision == MODERN else -32002)
            assert caught.value.data == {"uri": uri}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_file_that_vanished_since_it_was_listed_is_not_found(root, revision):
    write(root, "a")
    server = Server("files")
    server.add_directory(root, uri=PREFIX, poll=3600)
    with connect(server, revision=revision) as client:
        assert len(client.request("resources/list", {})["resources"]) == 1
        (root / "a").unlink()
        with pytest.raises(ErrorResponse) as caught:
            client.request("resources/read", {"uri": PREFIX + "a"})
        assert caught.value.data == {"uri": PREFIX + "a"}


@pytest.mark.parametrize("revision", LEGACY)
def test_clients_are_notified_of_changes_of_files(root, revision):
    write(root, "a")
    server = Server("files")
    server.add_directory(root, uri=PREFIX, poll=SOON)
    with nothing_left(), server.lifespan.used(), RawClient(server, revision=revision) as client:
        client.request("resources/subscribe", {"uri": PREFIX + "a"})
        write(root, "a", text="longer")
        assert client.until(said("resources/updated"))["params"] == {"uri": PREFIX + "a"}
        write(root, "b")
        client.until(said("resources/list_changed"))


def test_modern_clients_are_notified_of_changes_of_files(root):
    write(root, "a")
    server = Server("files")
    server.add_directory(root, uri=PREFIX, poll=SOON)
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": [PREFIX + "a"]}
    with nothing_left(), server.lifespan.used(), RawClient(server, revision=MODERN) as client:
        client.send(client.message("subscriptions/listen", {"notifications": wanted}))
        acknowledged = client.until(said("subscriptions/acknowledged"))
        assert acknowledged["params"]["notifications"] == wanted
        write(root, "a", text="longer")
        assert client.until(said("resources/updated"))["params"]["uri"] == PREFIX + "a"
        write(root, "b")
        client.until(said("resources/list_changed"))


def test_the_files_of_many_pages_come_each_once(root):
    write(root, *(f"{i:03}" for i in range(100)))
    server = Server("files", page_size=7)
    server.add_directory(root, uri=PREFIX)
    with connect(server) as client:
        names = [r["name"] for page in client.pages("resources/list") for r in page["resources"]]
    assert names == [f"{i:03}" for i in range(100)]


@pytest.mark.parametrize("date", REVISIONS)
def test_a_change_during_the_first_scan_is_not_lost_for_a_subscriber(root, date, monkeypatch):
    write(root, "a.txt", text="one")
    server = Server("slow")
    directory = server.add_directory(root, uri=PREFIX, poll=SOON)
    looked, go, files = threading.Event(), threading.Event(), directory._tree.files

    def slow_files(*arguments):
        looked.set()
        go.wait(PATIENCE)
        return files(*arguments)

    monkeypatch.setattr(directory._tree, "files", slow_files)
    with connect(server, revision=date) as client, client.listen(resources=[PREFIX + "a.txt"]) as changes:
        assert looked.wait(PATIENCE)
        write(root, "a.txt", text="another")
        go.set()
        assert changes.next(PATIENCE) == Change("resource", PREFIX + "a.txt")


def test_a_request_while_the_first_scan_is_put_into_the_list_waits_for_it(root, monkeypatch):
    """Not only while the files are looked at: what was found must be in the list as well."""
    write(root, "a.txt")
    server = Server("slow")
    directory = server.add_directory(root, uri=PREFIX, poll=60.0)
    found, go, announce = threading.Event(), threading.Event(), directory._announce

    def slow_announce(*arguments):
        found.set()
        go.wait(PATIENCE)
        announce(*arguments)

    monkeypatch.setattr(directory, "_announce", slow_announce)
    with connect(server) as client:
        assert found.wait(PATIENCE)
        listing = client.submit("resources/list")
        assert not listing.done()
        go.set()
        assert [r["name"] for r in listing.result(PATIENCE)["resources"]] == ["a.txt"]
