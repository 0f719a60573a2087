"""server/resources, "Data Types": how functions become resources and templates, and what they give."""

import base64
import dataclasses
import datetime
import enum
import functools
import json
import logging
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import plain

from mcp_ref.api.context import Context
from mcp_ref.api.from_function.resource import resource_from
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.runtime.threads.outbox import Outbox
from mcp_ref.runtime.uri.templates import BadTemplate
from mcp_ref.runtime.uri.uris import BadUri
from mcp_ref.schema import Mismatch
from mcp_ref.server.content import BlobResourceContents, TextResourceContents
from mcp_ref.server.resources import RegisteredResource, RegisteredTemplate, ResourceNotFound

URI = "config://app"


class Kind(enum.Enum):
    BIG = "big"
    SMALL = "small"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Labelled(typing.TypedDict):
    text: str
    level: int


def text(path: str = "") -> str:
    return path


def context(uri=URI):
    return Context(None, 1, "resources/read", {"uri": uri}, Outbox(print))


def definition(function, uri=URI, **options):
    return resource_from(function, uri, **options).definition


def read(function, uri=URI, **options):
    """The contents of a resource."""
    return resource_from(function, uri, **options).read(context())


def returns(value, **options):
    return read(lambda: value, name="it", **options)


def match(function, template, uri, **options):
    """What a template makes of a URI; None if it is not one of its own."""
    found = resource_from(function, template, **options).find(uri)
    return None if found is None else found.read(context(uri))


# -- definitions ---------------------------------------------------------------------------------


def test_the_name_is_the_functions_and_the_description_its_docstring():
    def settings() -> str:
        """What was set.

        Returns:
            all of it
        """
        return ""

    assert definition(settings) == {"uri": URI, "name": "settings", "description": "What was set."}
    assert isinstance(resource_from(settings, URI), RegisteredResource)
    assert resource_from(settings, URI).hints is None


def test_a_uri_with_variables_is_a_template():
    def file(path: str) -> str:
        """A file."""
        return path

    made = resource_from(file, "file:///{+path}", mime_type="text/x-rust")
    assert isinstance(made, RegisteredTemplate)
    assert made.definition == {
        "uriTemplate": "file:///{+path}",
        "name": "file",
        "description": "A file.",
        "mimeType": "text/x-rust",
    }


@pytest.mark.spec("server/resources/file-xdg-mime")
def test_a_definition_has_what_the_author_says():
    options = {
        "name": "app",
        "title": "The app",
        "description": "Its settings",
        "icons": [{"src": "https://example.org/i.png"}],
        "annotations": {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-07-28"},
    }
    found = definition(lambda: "", mime_type="inode/directory", size=0, meta={"com.example/a": 1}, **options)
    more = {"mimeType": "inode/directory", "size": 0, "_meta": {"com.example/a": 1}}
    assert found == {"uri": URI, **options, **more}


def test_its_own_hints_are_kept():
    assert resource_from(text, URI, ttl_ms=5).hints == {"ttlMs": 5, "cacheScope": "private"}
    assert resource_from(text, URI, cache_scope="public").hints == {"ttlMs": 0, "cacheScope": "public"}


@pytest.mark.spec("server/resources/annotation-values")
@pytest.mark.parametrize(
    "annotations",
    [
        {"audience": ["model"]},
        {"audience": "user"},
        {"priority": 1.1},
        {"priority": -0.1},
        {"priority": float("nan")},
        {"priority": "high"},
        {"lastModified": "yesterday"},
        {"lastModified": "2026-13-01"},
        {"lastModified": "2026-07-28x12:00"},
        {"lastModified": "2026-07-28T25:00:00Z"},
        {"lastModified": datetime.datetime(2026, 7, 28)},
        [],
    ],
    ids=repr,
)
def test_annotations_have_the_values_of_the_page(annotations):
    """server/resources, "Annotations"."""
    for uri in (URI, "file:///{+path}"):
        with pytest.raises(ValueError, match=r"audience|priority|lastModified|object"):
            resource_from(text, uri, annotations=annotations)


@pytest.mark.spec("server/resources/annotation-values")
@pytest.mark.parametrize("when", ["2025-01-12T15:00:58Z", "20250112T150058+0100", "2025-01-12T15:00:58.5"])
def test_last_modified_is_iso_8601(when):
    assert definition(text, annotations={"lastModified": when})["annotations"]["lastModified"] == when


@pytest.mark.spec("server/resources/validate-uris", "server/resources/custom-scheme-rfc3986")
@pytest.mark.parametrize(
    "uri", ["", "app", "/etc/passwd", "con fig://x", "1a://x", "a_b://x", "x://%zz", "x://ü"]
)
def test_a_uri_is_one_by_rfc_3986(uri):
    with pytest.raises(BadUri):
        resource_from(text, uri)


@pytest.mark.spec("server/resources/uri-template-rfc6570")
@pytest.mark.parametrize(
    "uri", ["x://{", "x://{}", "x://{a", "x://{a b}", "x://{=a}", "x://{a}}", "x://{a:0}"]
)
def test_a_template_that_does_not_parse_is_refused_at_registration(uri):
    with pytest.raises(BadTemplate):
        resource_from(lambda a: a, uri, name="x")


def test_the_variables_are_the_parameters():
    def one(a: str, b: int = 0, ctx: Context = None) -> str:
        return f"{a} {b}"

    assert match(one, "x://{a}", "x://1")[0]["text"] == "1 0"
    assert match(one, "x://{a}/{b}", "x://1/2")[0]["text"] == "1 2"
    for uri, said in [
        ("x://{b}", "no variable for the parameter a"),
        ("x://{a}/{c}/{d}", "no parameter c, d"),
        ("x://{a}/{ctx}", "no parameter ctx"),
        ("x://fixed", "no variable for the parameter a"),
    ]:
        with pytest.raises(ValueError, match=said):
            resource_from(one, uri)
    assert match(lambda **all_: sorted(all_), "x://{a}/{b}", "x://1/2", name="n")[0]["text"] == '["a","b"]'


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (TypeError, {"size": 1.5}),
        (ValueError, {"size": -1}),
        (TypeError, {"size": True}),
        (ValueError, {"name": ""}),
        (ValueError, {"name": 5}),
        (ValueError, {"title": 5}),
        (ValueError, {"mime_type": b"text/plain"}),
        (ValueError, {"icons": [{"src": "javascript:alert(1)"}]}),
        (ValueError, {"meta": {"mcp.dev/x": 1}}),
        (TypeError, {"meta": {"com.example/x": object()}}),
        (ValueError, {"ttl_ms": -1}),
        (ValueError, {"cache_scope": "everyone"}),
        (ValueError, {"complete": {"path": ["a"]}}),
    ],
    ids=plain,
)
def test_what_cannot_be_is_refused_at_registration(problem, options):
    with pytest.raises(problem):
        resource_from(text, URI, **options)


def test_a_function_without_a_name_needs_one():
    with pytest.raises(ValueError, match="pass name"):
        resource_from(functools.partial(text, "a"), URI)
    assert definition(functools.partial(text, "a"), name="a")["name"] == "a"


def test_other_things_than_functions_and_texts_are_refused():
    with pytest.raises(TypeError, match="function"):
        resource_from("text", URI)
    with pytest.raises(TypeError, match="uri"):
        resource_from(text, 5)

    async def later() -> str:
        return ""

    with pytest.raises(TypeError, match="asynchronous"):
        resource_from(later, URI)


def test_a_template_has_no_size():
    with pytest.raises(ValueError, match="size"):
        resource_from(text, "file:///{+path}", size=5)


@pytest.mark.spec("server/resources/https-only-if-fetchable", "server/resources/https-otherwise-other-scheme")
def test_a_https_uri_gives_a_remark_in_the_log(caplog):
    caplog.set_level(logging.INFO, "mcp_ref.resources")
    resource_from(text, "custom://a")
    assert caplog.records == []
    resource_from(text, "HTTPS://example.org/a")
    assert "another scheme" in caplog.text


# -- contents ------------------------------------------------------------------------------------


@pytest.mark.spec("server/resources/contents-text-or-blob", "schema/text-only-if-text")
def test_a_string_is_text():
    assert returns("hello") == [{"uri": URI, "mimeType": "text/plain", "text": "hello"}]
    assert returns("", mime_type="text/css") == [{"uri": URI, "mimeType": "text/css", "text": ""}]


@pytest.mark.spec("server/resources/contents-text-or-blob", "server/resources/binary-encoded")
@given(data=st.binary(max_size=100))
def test_bytes_are_real_base64(data):
    for value in (data, bytearray(data), memoryview(data)):
        (item,) = returns(value)
        assert (item["uri"], item["mimeType"]) == (URI, "application/octet-stream")
        assert base64.b64decode(item["blob"], validate=True) == data
        assert "text" not in item
    assert returns(data, mime_type="image/png")[0]["mimeType"] == "image/png"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Point(1), {"x": 1, "y": 0}),
        ({"a": [Point(1, 2)]}, {"a": [{"x": 1, "y": 2}]}),
        ([], []),
        ([1, "a", None], [1, "a", None]),
        (["a"], ["a"]),
        ({}, {}),
        (0, 0),
        (True, True),
        (Kind.BIG, "big"),
        (datetime.date(2026, 7, 28), "2026-07-28"),
        ({"text": "a", "level": 1}, {"text": "a", "level": 1}),
        ([{"text": "a"}, {"id": 1}], [{"text": "a"}, {"id": 1}]),
        ({"uri": "x://a", "mimeType": "text/plain"}, {"uri": "x://a", "mimeType": "text/plain"}),
    ],
    ids=repr,
)
def test_data_is_its_json(value, written):
    (item,) = returns(value)
    assert (item["uri"], item["mimeType"]) == (URI, "application/json")
    assert json.loads(item["text"]) == written
    assert returns(value, mime_type="application/geo+json")[0]["mimeType"] == "application/geo+json"


@pytest.mark.spec("server/resources/multiple-contents", "server/resources/contents-text-or-blob")
def test_contents_that_are_ready_are_taken_as_they_are():
    assert returns({"text": "a"}) == [{"uri": URI, "text": "a"}]
    assert returns({"text": "a"}, mime_type="text/css") == [{"uri": URI, "mimeType": "text/css", "text": "a"}]
    several = [
        {"uri": "file:///a", "text": "a"},
        {"uri": "file:///b", "mimeType": "image/png", "blob": "AAA=", "_meta": {"com.example/a": 1}},
        {"blob": b"\0\0", "mimeType": "a/b"},
    ]
    assert returns(several, mime_type="inode/directory") == [
        several[0],
        several[1],
        {"uri": URI, "blob": "AAA=", "mimeType": "a/b"},
    ]
    assert returns(tuple(several)) == returns(several)


@pytest.mark.spec("server/resources/contents-text-or-blob", "server/resources/binary-encoded")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"text": "a", "blob": "AAA="}, "not both"),
        ({"text": 5}, "text"),
        ({"text": None}, "text"),
        ({"blob": "no base64"}, "blob: must be base64"),
        ({"blob": "AAA"}, "blob: must be base64"),
        ({"blob": "ü"}, "blob: must be base64"),
        ({"blob": 5}, "blob"),
        ({"text": "a", "mimeType": 5}, "mimeType"),
        ({"text": "a", "uri": 5}, "uri"),
        ({"text": "a", "uri": "no uri"}, "uri: "),
        ({"text": "a", "_meta": []}, "_meta"),
        ([{"text": "a"}, {"blob": "?"}, {"text": 5}], r"\[1\].blob: .*; \[2\].text: "),
        ({object()}, "JSON"),
        ({"a": object()}, "JSON"),
        (float("nan"), "JSON"),
    ],
    ids=plain,
)
def test_contents_that_are_none_are_refused(value, said):
    with pytest.raises(ValueError, match=said):
        returns(value)


@pytest.mark.spec("server/resources/no-empty-contents")
def test_nothing_is_no_contents():
    with pytest.raises(Mismatch, match="returned nothing"):
        returns(None)


def test_own_keys_of_meta_are_checked():
    with pytest.raises(ValueError, match="reserved"):
        returns({"text": "a", "_meta": {"mcp.dev/x": 1}})


def test_an_empty_list_is_data_unless_contents_were_declared():
    def rows() -> list[Labelled]:
        return []

    def parts() -> list[TextResourceContents | BlobResourceContents]:
        return []

    assert read(rows)[0]["text"] == "[]"
    assert read(parts) == []


@pytest.mark.spec("server/resources/no-empty-contents")
def test_no_contents_from_a_template_are_not_found():
    def rows(table: str) -> list[Labelled]:
        return []

    def parts(table: str) -> list[TextResourceContents]:
        return []

    assert match(rows, "db://{table}", "db://a")[0]["text"] == "[]"
    with pytest.raises(ResourceNotFound) as missing:
        match(parts, "db://{table}", "db://a")
    assert missing.value.data == {"uri": "db://a"}


# -- reading -------------------------------------------------------------------------------------


def test_the_context_is_given_to_whoever_wants_it():
    seen = []

    def resource(ctx: Context) -> str:
        seen.append(ctx)
        return ""

    def template(a: str, ctx: Context) -> str:
        seen.append(ctx)
        return ""

    one = context()
    resource_from(resource, URI).read(one)
    resource_from(template, "x://{a}").find("x://1").read(one)
    assert seen == [one, one]


@pytest.mark.spec("server/resources/input-required")
def test_a_question_is_passed_on():
    question = {"resultType": "input_required", "requestState": "here"}
    assert returns(question) is question


def test_what_the_function_raises_is_left_to_the_page():
    def broken() -> str:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        read(broken)


@pytest.mark.spec("server/resources/uri-template-rfc6570")
def test_a_template_gives_resources():
    def one(table: str, row: int) -> dict[str, typing.Any]:
        return {"table": table, "row": row}

    made = resource_from(one, "db://{table}/{row}", title="A row", ttl_ms=5)
    assert made.find("db://a") is None
    assert made.find("xdb://a/1") is None
    found = made.find("db://a%20b/1")
    assert found.definition == {"uri": "db://a%20b/1", "name": "one", "title": "A row"}
    assert found.hints == made.hints == {"ttlMs": 5, "cacheScope": "private"}
    (item,) = found.read(context())
    assert item["uri"] == "db://a%20b/1"
    assert json.loads(item["text"]) == {"table": "a b", "row": 1}


@pytest.mark.parametrize(
    ("uri", "said"),
    [("x://a/big", "n: "), ("x://1.5/big", "n: "), ("x://1/middle", "kind: ")],
)
def test_variables_have_the_types_of_the_hints(uri, said):
    def one(n: int, kind: Kind) -> str:
        return f"{n!r} {kind}"

    assert match(one, "x://{n}/{kind}", "x://7/big")[0]["text"] == "7 Kind.BIG"
    with pytest.raises(InvalidParams, match=f"{uri}: {said}"):
        match(one, "x://{n}/{kind}", uri)


def test_a_variable_that_is_not_there_is_named():
    def one(a: str, q: str) -> str:
        return a + q

    def other(a: str, q: str = "-") -> str:
        return a + q

    assert match(one, "x://{a}{?q}", "x://1?q=2")[0]["text"] == "12"
    assert match(other, "x://{a}{?q}", "x://1")[0]["text"] == "1-"
    with pytest.raises(InvalidParams, match="q"):
        match(one, "x://{a}{?q}", "x://1")


OUT = [
    "file:///../etc/passwd",
    "file:///a/../../b",
    "file:///%2e%2e/etc/passwd",
    "file:///..%2Fetc",
    "file:///%2Fetc/passwd",
    "file:////etc/passwd",
    "file:///a/..",
    "file:///..%5Cetc",
    "file:///a%00b",
    "file:///C:/windows",
]


@pytest.mark.spec("server/resources/sanitize-file-paths")
@pytest.mark.parametrize("uri", OUT)
def test_a_variable_that_leads_out_is_not_found(uri, caplog):
    def file(path: str) -> str:
        return path

    with pytest.raises(ResourceNotFound) as missing:
        match(file, "file:///{+path}", uri)
    assert missing.value.data == {"uri": uri}
    assert "path leads out" in caplog.text


def test_dots_within_names_lead_nowhere():
    def file(path: str) -> str:
        return path

    for path in ("a/b.txt", "..a", "a..b", ".hidden", "a/.../b"):
        assert match(file, "file:///{+path}", f"file:///{path}")[0]["text"] == path


def test_an_author_may_allow_it():
    def file(path: str) -> str:
        return path

    for uri in OUT:
        assert match(file, "file:///{+path}", uri, allow_traversal=True) is not None


def test_choices_complete_by_themselves_and_others_as_the_author_says():
    def one(kind: Kind, name: str) -> str:
        return name

    made = resource_from(one, "x://{kind}/{name}", complete={"name": ["anna", "otto"]})
    assert set(made.complete) == {"kind", "name"}
    with pytest.raises(ValueError, match="nobody"):
        resource_from(one, "x://{kind}/{name}", complete={"nobody": []})


@pytest.mark.parametrize("uri", ["no{a}", "{a}", "/x/{a}", "1x:{a}"])
def test_a_template_whose_uris_could_have_no_scheme_is_refused(uri):
    def read(a: str) -> str:
        return a

    with pytest.raises(ValueError, match="scheme"):
        resource_from(read, uri)
