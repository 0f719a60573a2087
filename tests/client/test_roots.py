"""client/roots: the shapes as each revision has them, file:// URIs, and both halves."""

import string
import urllib.parse
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import LEGACY, MODERN, REVISIONS, nothing_left

from mcp_ref import Context, ErrorResponse, Server, connect
from mcp_ref.api.callbacks import Callbacks
from mcp_ref.basic.index.error_responses import InternalError, InvalidParams, MethodNotFound, ProtocolError
from mcp_ref.basic.lifecycle import ClientCapabilities
from mcp_ref.basic.versioning import revision
from mcp_ref.client import roots
from mcp_ref.client.roots import ListRoots, as_roots, path_of, within
from mcp_ref.runtime.errors import InvalidResponse
from mcp_ref.schema import Mismatch, checker, definitions, pruner

ROOT = {"uri": "file:///home/x", "name": "x", "_meta": {"a": 1}}


# ---------------------------------------------------------------------------- shapes


@pytest.mark.spec("client/roots/result-shape")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_root_has_a_uri(date):
    checker(roots.ListRootsResult, date)({"roots": [ROOT, {"uri": "file:///y"}]})
    for wrong in ({}, {"roots": [{"name": "x"}]}, {"roots": "x"}, {"roots": [{"uri": 5}]}):
        with pytest.raises(Mismatch, match="roots"):
            checker(roots.ListRootsResult, date)(wrong)


@pytest.mark.parametrize("date", REVISIONS)
def test_meta_on_a_root_came_with_2025_06_18(date):
    assert ("_meta" in pruner(roots.Root, date)(ROOT)) == (date >= "2025-06-18")


@pytest.mark.parametrize("date", REVISIONS)
def test_the_request_is_a_message_of_its_own_in_the_legacy_era_only(date):
    members = definitions(date)["ListRootsRequest"]["properties"]
    assert "method" in members
    assert ("id" in members) == (date == LEGACY[3])  # before, the shapes left it to JSONRPCRequest
    assert ("RootsListChangedNotification" in definitions(date)) == (date != MODERN)


# ------------------------------------------------------------------------- file:// URIs


@pytest.mark.spec("client/roots/uri-file-scheme")
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/x", "/home/x"),
        ("file://localhost/home/x", "/home/x"),
        ("file:///", "/"),
        ("file:///a%20b/%C3%A9t%C3%A9", "/a b/été"),
        ("file:///a/%2e%2E/b", "/a/../b"),
        ("file:///C:/Users", "/C:/Users"),
        ("file:///a/b/", "/a/b"),
        ("file:///%25", "/%"),
        ("file:///%FF", "/\udcff"),
    ],
)
def test_a_file_uri_names_a_path(uri, path):
    assert path_of(uri) == Path(path)


@pytest.mark.spec("client/roots/uri-file-scheme")
@pytest.mark.parametrize(
    "uri",
    [
        "/home/x",
        "https://example.com/x",
        "file:/home/x",
        "FILE:///x",
        "file://",
        "file://host/x",
        "file://localhost",
        "file://127.0.0.1/x",
        "file://user@localhost/x",
        "file:///x?y",
        "file:///x#y",
        "file:///a b",
        "file:///a\nb",
        "file:///été",
        "file:///a\\b",
        "file:///%",
        "file:///%4",
        "file:///%zz",
        "file:///a%00b",
        "file:///a%2Fb",
        "file:///a%2f..",
        "file:///\x00",
        "file:///a\x7f",
        "",
        5,
        None,
        b"file:///x",
    ],
)
def test_what_is_no_file_uri_is_refused(uri):
    with pytest.raises(ValueError, match=r"not a file:// URI|another machine"):
        path_of(uri)


NAMES = st.text(min_size=1, max_size=8).filter(lambda n: not set(n) & {"/", "\0"})


@given(st.lists(NAMES.filter(lambda n: n not in (".", "..")), max_size=3))
def test_a_path_survives_its_uri(names):
    path = Path("/", *names)
    try:
        uri = path.as_uri()
    except UnicodeEncodeError:  # half of a surrogate pair: no name of a file either
        return
    assert path_of(uri) == path


@given(st.text("/.%2eEfF0a?#", max_size=12) | st.text(string.printable, max_size=8))
def test_a_uri_is_a_path_or_refused(tail):
    try:
        path = path_of("file://" + tail)
    except ValueError:
        return
    assert path.is_absolute()
    assert "\0" not in str(path)
    plain = urllib.parse.unquote(tail, errors="surrogateescape").removeprefix("localhost")
    assert str(path) == str(Path(plain))


# ----------------------------------------------------------------------- server half


@pytest.fixture
def project(tmp_path):
    """A root with a file, and beside it a directory whose name begins alike."""
    for name in ("project/src", "project-two", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project" / "src" / "main.py").write_text("")
    (tmp_path / "outside" / "secret").write_text("")
    (tmp_path / "project" / "way-out").symlink_to(tmp_path / "outside")
    (tmp_path / "project" / "inside").symlink_to(tmp_path / "project" / "src")
    (tmp_path / "project" / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    return tmp_path / "project"


def rooted(*paths):
    return [{"uri": Path(path).as_uri()} for path in paths]


@pytest.mark.spec("client/roots/validate-paths")
@pytest.mark.parametrize(
    ("path", "is_within"),
    [
        ("", True),
        ("src/main.py", True),
        ("src/not/yet/there", True),
        ("src/../src/main.py", True),
        ("inside/main.py", True),
        ("..", False),
        ("../project-two", False),
        ("../project/src", True),
        ("src/../../outside/secret", False),
        ("way-out", False),
        ("way-out/secret", False),
        ("way-out/not-there", False),
        ("way-out/../project/src", True),
        ("not-there/../../outside", False),
        ("inside/../../outside", False),
        ("/etc/passwd", False),
        ("a" * 5000, True),
    ],
)
def test_a_path_is_within_a_root_once_everything_is_resolved(project, path, is_within):
    full = path if path.startswith("/") else f"{project}/{path}"
    assert within(full, rooted(project)) is is_within
    assert within(Path(full), rooted(project)) is is_within
    assert within(full, rooted(project.parent / "link")) is is_within
    assert within(full, rooted("/nowhere", project)) is is_within
    if len(full) < 1000:
        uri = "file://" + urllib.parse.quote(full)
        assert within(uri, rooted(project)) is is_within
        assert within(uri.replace("..", "%2e%2E"), rooted(project)) is is_within


def test_a_relative_path_begins_where_we_are(project, monkeypatch):
    monkeypatch.chdir(project / "src")
    assert within("main.py", rooted(project))
    assert within("../loop", rooted(project))  # opening it fails, but nothing is elsewhere
    assert not within("../../outside", rooted(project))


@pytest.mark.parametrize("path", ["a\0b", "file://elsewhere/x", "file:///x?y", "file:///%00", "\ud800"])
def test_what_is_no_path_is_in_no_root(path):
    assert not within(path, rooted("/"))


def test_everything_is_in_the_root_of_all_and_nothing_in_none():
    assert within("/etc/passwd", rooted("/"))
    assert within("//etc/passwd", rooted("/etc"))
    assert not within("/etc/passwd", [])
    with pytest.raises(ValueError, match="not a file:// URI"):
        within("/etc", [{"uri": "https://example.com"}])


def test_a_root_may_be_a_file(project):
    main = project / "src" / "main.py"
    assert within(main, rooted(main))
    assert not within(project / "src", rooted(main))


@pytest.fixture
def asking(monkeypatch):
    """Makes a context whose client answers roots/list with these, one after another."""

    def make(date, answers=(), *, declared=None, session=None):
        context = SimpleNamespace(
            revision=revision(date), session=session, client_capabilities={"roots": declared or {}}
        )
        context.answers = iter(answers)
        return context

    def ask(context, questions):
        (question,) = questions
        answer = next(context.answers)
        return [question.read(answer() if callable(answer) else answer)]

    monkeypatch.setattr(roots, "ask", ask)
    return make


@pytest.mark.spec("client/roots/check-capability", "client/roots/list-input-request")
@pytest.mark.parametrize("date", REVISIONS)
def test_the_question_is_the_request_of_the_page(asking, date):
    asked = ListRoots().question(asking(date))
    assert (asked.method, asked.params, asked.needs) == ("roots/list", {}, {"roots": {}})
    assert asked.read({"roots": [ROOT]}) == [ROOT]
    assert asked.read({"roots": []}) == []


@pytest.mark.parametrize("date", REVISIONS)
def test_roots_that_break_a_rule_are_not_taken(asking, date):
    read = ListRoots().question(asking(date)).read
    wrong = {
        "roots: is required": {},
        "roots[0].uri: is required": {"roots": [{"name": "x"}]},
        "roots[1].uri: 'https://x/' is not a file:// URI": {"roots": [ROOT, {"uri": "https://x/"}]},
        "roots[0].uri: 'file:///a%00'": {"roots": [{"uri": "file:///a%00"}]},
        "roots: there are 1001, more than 1000": {"roots": [ROOT] * 1001},
    }
    for said, result in wrong.items():
        with pytest.raises(InvalidResponse) as problem:
            read(result)
        assert str(problem.value).startswith(f"roots/list: {said}")


ONE, TWO = {"roots": [{"uri": "file:///one"}]}, {"roots": [{"uri": "file:///two"}]}


def a_session():
    return SimpleNamespace(roots=None)


@pytest.mark.spec("client/roots/cache-roots")
def test_roots_are_requested_once_where_changes_are_notified(asking):
    context = asking(LEGACY[3], [ONE], declared={"listChanged": True}, session=a_session())
    first = roots.list_roots(context)
    assert first == ONE["roots"]
    first.clear()  # the list is its owner's
    assert roots.list_roots(context) == ONE["roots"]


@pytest.mark.spec("client/roots/cache-roots")
@pytest.mark.parametrize("declared", [{}, {"listChanged": False}])
def test_roots_are_requested_each_time_where_changes_are_not_notified(asking, declared):
    context = asking(LEGACY[3], [ONE, TWO], declared=declared, session=a_session())
    assert [roots.list_roots(context), roots.list_roots(context)] == [ONE["roots"], TWO["roots"]]
    modern = asking(MODERN, [ONE, TWO])
    assert [roots.list_roots(modern), roots.list_roots(modern)] == [ONE["roots"], TWO["roots"]]


@pytest.mark.spec("client/roots/handle-list-changes", "schema/roots-relist")
def test_after_a_change_roots_are_requested_again(asking):
    session = a_session()
    context = asking(LEGACY[3], [ONE, TWO], declared={"listChanged": True}, session=session)
    assert roots.list_roots(context) == ONE["roots"]
    roots.on_list_changed(SimpleNamespace(session=session))
    assert roots.list_roots(context) == TWO["roots"]


def test_a_change_during_a_request_is_not_lost(asking):
    session = a_session()

    def changes():
        roots.on_list_changed(SimpleNamespace(session=session))
        return ONE

    context = asking(LEGACY[3], [changes, TWO], declared={"listChanged": True}, session=session)
    assert roots.list_roots(context) == ONE["roots"]
    assert roots.list_roots(context) == TWO["roots"]


def test_roots_from_before_a_change_do_not_take_the_place_of_a_later_request(asking):
    session = a_session()

    def fails():
        raise ProtocolError("no")

    def changes():
        roots.on_list_changed(SimpleNamespace(session=session))
        with pytest.raises(ProtocolError):
            roots.list_roots(context)
        return ONE

    context = asking(LEGACY[3], [changes, fails, TWO], declared={"listChanged": True}, session=session)
    assert roots.list_roots(context) == ONE["roots"]
    assert roots.list_roots(context) == TWO["roots"]


def test_an_error_is_not_remembered_as_the_roots(asking):
    def fails():
        raise ProtocolError("no")

    context = asking(LEGACY[3], [fails, ONE], declared={"listChanged": True}, session=a_session())
    with pytest.raises(ProtocolError):
        roots.list_roots(context)
    assert roots.list_roots(context) == ONE["roots"]


# ----------------------------------------------------------------------- client half


@pytest.mark.spec("client/roots/result-shape", "client/roots/validate-accessibility")
def test_roots_are_given_as_paths_uris_or_dicts(project):
    given = [str(project), project / "src", "file:///not/there", {"uri": "file:///named", "name": "a name"}]
    assert as_roots(given) == [
        {"uri": project.as_uri()},
        {"uri": (project / "src").as_uri()},
        {"uri": "file:///not/there"},
        {"uri": "file:///named", "name": "a name"},
    ]
    assert as_roots(iter(given)) == as_roots(tuple(given)) == as_roots(as_roots(given))


def test_a_path_is_made_absolute(project, monkeypatch):
    monkeypatch.chdir(project / "src")
    assert as_roots(["."]) == [{"uri": (project / "src").as_uri()}]
    assert as_roots([".."]) == [{"uri": project.as_uri()}]
    link = project.parent / "link"
    assert as_roots([link]) == [{"uri": link.as_uri()}]  # as it is called
    assert as_roots([project / "way-out" / ".."]) == [{"uri": project.parent.as_uri()}]  # as it is


@pytest.mark.spec("client/roots/validate-uris", "client/roots/uri-file-scheme")
@pytest.mark.parametrize(
    "item",
    [
        "file:///home/../etc",
        "file:///home/%2e%2e/etc",
        "file:///home/.%2E/etc",
        "file:///..",
        "file:///home%2F..%2Fetc",
        "file:///a%00",
        "file://elsewhere/x",
        "https://example.com/x",
        "file:///x?y",
        {"uri": "file:///home/../etc"},
        {"uri": "/home"},
        {"uri": 5},
        {"name": "x"},
        {"uri": "file:///x", "name": 5},
        "/not/there",
        "nul\0",
    ],
)
def test_a_root_that_cannot_be_one_is_refused_with_its_place(item):
    with pytest.raises(ValueError, match=r"^roots\[1\]: "):
        as_roots(["/", item])


def test_roots_are_a_thousand_at_most():
    given = [f"file:///{number}" for number in range(1001)]
    assert len(as_roots(given[:1000])) == 1000
    with pytest.raises(ValueError, match="at most 1000 roots"):
        as_roots(given)


def test_roots_are_a_list_of_such_things():
    for wrong in ("/", b"/", Path("/"), {"uri": "file:///"}):
        with pytest.raises(TypeError, match="roots must be a list"):
            as_roots(wrong)
    for wrong in ([5], 5, [None]):
        with pytest.raises(TypeError):
            as_roots(wrong)
    with pytest.raises(ValueError, match=r"roots\[1\]: file:/// is in the list twice"):
        as_roots(["/", "file:///"])
    with pytest.raises(ValueError, match="at most 1000 roots"):
        as_roots(f"file:///{i}" for i in range(2000))


def client(date, given):
    """As much of a client as answering takes."""
    callbacks = Callbacks(roots=given)
    declared = pruner(ClientCapabilities, date)(callbacks.capabilities())
    told = []
    return SimpleNamespace(
        callbacks=callbacks,
        negotiated=SimpleNamespace(revision=revision(date), capabilities=declared),
        notify=told.append,
        told=told,
    )


@pytest.mark.spec("client/roots/list-request", "client/roots/result-shape")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_tells_its_roots(date, project):
    for way in ([project, ROOT], lambda: (project, ROOT)):
        found = roots.answer(client(date, way), {}, None)
        assert found == {"roots": [{"uri": project.as_uri()}, pruner(roots.Root, date)(ROOT)]}
        checker(roots.ListRootsResult, date)(found)


def test_a_function_is_asked_each_time(project):
    given = iter([[project], []])
    asked = client(MODERN, lambda: next(given))
    assert len(roots.answer(asked, {}, None)["roots"]) == 1
    assert roots.answer(asked, {"_meta": {}}, None) == {"roots": []}


@pytest.mark.spec("client/roots/unsupported-32601", "client/roots/errors")
@pytest.mark.parametrize("date", REVISIONS)
def test_without_roots_there_is_no_such_method(date):
    with pytest.raises(MethodNotFound) as problem:
        roots.answer(client(date, None), {}, None)
    assert problem.value.code == -32601
    assert "does not have the roots capability" in problem.value.data["reason"]


@pytest.mark.spec("client/roots/errors", "client/roots/failure-needs-no-replay")
@pytest.mark.parametrize("date", REVISIONS)
def test_invalid_roots_of_the_application_are_an_internal_error(date):
    def fails():
        raise OSError("the disk is gone")

    for way, said in {
        fails: "the disk is gone",
        lambda: ["/not/there"]: r"roots\[0\]: /not/there does not exist",
        lambda: None: "not iterable",
    }.items():
        with pytest.raises(InternalError, match=said) as problem:
            roots.answer(client(date, way), {}, None)
        assert problem.value.code == -32603


def test_params_that_are_none_are_invalid():
    with pytest.raises(InvalidParams, match=r"roots/list: _meta: must be an object"):
        roots.answer(client(MODERN, []), {"_meta": 5}, None)


@pytest.mark.spec("client/roots/list-changed", "schema/roots-notify-any-change")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_change_is_notified_in_the_legacy_era_where_it_was_declared(date):
    told = client(date, [])
    roots.notify_changed(told.negotiated, told)
    assert told.told == ([] if date == MODERN else ["notifications/roots/list_changed"])
    bare = client(date, None)
    roots.notify_changed(bare.negotiated, bare)
    assert bare.told == []


# ----------------------------------------------------------------- both, over a connection


def reader():
    """A server that asks for the roots."""
    server = Server("reader")

    @server.tool
    def projects(ctx: Context) -> list[str]:
        return [root["uri"] for root in ctx.list_roots()]

    @server.tool
    def is_inside(path: str, ctx: Context) -> bool:
        return ctx.is_within_roots(path)

    @server.tool
    def read(path: str) -> str:
        return Path(path).read_text()

    return server


@pytest.mark.spec("client/roots/capability-at-initialize", "client/roots/capability-per-request")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_asks_for_the_roots_in_every_revision(date, project):
    with nothing_left(), connect(reader(), revision=date, roots=[project]) as client:
        assert client.call_tool("projects").structured in (None, {"result": [project.as_uri()]})
        assert project.as_uri() in client.call_tool("projects").text
        assert client.call_tool("is_inside", {"path": f"{project}/src"}).text == "true"
        assert client.call_tool("is_inside", {"path": f"{project}/way-out/secret"}).text == "false"


@pytest.mark.spec("client/roots/informational")
@pytest.mark.parametrize("date", REVISIONS)
def test_roots_keep_nobody_from_anything(date, project):
    outside = project.parent / "outside" / "secret"
    outside.write_text("seen")
    with connect(reader(), revision=date, roots=[project]) as client:
        assert client.call_tool("is_inside", {"path": str(outside)}).text == "false"
        assert client.call_tool("read", {"path": str(outside)}).text == "seen"


@pytest.mark.spec("client/roots/list-changed", "client/roots/handle-list-changes", "schema/roots-relist")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_change_of_roots_is_seen_by_the_next_request(date, project):
    given, asked = [project], []

    def current():
        asked.append(None)
        return given

    with connect(reader(), revision=date, roots=current) as client:
        client.call_tool("projects")
        client.call_tool("projects")
        assert len(asked) == (2 if date == MODERN else 1)
        given.append(project.parent / "outside")
        roots.notify_changed(client.asker.negotiated, client.asker.connection)
        assert "outside" in client.call_tool("projects").text


@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_without_roots_is_not_asked(date):
    with connect(reader(), revision=date) as client:
        if date == MODERN:
            with pytest.raises(ErrorResponse) as problem:
                client.call_tool("projects")
            assert problem.value.code == -32021
        else:
            assert "did not declare the capability" in client.call_tool("projects").text
