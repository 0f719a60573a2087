"""schema, "Content": blocks, the functions that make them, and what older clients get instead."""

import base64

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import MODERN, REVISIONS

from mcp_ref import Context, Server, ServerOptions, connect
from mcp_ref.basic.versioning import revision
from mcp_ref.schema import Mismatch, definitions
from mcp_ref.server import content

ICON = {"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["16x16"], "theme": "dark"}
HINTS = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
META = {"com.example/key": 1}

BLOCKS = {
    "text": content.text("hello", annotations=HINTS, meta=META),
    "image": content.image(b"\x89PNG", "image/png", annotations=HINTS, meta=META),
    "audio": content.audio(b"RIFF", "audio/wav", annotations=HINTS, meta=META),
    "resource_link": content.resource_link(
        "file:///a.txt",
        "a.txt",
        title="A",
        description="the first",
        mime_type="text/plain",
        size=3,
        icons=[ICON],
        annotations=HINTS,
        meta=META,
    ),
    "resource": content.embedded("file:///a.txt", "abc", "text/plain", annotations=HINTS, meta=META),
}


# -- making --------------------------------------------------------------------------------------


@pytest.mark.spec("server/tools/resource-links")
def test_the_functions_make_the_blocks_of_the_page():
    assert content.text("hi") == {"type": "text", "text": "hi"}
    assert content.image(b"abc", "image/png") == {"type": "image", "data": "YWJj", "mimeType": "image/png"}
    assert content.audio(b"abc", "audio/wav") == {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}
    link = content.resource_link("file:///a", "a")
    assert link == {"type": "resource_link", "uri": "file:///a", "name": "a"}
    assert BLOCKS["resource_link"] == {
        **content.resource_link("file:///a.txt", "a.txt"),
        "title": "A",
        "description": "the first",
        "mimeType": "text/plain",
        "size": 3,
        "icons": [ICON],
        "annotations": HINTS,
        "_meta": META,
    }


@pytest.mark.spec("schema/text-only-if-text", "server/tools/embedded-resources")
def test_text_is_embedded_as_text_and_bytes_as_a_blob():
    assert content.embedded("file:///a", "ü")["resource"] == {"uri": "file:///a", "text": "ü"}
    blob = {"uri": "file:///a", "mimeType": "x/y", "blob": "/w=="}
    assert content.embedded("file:///a", b"\xff", "x/y")["resource"] == blob


@settings(deadline=None, max_examples=50)
@given(st.binary())
def test_bytes_come_back_as_they_were(data):
    for kind in (bytes, bytearray, memoryview):
        assert base64.b64decode(content.image(kind(data), "image/png")["data"], validate=True) == data


@pytest.mark.parametrize("make", [content.image, content.audio])
@pytest.mark.parametrize("data", ["text", None, [1, 2], 5])
def test_pictures_and_sound_are_made_from_bytes(make, data):
    with pytest.raises(TypeError, match="bytes"):
        make(data, "x/y")


@pytest.mark.parametrize("meta", [{"": 1}, {"io.modelcontextprotocol/x": 1}, {"a b": 1}, {"-x": 1}])
@pytest.mark.parametrize("make", [content.text, lambda said, **more: content.embedded("a:b", said, **more)])
def test_meta_keys_that_there_may_not_be_are_refused(make, meta):
    with pytest.raises(ValueError, match=r"_meta|reserved"):
        make("x", meta=meta)


@pytest.mark.spec("basic/index/icon-src-required")
@pytest.mark.parametrize(
    "icon", [{}, {"src": "/a.png"}, {"src": "javascript:alert(1)"}, {"src": "file:///a.png"}, {"src": 5}, "x"]
)
def test_an_icon_without_a_proper_source_is_refused(icon):
    with pytest.raises(ValueError, match="src"):
        content.resource_link("file:///a", "a", icons=[icon])
    with pytest.raises(ValueError, match="src"):
        Server("icons", options=ServerOptions(icons=[icon]))


# -- checking ------------------------------------------------------------------------------------


@pytest.mark.spec("server/tools/content-block-types")
@pytest.mark.parametrize("kind", BLOCKS)
def test_what_the_functions_make_is_content(kind):
    assert content.is_block(BLOCKS[kind])
    content.check_block(BLOCKS[kind])


@pytest.mark.spec("server/tools/content-block-types")
@pytest.mark.parametrize(
    "block",
    [
        None,
        "text",
        {},
        {"type": "video", "data": ""},
        {"type": ["text"], "text": "x"},
        {"type": {}, "text": "x"},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "image", "data": "AAAA"},
        {"type": "audio", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a"},
        {"type": "resource"},
        {"type": "resource", "resource": {"uri": "file:///a"}},
        {"type": "text", "text": "x", "annotations": {"priority": 2}},
        {"type": "text", "text": "x", "annotations": {"audience": ["all"]}},
    ],
    ids=str,
)
def test_what_is_no_content_is_refused(block):
    with pytest.raises(Mismatch):
        content.check_block(block)


# -- older revisions -----------------------------------------------------------------------------


def official(date, block):
    """Raises unless the block is content as the schema of a revision has it."""
    names = ["TextContent", "ImageContent", "EmbeddedResource"]
    names += ["AudioContent"] if date >= "2025-03-26" else []
    names += ["ResourceLink"] if date >= "2025-06-18" else []
    schema = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names], "$defs": definitions(date)}
    jsonschema.Draft202012Validator(schema).validate(block)


@pytest.mark.spec("server/tools/content-block-types")
@pytest.mark.parametrize("date", REVISIONS)
@pytest.mark.parametrize("kind", BLOCKS)
def test_every_block_becomes_one_that_the_revision_has(kind, date):
    (block,) = content.downgrade([BLOCKS[kind]], revision(date))
    official(date, block)
    at = REVISIONS.index(date)
    known = {"audio": 1, "resource_link": 2}.get(kind, 0)
    assert block["type"] == (kind if at >= known else "text")
    if at >= known:
        assert ("_meta" in block) == (at >= 2)
        assert ("lastModified" in block["annotations"]) == (at >= 2)
        assert ("icons" in block) == (kind == "resource_link" and at >= 3)


def test_the_newest_revision_gets_the_blocks_as_they_are():
    blocks = list(BLOCKS.values())
    assert content.downgrade(blocks, revision(MODERN)) == blocks


def test_sound_that_a_client_does_not_know_arrives_as_text_that_says_so():
    (block,) = content.downgrade([content.audio(b"x" * 300, "audio/wav")], revision("2024-11-05"))
    assert block["type"] == "text"
    assert "audio/wav" in block["text"]
    assert "300 bytes" in block["text"]


@pytest.mark.parametrize("date", ["2024-11-05", "2025-03-26"])
def test_a_link_that_a_client_does_not_know_arrives_as_text_with_its_address(date):
    (block,) = content.downgrade([BLOCKS["resource_link"]], revision(date))
    assert block == {"type": "text", "text": "a.txt: the first <file:///a.txt>"}
    (block,) = content.downgrade([content.resource_link("file:///b", "b")], revision(date))
    assert block == {"type": "text", "text": "b <file:///b>"}


def test_the_blocks_of_an_author_are_not_changed():
    before = {kind: dict(block) for kind, block in BLOCKS.items()}
    for date in REVISIONS:
        content.downgrade(list(BLOCKS.values()), revision(date))
    assert before == BLOCKS


@pytest.mark.spec("server/tools/resource-links", "server/tools/embedded-resources")
@pytest.mark.parametrize("date", REVISIONS)
def test_a_tool_may_return_every_kind_to_every_client(date):
    server = Server("content")

    @server.tool
    def show(ctx: Context) -> list[content.ContentBlock]:
        return list(BLOCKS.values())

    with connect(server, revision=date) as client:
        blocks = client.call_tool("show")["content"]
    assert len(blocks) == len(BLOCKS)
    for block in blocks:
        official(date, block)


@pytest.mark.spec("server/tools/resource-links", "server/tools/resource-link-unlisted")
@pytest.mark.parametrize("date", REVISIONS[2:])
def test_a_tool_may_link_what_is_not_listed(date):
    server = Server("links")
    server.add_resource(lambda: "listed", "x://listed", name="listed")
    server.add_resource(lambda name: f"the text of {name}", "x://{name}", name="any")

    @server.tool
    def show() -> list[content.ContentBlock]:
        return [content.resource_link("x://unlisted", "unlisted")]

    with connect(server, revision=date) as client:
        (link,) = client.call_tool("show")["content"]
        assert (link["type"], link["uri"]) == ("resource_link", "x://unlisted")
        assert [resource["uri"] for resource in client.list_resources()] == ["x://listed"]
        assert client.read_resource(link["uri"]).text == "the text of unlisted"


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\nb"),
        ([], ""),
        (None, ""),
        ("text", ""),
        ([None, 5, {"type": "text"}, {"type": "text", "text": 7}, {"type": "text", "text": "c"}], "c"),
    ],
)
def test_the_text_of_content_is_its_text_blocks_on_lines_of_their_own(blocks, said):
    assert content.texts(blocks) == said


@pytest.mark.spec("server/resources/binary-encoded")
@pytest.mark.parametrize("blob", ["", "AAEC", "/+8="])
def test_base64_is_taken(blob):
    content.check_base64(blob)


@pytest.mark.parametrize("blob", ["AAE", "A E C", "AA_-", "\u00e4AAA", "AAAA\n", "!", 5, None])
def test_what_is_no_base64_is_refused_with_its_place(blob):
    with pytest.raises(Mismatch, match=r"contents\[0\]\.blob: must be base64"):
        content.check_base64(blob, ("contents", 0, "blob"))
