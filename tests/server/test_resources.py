"""server/resources: listing, reading, not finding, subscribing, on both sides."""

import base64
import contextlib
import dataclasses
import json
import queue
import threading

import jsonschema
import pytest
from choices import for_server
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, Notes, RawClient, plain, raw_server

from mcp_ref import (
    ClientOptions,
    Context,
    ErrorResponse,
    InvalidResponse,
    McpError,
    ProtocolError,
    RequestCancelled,
    Server,
    connect,
)
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.runtime.errors import LocalError
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.schema import definitions
from mcp_ref.server import resources as page
from mcp_ref.server.content import ResourceContents
from mcp_ref.server.resources import RegisteredResource

NOT_FOUND = dict.fromkeys(LEGACY, -32002) | {MODERN: -32602}
BYTES = bytes(range(256))


@dataclasses.dataclass
class Row:
    id: int


def shop(**options):
    server = Server("shop", **for_server(options))

    @server.resource("config://app", mime_type="text/markdown")
    def config() -> str:
        """How it is set up."""
        return "# Settings"

    @server.resource("logo://big")
    def logo() -> bytes:
        return BYTES

    @server.resource("db://{table}/{row}")
    def row(table: str, row: int) -> Row:
        """One row of a table."""
        if row > 9:
            raise page.ResourceNotFound(f"db://{table}/{row}")
        return Row(row)

    @server.resource("file:///{+path}")
    def file(path: str) -> str:
        return path

    return server


def failing(problem, uri="bad://one"):
    """A server with a resource that raises this."""
    server = Server("failing")

    @server.resource(uri)
    def fail() -> str:
        raise problem

    server.add_resource(lambda: "fine", "good://one", name="good")
    return server


def read(raw, uri):
    return raw.request("resources/read", {"uri": uri})


def valid(date, name, value):
    """Whether it is what the official schema of this revision says."""
    official = definitions(date)
    schema = {"$ref": f"#/$defs/{name}", "$defs": official}
    jsonschema.Draft202012Validator(schema).validate(value)
    return True


# -- listing -------------------------------------------------------------------------------------


@pytest.mark.spec("server/resources/capability-declared", "server/resources/list-answered")
@pytest.mark.parametrize("date", REVISIONS)
def test_resources_are_declared_and_listed_and_templates_apart(date):
    with RawClient(shop(), revision=date) as raw:
        listed = raw.request("resources/list")["result"]
        templates = raw.request("resources/templates/list")["result"]
    assert valid(date, "ListResourcesResult", listed)
    assert valid(date, "ListResourceTemplatesResult", templates)
    assert listed["resources"] == [
        {
            "uri": "config://app",
            "name": "config",
            "description": "How it is set up.",
            "mimeType": "text/markdown",
        },
        {"uri": "logo://big", "name": "logo"},
    ]
    assert templates["resourceTemplates"] == [
        {"uriTemplate": "db://{table}/{row}", "name": "row", "description": "One row of a table."},
        {"uriTemplate": "file:///{+path}", "name": "file"},
    ]
    with connect(shop(), revision=date) as client:
        assert "resources" in client.server_capabilities


@pytest.mark.spec("server/resources/capability-declared", "schema/method-not-found-ungated")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_server_without_resources_declares_none_and_has_no_such_methods(date):
    methods = ["list", "templates/list", "read", *(["subscribe", "unsubscribe"] if date in LEGACY else [])]
    with RawClient(Server("none"), revision=date) as raw:
        for method in methods:
            assert raw.request(f"resources/{method}", {"uri": "a://b"})["error"]["code"] == -32601
    with connect(Server("none"), revision=date) as client:
        assert "resources" not in client.server_capabilities
        with pytest.raises(McpError, match="resources"):
            page.list_resources(client.asker)


FULL = {
    "name": "full",
    "title": "Full",
    "description": "Everything.",
    "icons": [{"src": "https://example.org/i.png"}],
    "mime_type": "text/plain",
    "annotations": {"audience": ["user"], "priority": 1, "lastModified": "2026-07-28T00:00:00Z"},
    "meta": {"com.example/x": 1},
}


@pytest.mark.parametrize("date", REVISIONS)
def test_a_definition_has_the_fields_of_the_revision_and_no_others(date):
    server = Server("full")
    server.add_resource(lambda: "", "full://one", size=0, **FULL)
    server.add_resource(lambda a: "", "full://{a}", **FULL)
    with RawClient(server, revision=date) as raw:
        (resource,) = raw.request("resources/list")["result"]["resources"]
        (template,) = raw.request("resources/templates/list")["result"]["resourceTemplates"]
    official = definitions(date)
    for name, value in (("Resource", resource), ("ResourceTemplate", template)):
        assert value.keys() == official[name]["properties"].keys()
        assert valid(date, name, value)
    assert ("lastModified" in resource["annotations"]) is (date >= "2025-06-18")


@pytest.mark.spec(
    "server/resources/list-paginated",
    "server/resources/templates-paginated",
    "server/resources/list-not-per-connection",
)
@pytest.mark.parametrize("date", REVISIONS)
def test_lists_come_in_pages_and_in_the_order_of_registration(date):
    server = Server("many", page_size=3)
    names = [f"n{n}" for n in range(10)]
    for name in names:
        server.add_resource(lambda: "", f"x://{name}", name=name)
        server.add_resource(lambda a: "", f"x://{name}/{{a}}", name=name)
    for _ in range(2):
        with connect(server, revision=date) as client:
            client.read_resource("x://n5")
            assert [resource["name"] for resource in page.list_resources(client.asker)] == names
            assert [template["name"] for template in page.list_templates(client.asker)] == names
            assert len(list(client.pages("resources/list"))) == 4
            with pytest.raises(ErrorResponse, match="cursor") as refused:
                client.request("resources/list", {"cursor": "none of yours"})
            assert refused.value.code == -32602


@pytest.mark.spec("server/resources/list-may-change", "server/resources/list-empty-or-changing")
@pytest.mark.spec("server/resources/no-empty-contents")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_list_may_change_and_be_empty(date):
    server = shop()
    with RawClient(server, revision=date) as raw:
        server.remove_resource("config://app")
        (logo,) = raw.request("resources/list")["result"]["resources"]
        assert logo["uri"] == "logo://big"
        server.remove_resource("logo://big")
        assert raw.request("resources/list")["result"]["resources"] == []
        assert read(raw, "logo://big")["error"]["code"] == NOT_FOUND[date]
        server.add_resource(lambda: "new", "logo://big", name="again")
        assert read(raw, "logo://big")["result"]["contents"][0]["text"] == "new"
        server.remove_resource("db://{table}/{row}")
        assert read(raw, "db://a/1")["error"]["code"] == NOT_FOUND[date]


@pytest.mark.spec("server/resources/list-by-authorization")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_hook_may_show_each_caller_its_own_list(date):
    server = shop()

    @server.around
    def own(ctx, params, proceed):
        result = proceed(params)
        if ctx.method == "resources/list":
            result["resources"] = [r for r in result["resources"] if r["uri"].startswith("logo:")]
        return result

    with connect(server, revision=date) as client:
        assert [resource["name"] for resource in page.list_resources(client.asker)] == ["logo"]
    assert len(server.resources.values()) == 2


@pytest.mark.spec("server/resources/list-changed", "server/resources/sub-capabilities-optional")
@pytest.mark.parametrize("date", LEGACY)
def test_clients_of_the_legacy_era_are_told_of_changes(date):
    server, told = shop(), queue.SimpleQueue()
    with connect(server, revision=date, on_notification=lambda method, params: told.put(method)) as client:
        assert client.server_capabilities["resources"] == {"subscribe": True, "listChanged": True}
        for change in (
            lambda: server.add_resource(lambda: "", "new://a", name="new"),
            lambda: server.remove_resource("new://a"),
            lambda: server.add_resource(lambda a: "", "new://{a}", name="new"),
        ):
            change()
            assert told.get(timeout=PATIENCE) == "notifications/resources/list_changed"


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.spec(
    "server/resources/contents-text-or-blob",
    "server/resources/binary-encoded",
    "server/resources/uri-template-rfc6570",
)
@pytest.mark.parametrize("date", REVISIONS)
def test_text_bytes_and_data_are_read(date):
    with RawClient(shop(), revision=date) as raw:
        for uri, mime_type, contents in (
            ("config://app", "text/markdown", {"text": "# Settings"}),
            ("logo://big", "application/octet-stream", {"blob": base64.b64encode(BYTES).decode()}),
            ("db://books/7", "application/json", {"text": '{"id":7}'}),
            ("file:///a/b.txt", "text/plain", {"text": "a/b.txt"}),
        ):
            result = read(raw, uri)["result"]
            assert valid(date, "ReadResourceResult", result)
            assert result["contents"] == [{"uri": uri, "mimeType": mime_type, **contents}]


@pytest.mark.spec("server/resources/multiple-contents")
@pytest.mark.parametrize("date", REVISIONS)
def test_several_contents_come_as_the_revision_has_them(date):
    server = Server("several")

    @server.resource("dir://one")
    def both() -> list[ResourceContents]:
        meta = {"com.example/x": 1}
        return [{"text": "a", "_meta": meta}, {"uri": "dir://one/b", "blob": "AAA=", "_meta": meta}]

    with RawClient(server, revision=date) as raw:
        result = read(raw, "dir://one")["result"]
    assert valid(date, "ReadResourceResult", result)
    first, second = result["contents"]
    assert (first["uri"], first["text"]) == ("dir://one", "a")
    assert (second["uri"], second["blob"]) == ("dir://one/b", "AAA=")
    assert ("_meta" in first, "_meta" in second) == (date >= "2025-06-18",) * 2


@pytest.mark.spec("server/resources/no-empty-contents")
@pytest.mark.parametrize("date", REVISIONS)
def test_only_what_exists_may_be_empty(date):
    server = Server("empty")

    @server.resource("dir://empty")
    def fixed() -> list[ResourceContents]:
        return []

    @server.resource("dir://some/{name}")
    def some(name: str) -> list[ResourceContents]:
        return []

    with RawClient(server, revision=date) as raw:
        assert read(raw, "dir://empty")["result"]["contents"] == []
        error = read(raw, "dir://some/a")["error"]
        assert (error["code"], error["data"]) == (NOT_FOUND[date], {"uri": "dir://some/a"})


def test_a_resource_has_its_own_hints_and_others_those_of_the_server():
    server = shop()
    server.add_resource(lambda: "", "x://own", name="own", ttl_ms=5000, cache_scope="public")
    server.add_resource(lambda a: "", "x://own/{a}", name="own", ttl_ms=7)
    with RawClient(server, revision=MODERN) as raw:

        def hints(uri):
            result = read(raw, uri)["result"]
            return result["ttlMs"], result["cacheScope"]

        assert hints("x://own") == (5000, "public")
        assert hints("x://own/1") == (7, "private")
        assert hints("config://app") == (0, "private")
    with RawClient(server, revision=LEGACY[-1]) as raw:
        assert read(raw, "x://own")["result"].keys() == {"contents"}


class Shelf:
    """A directory that has one file, and counts how often it was looked through."""

    def __init__(self, uri):
        self.uri, self.looks = uri, 0

    def find(self, uri):
        if uri != self.uri:
            return None
        return RegisteredResource({"uri": uri, "name": "f"}, lambda ctx: [{"uri": uri, "text": "of a file"}])

    def watch(self, server):
        return contextlib.nullcontext()

    def refresh(self, server):
        self.looks += 1


@pytest.mark.parametrize("date", REVISIONS)
def test_a_resource_goes_before_a_template_and_a_template_before_a_directory(date):
    server = Server("layers")
    server.directories = (Shelf("x://a/b"), Shelf("x://c/d/e"))
    server.add_resource(lambda a: "first template", "x://{a}", name="one")
    server.add_resource(lambda a: "second template", "x://a{/a}", name="two")
    server.add_resource(lambda: "resource", "x://a", name="r")
    with RawClient(server, revision=date) as raw:

        def text(uri):
            return read(raw, uri)["result"]["contents"][0]["text"]

        assert text("x://a") == "resource"
        assert text("x://ab") == "first template"
        assert text("x://a/b") == "second template"
        assert text("x://c/d/e") == "of a file"
        server.remove_resource("x://a{/a}")
        assert text("x://a/b") == "of a file"
        raw.request("resources/list")
        assert [directory.looks for directory in server.directories] == [1, 1]


def test_a_long_text_is_read_whole():
    server, long = Server("long"), "ü\n" * 1_000_000
    server.add_resource(lambda: long, "x://long", name="long")
    with connect(server) as client:
        assert client.read_resource("x://long")["contents"][0]["text"] == long


def test_many_read_at_once_and_none_waits_for_another():
    server, all_here = Server("many"), threading.Barrier(10)

    @server.resource("x://{n}")
    def one(n: int) -> int:
        all_here.wait(PATIENCE)
        return n

    with connect(server) as client:
        calls = [client.submit("resources/read", {"uri": f"x://{n}"}) for n in range(10)]
        texts = [call.result(PATIENCE)["contents"][0]["text"] for call in calls]
    assert texts == [str(n) for n in range(10)]


ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}


def asking():
    server, runs = Server("asking"), []

    @server.resource("own://{name}", ttl_ms=5)
    def listed(name: str, ctx: Context) -> list[str]:
        runs.append(name)
        return [root["name"] for root in ctx.list_roots()]

    return server, runs


@pytest.mark.spec("server/resources/input-required")
def test_in_2026_07_28_reading_may_need_input_first():
    server, runs = asking()
    declared = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}}
    with RawClient(server, revision=MODERN) as raw:
        params = {"uri": "own://a", **declared}
        asked = raw.request("resources/read", params)["result"]
        assert valid(MODERN, "InputRequiredResult", asked)
        assert asked["resultType"] == "input_required"
        assert not asked.keys() & {"ttlMs", "cacheScope", "contents"}
        ((key, question),) = asked["inputRequests"].items()
        assert question["method"] == "roots/list"
        answers = {"inputResponses": {key: ROOTS}, "requestState": asked["requestState"]}
        result = raw.request("resources/read", {**params, **answers})["result"]
        assert result["contents"][0]["text"] == '["home"]'
        assert result["ttlMs"] == 5
        elsewhere = raw.request("resources/read", {**params, **answers, "uri": "own://b"})["error"]
        assert elsewhere["code"] == -32602
    assert runs == ["a", "a"]


@pytest.mark.parametrize("date", LEGACY)
def test_until_2025_11_25_the_question_travels_while_the_resource_waits(date):
    server, runs = asking()
    with RawClient(server, revision=date, capabilities={"roots": {}}) as raw:
        name = raw.ask("resources/read", {"uri": "own://a"})
        question = raw.until(lambda message: message.get("method") == "roots/list")
        raw.send({"jsonrpc": "2.0", "id": question["id"], "result": ROOTS})
        assert raw.answer(name)["result"]["contents"][0]["text"] == '["home"]'
    assert runs == ["a"]


@pytest.mark.parametrize("date", REVISIONS)
def test_who_did_not_declare_it_is_not_asked(date):
    server, _ = asking()
    with RawClient(server, revision=date) as raw:
        assert read(raw, "own://a")["error"]["code"] == (-32021 if date == MODERN else -32603)


@pytest.mark.spec("server/resources/input-required")
def test_a_question_of_the_authors_own_making_is_sent():
    server = Server("own")

    @server.resource("own://one")
    def own(ctx: Context) -> object:
        if "requestState" in ctx.params:
            return "go on"
        return {"resultType": "input_required", "requestState": "a note to myself"}

    with RawClient(server, revision=MODERN) as raw:
        asked = read(raw, "own://one")["result"]
        assert valid(MODERN, "InputRequiredResult", asked)
        params = {"uri": "own://one", "requestState": asked["requestState"]}
        assert raw.request("resources/read", params)["result"]["contents"][0]["text"] == "go on"


# -- not found -----------------------------------------------------------------------------------


@pytest.mark.spec("basic/index/no-emit-32002")
@pytest.mark.spec("server/resources/not-found-32602", "server/resources/not-found-data-uri")
def test_an_unknown_resource_is_32602_in_2026_07_28():
    check_not_found(MODERN, -32602)


@pytest.mark.spec("server/resources/not-found-32002", "server/resources/not-found-data-uri")
@pytest.mark.parametrize("date", LEGACY)
def test_an_unknown_resource_is_32002_until_2025_11_25(date):
    check_not_found(date, -32002)


def check_not_found(date, code):
    with RawClient(shop(), revision=date) as raw:
        for uri in ("config://ap", "CONFIG://app", "x:", "db://books/10", "config://app/"):
            error = read(raw, uri)["error"]
            assert error == {"code": code, "message": f"Resource not found: {uri}", "data": {"uri": uri}}
        long = "x://" + "a" * 60_000
        error = read(raw, long)["error"]
        assert (error["code"], error["data"]) == (code, {"uri": long})
        assert len(error["message"]) < 200


@pytest.mark.spec("server/resources/sanitize-file-paths")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_way_out_of_a_template_is_not_found(date):
    with RawClient(shop(), revision=date) as raw:
        for path in ("../a", "a/../../b", "%2e%2e/a", "..%2fa", "%252e%252e/a", "..%5ca", "/etc/passwd"):
            error = read(raw, f"file:///{path}")["error"]
            assert (error["code"], error["data"]) == (NOT_FOUND[date], {"uri": f"file:///{path}"})
        assert raw.is_alive()


BAD = {
    "nothing": ("", "scheme"),
    "a path": ("/etc/passwd", "scheme"),
    "a space": ("x://a b", "percent-encoded"),
    "half a percent-encoding": ("x://a%2", "percent-encoding"),
    "no percent-encoding": ("x://%zz", "percent-encoding"),
    "a newline": ("x://a\nb", "percent-encoded"),
    "an umlaut": ("x://ü", "percent-encoded"),
    "one MiB": ("x://" + "a" * (1 << 20), "characters"),
    "one MiB of nonsense": ("%" * (1 << 20), "characters"),
}


@pytest.mark.spec("server/resources/validate-uris")
@pytest.mark.parametrize(("uri", "said"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("date", REVISIONS)
def test_what_is_no_uri_is_32602_and_the_message_says_why(date, uri, said):
    methods = ["read", *(["subscribe", "unsubscribe"] if date in LEGACY else [])]
    with RawClient(shop(), revision=date) as raw:
        for method in methods:
            error = raw.request(f"resources/{method}", {"uri": uri})["error"]
            assert error["code"] == -32602
            assert error["message"].startswith("uri: ")
            assert said in error["message"]
            assert len(error["message"]) < 300


@pytest.mark.spec("server/resources/validate-uris")
@pytest.mark.parametrize(
    "params", [{}, {"uri": None}, {"uri": 5}, {"uri": ["x://a"]}, {"url": "x://a"}], ids=repr
)
@pytest.mark.parametrize("date", REVISIONS)
def test_params_without_a_uri_are_32602(date, params):
    with RawClient(shop(), revision=date) as raw:
        error = raw.request("resources/read", params)["error"]
        assert error["code"] == -32602
        assert "uri" in error["message"]


@settings(max_examples=100, deadline=None)
@given(uri=st.text(max_size=30) | st.from_regex(r"file:///[./%a-f0-9\\]{0,12}", fullmatch=True))
def test_whatever_the_uri_there_is_an_answer_and_nothing_leads_out(uri):
    context = Context(None, 1, "resources/read", {"uri": uri}, Outbox(print))
    try:
        (item,) = page.on_read_resource(SHOP, {"uri": uri}, context)["contents"]
    except ProtocolError as problem:
        assert problem.code in (-32602, -32002)
    else:
        assert ".." not in item["text"].split("/")
        assert not item["text"].startswith("/")


SHOP = shop()


@pytest.mark.parametrize("date", REVISIONS)
def test_a_variable_of_the_wrong_type_is_named(date):
    with RawClient(shop(), revision=date) as raw:
        error = read(raw, "db://books/seven")["error"]
    assert error["code"] == -32602
    assert "db://books/seven: row: must be an integer" in error["message"]
    assert "data" not in error


# -- failing -------------------------------------------------------------------------------------


@pytest.mark.spec("server/resources/errors")
@pytest.mark.parametrize(
    "problem",
    [OSError(5, "the disk is gone"), ValueError("the disk is gone"), LocalError("the disk is gone")],
    ids=repr,
)
@pytest.mark.parametrize("date", REVISIONS)
def test_a_resource_that_raises_is_32603_with_its_message_and_the_traceback_in_the_log(date, problem, caplog):
    with RawClient(failing(problem), revision=date) as raw:
        error = read(raw, "bad://one")["error"]
        assert error["code"] == -32603
        assert "bad://one" in error["message"]
        assert "the disk is gone" in error["message"]
        assert "Traceback" not in json.dumps(error)
        assert read(raw, "good://one")["result"]["contents"][0]["text"] == "fine"
    (record,) = [r for r in caplog.records if r.name == "mcp_ref.resources"]
    assert record.exc_info[1] is problem


def test_an_answer_that_another_server_gave_is_not_sent_on_as_ours():
    with RawClient(failing(ErrorResponse(-32002, "Not there", {"uri": "x"})), revision=LEGACY[3]) as raw:
        error = read(raw, "bad://one")["error"]
    assert (error["code"], "data" in error) == (-32603, False)
    assert "Not there" in error["message"]


@pytest.mark.parametrize("date", REVISIONS)
def test_an_error_of_the_protocol_goes_as_it_is(date):
    with RawClient(failing(ProtocolError("pay first", code=402, data={"sum": 5})), revision=date) as raw:
        assert read(raw, "bad://one")["error"] == {"code": 402, "message": "pay first", "data": {"sum": 5}}
    with RawClient(failing(InvalidParams("never")), revision=date) as raw:
        assert read(raw, "bad://one")["error"]["code"] == -32602


@pytest.mark.parametrize("problem", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_a_resource_that_would_end_the_server_ends_its_request_only(problem):
    with RawClient(failing(problem), revision=MODERN) as raw:
        assert read(raw, "bad://one")["error"]["code"] == -32603
        assert raw.is_alive()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "returned nothing"),
        ({"text": "a", "blob": ""}, "not both"),
        ([{"blob": "?"}], r"[0].blob: must be base64"),
        (object(), "JSON"),
        (float("inf"), "JSON"),
        ("\ud800", "JSON"),
        ({"text": "a", "_meta": {"a": object()}}, "JSON"),
    ],
    ids=plain,
)
@pytest.mark.parametrize("date", [LEGACY[3], MODERN])
def test_what_is_no_contents_is_32603_and_says_why(date, value, said):
    server = Server("odd")
    server.add_resource(lambda: value, "odd://one", name="odd")
    with RawClient(server, revision=date) as raw:
        error = read(raw, "odd://one")["error"]
        assert error["code"] == -32603
        assert said in error["message"]
        assert raw.is_alive()


@pytest.mark.parametrize("date", REVISIONS)
def test_a_resource_that_is_cancelled_ends(date):
    server, begun, ended = Server("slow"), threading.Event(), threading.Event()

    @server.resource("slow://one")
    def slow(ctx: Context) -> str:
        begun.set()
        try:
            ctx.sleep(PATIENCE)
        except RequestCancelled:
            ended.set()
            raise
        return "too late"

    with RawClient(server, revision=date) as raw:
        name = raw.ask("resources/read", {"uri": "slow://one"})
        assert begun.wait(PATIENCE)
        raw.notify("notifications/cancelled", {"requestId": name})
        assert ended.wait(PATIENCE)
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.parametrize("date", REVISIONS)
def test_a_resource_may_log_and_report_its_progress(date):
    server, reports = Server("talkative"), []

    @server.resource("x://one")
    def one(ctx: Context) -> str:
        ctx.progress(1, 2)
        return "done"

    with connect(server, revision=date) as client:
        result = client.read_resource("x://one", on_progress=lambda *report: reports.append(report[:2]))
    assert (result["contents"][0]["text"], reports) == ("done", [(1, 2)])


def test_not_found_names_a_uri_that_can_be_sent():
    assert page.ResourceNotFound("x://\ud800").to_wire()["data"] == {"uri": "x://\\ud800"}
    with pytest.raises(TypeError, match="uri"):
        page.ResourceNotFound(5)


# -- subscribing ---------------------------------------------------------------------------------


@pytest.mark.spec(
    "server/resources/subscribe-method",
    "server/resources/subscribe-empty-result",
    "server/resources/updated-notification",
)
@pytest.mark.parametrize("date", LEGACY)
def test_who_subscribed_hears_of_that_resource_until_it_unsubscribes(date):
    server = shop()
    with RawClient(server, revision=date) as raw:
        for uri in ("config://app", "db://books/1"):
            assert raw.request("resources/subscribe", {"uri": uri})["result"] == {}
        server.resource_updated("logo://big")
        server.resource_updated("config://app")
        told = raw.receive()
        assert valid(date, "ResourceUpdatedNotification", told)
        assert (told["method"], told["params"]) == (
            "notifications/resources/updated",
            {"uri": "config://app"},
        )
        assert raw.request("resources/unsubscribe", {"uri": "config://app"})["result"] == {}
        server.resource_updated("config://app")
        server.resource_updated("db://books/1")
        assert raw.receive()["params"] == {"uri": "db://books/1"}
        assert raw.is_alive()
        assert raw.aside == []


@pytest.mark.spec("server/resources/updated-on-listen")
def test_in_2026_07_28_who_listens_to_a_uri_hears_of_it():
    server = shop()
    with RawClient(server, revision=MODERN) as raw:
        wanted = {"resourceSubscriptions": ["config://app", "file:///../x", "x y"]}
        name = raw.ask("subscriptions/listen", {"notifications": wanted})
        assert raw.receive()["params"]["notifications"] == {"resourceSubscriptions": ["config://app"]}
        server.resource_updated("logo://big")
        server.resource_updated("config://app")
        told = raw.receive()
    assert told["method"] == "notifications/resources/updated"
    assert told["params"] == {
        "uri": "config://app",
        "_meta": {"io.modelcontextprotocol/subscriptionId": name},
    }


@pytest.mark.parametrize("date", LEGACY)
def test_there_is_no_subscription_to_what_does_not_exist(date):
    with RawClient(shop(), revision=date) as raw:
        for uri in ("config://none", "file:///../a"):
            error = raw.request("resources/subscribe", {"uri": uri})["error"]
            assert (error["code"], error["data"]) == (-32002, {"uri": uri})
            assert raw.request("resources/unsubscribe", {"uri": uri})["result"] == {}


def test_in_2026_07_28_there_is_no_subscribe():
    with RawClient(shop(), revision=MODERN) as raw:
        for method in ("subscribe", "unsubscribe"):
            assert raw.request(f"resources/{method}", {"uri": "config://app"})["error"]["code"] == -32601


# -- the client's half ---------------------------------------------------------------------------


@pytest.mark.spec("server/resources/not-found-32002-accepted")
def test_not_found_is_recognised_in_all_revisions():
    for date in REVISIONS:
        with connect(shop(), revision=date) as client:
            with pytest.raises(ErrorResponse) as missing:
                client.read_resource("x://none")
            assert missing.value.code == NOT_FOUND[date]
            assert page.is_not_found(missing.value)
            with pytest.raises(ErrorResponse) as refused:
                client.read_resource("no uri")
            assert not page.is_not_found(refused.value)
    assert page.is_not_found(ErrorResponse(-32002, "no data"))
    assert not page.is_not_found(ErrorResponse(-32602, "something else", "uri"))
    assert not page.is_not_found(KeyError(-32002))


@pytest.mark.parametrize("modified", ["yesterday", "2026-13-01", "2026-W30-2T12:00Z", ""])
@pytest.mark.spec("server/resources/annotation-values")
def test_the_time_of_a_change_is_one_that_there_is(modified):
    with pytest.raises(ValueError, match="lastModified is a time like"):
        page.check_annotations({"lastModified": modified})


def test_annotations_are_given_back_as_they_are():
    for annotations in ({}, {"priority": 1}, {"lastModified": "2026-07-28T12:00:00Z"}):
        assert page.check_annotations(annotations) is annotations


DEFINITIONS = [
    None,
    {},
    {"uri": "x://a"},
    {"uri": "x://a", "uriTemplate": "x://{a}", "name": "good"},
    {"uri": 5, "uriTemplate": 5, "name": "n"},
    {"uri": "x://a", "uriTemplate": "x://{a}", "name": "n", "annotations": {"priority": 2}},
]


def test_definitions_that_are_none_are_left_out(caplog):
    resources, templates = {"resources": DEFINITIONS}, {"resourceTemplates": DEFINITIONS}
    page.check_resources(None, {}, resources, None)
    page.check_templates(None, {}, templates, None)
    assert resources["resources"] == templates["resourceTemplates"] == [DEFINITIONS[3]]
    assert len(caplog.records) == 2 * (len(DEFINITIONS) - 1)


@pytest.mark.parametrize("found", [{}, {"resources": None}, {"resources": {}}], ids=repr)
def test_a_list_that_is_none_is_noticed(found):
    with pytest.raises(InvalidResponse, match="no list of resources"):
        page.check_resources(None, {}, found, None)
    with pytest.raises(InvalidResponse, match="no list of resourceTemplates"):
        page.check_templates(None, {}, found, None)


WRONG = {
    "none": {},
    "no list": {"contents": {}},
    "no object": {"contents": ["a"]},
    "no uri": {"contents": [{"text": "a"}]},
    "neither": {"contents": [{"uri": "x://a"}]},
    "no text": {"contents": [{"uri": "x://a", "text": None}]},
    "no base64": {"contents": [{"uri": "x://a", "text": "a"}, {"uri": "x://a", "blob": "????"}]},
    "half a base64": {"contents": [{"uri": "x://a", "blob": "AAA"}]},
    "not ASCII": {"contents": [{"uri": "x://a", "blob": "ü"}]},
}


@pytest.mark.spec("server/resources/contents-text-or-blob", "server/resources/binary-encoded")
@pytest.mark.parametrize("result", WRONG.values(), ids=WRONG)
def test_contents_that_are_none_are_noticed(result):
    with pytest.raises(InvalidResponse, match=r"resources/read x://a: .*contents"):
        page.check_read(None, {"uri": "x://a"}, result, None)


def test_contents_that_are_good_or_not_there_yet_pass():
    page.check_read(None, {}, {"contents": []}, None)
    page.check_read(None, {}, {"contents": [{"uri": "x://a", "blob": "", "more": 1}]}, None)
    page.check_read(None, {}, {"resultType": "input_required", "requestState": "x"}, None)


def test_bad_contents_are_refused_also_where_the_request_had_no_uri():
    """A raw request may lack it, and a server answer all the same."""
    with pytest.raises(InvalidResponse, match=r"^resources/read None: contents\[0\].blob: "):
        page.check_read(None, {}, {"contents": [{"uri": "x://a", "blob": "%%%"}]}, None)


@pytest.mark.spec("server/resources/meta-on-requests")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_request_has_what_the_page_says_and_no_more(date):
    script = f"""
        ABLE = {{"resources": {{}}}}
        open_any({date!r})
        go_on({{"resultType": "complete", "contents": [{{"uri": "x://a", "text": "hello"}}]}})
    """
    notes = Notes()
    with connect(raw_server(script), revision=date, options=ClientOptions(on_stderr=notes)) as client:
        assert client.read_resource("x://a")["contents"][0]["text"] == "hello"
        params = notes.message("resources/read")["params"]
    meta = params.pop("_meta", {})
    assert params == {"uri": "x://a"}
    if date == MODERN:
        assert {
            f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientCapabilities")
        } <= meta.keys()


@pytest.mark.spec("server/resources/binary-encoded")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_client_checks_what_it_gets(date):
    script = f"""
        ABLE = {{"resources": {{}}}}
        open_any({date!r})
        go_on({{
            "resultType": "complete",
            "resources": [{{"uri": "x://a"}}, {{"uri": "x://b", "name": "b"}}],
            "resourceTemplates": [{{"uriTemplate": 5, "name": "a"}}],
            "contents": [{{"uri": "x://a", "blob": "?"}}],
        }})
    """
    with connect(raw_server(script), revision=date) as client:
        assert client.list_resources() == [{"uri": "x://b", "name": "b"}]
        assert client.list_resource_templates() == []
        with pytest.raises(InvalidResponse, match=r"contents\[0\].blob: must be base64"):
            client.read_resource("x://a")
