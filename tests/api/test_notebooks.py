"""api/notebooks: what a notebook shows of a result, and that nothing of it is the server's own HTML."""

import base64
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref import Result, Server, connect
from mcp_ref.api.notebooks import MAX_BLOCKS, MAX_MEDIA_CHARACTERS, MAX_TEXT_CHARACTERS, as_html
from mcp_ref.server.content import audio, embedded, image, resource_link, text

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The tags of a piece of HTML with their attributes, and its text."""

    TAGS = frozenset({"p", "b", "i", "pre", "img", "audio"})
    ATTRIBUTES = frozenset({"style", "alt", "src", "controls"})

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.tags, self.sources, self.said = [], [], ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert tag in self.TAGS
        assert {name for name, _ in attributes} <= self.ATTRIBUTES
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name == "src"]
        assert all(value.startswith(("data:image/", "data:audio/")) for value in self.sources)

    def handle_data(self, data):
        self.said += data


def shown(**result):
    return Page(Result(result)._repr_html_())


def test_a_notebook_shows_the_text_and_the_pictures_of_a_result():
    server = Server("plots")

    @server.tool
    def plot():
        return ["Rain & <sun>", image(PNG, "image/png"), audio(b"RIFF", "audio/wav")]

    with connect(server) as client:
        page = Page(client.call_tool("plot")._repr_html_())
    assert page.tags == ["pre", "p", "img", "p", "audio"]
    assert page.said == "Rain & <sun>"
    assert page.sources == [
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
        f"data:audio/wav;base64,{base64.b64encode(b'RIFF').decode()}",
    ]


def test_resources_and_prompts_are_shown_too():
    server = Server("library")

    @server.resource("book://1")
    def book() -> str:
        return "It was <b>dark</b>."

    @server.resource("cover://1", mime_type="image/png")
    def cover() -> bytes:
        return PNG

    @server.prompt
    def review() -> str:
        return "Is it <i>good</i>?"

    with connect(server) as client:
        assert Page(client.read_resource("book://1")._repr_html_()).said == "book://1It was <b>dark</b>."
        assert Page(client.read_resource("cover://1")._repr_html_()).tags == ["p", "i", "p", "img"]
        assert Page(client.get_prompt("review")._repr_html_()).said == "userIs it <i>good</i>?"
        assert "review" in Page(client.request("prompts/list")._repr_html_()).said


def test_a_tool_that_failed_is_shown_as_one():
    page = shown(content=[text("the well is dry")], isError=True)
    assert page.said == "the tool failedthe well is dry"


def test_data_is_shown_where_there_is_no_text_of_it():
    assert shown(content=[], structuredContent={"a": EVIL}).said == repr({"a": EVIL})
    assert shown(content=[text("1")], structuredContent={"result": 1}).said == "1"
    assert shown().said == "{}"


@pytest.mark.parametrize(
    "block",
    [
        text(EVIL),
        {"type": "image", "data": EVIL, "mimeType": "image/png"},
        {"type": "image", "data": "AAAA", "mimeType": EVIL},
        {"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"},
        {"type": "image", "data": "AAAA", "mimeType": "text/html"},
        {"type": "audio", "data": 'AAAA" onerror="x', "mimeType": "audio/wav"},
        {"type": "image", "data": None, "mimeType": None},
        {"type": "image"},
        {"type": EVIL},
        {"type": "text", "text": {"a": EVIL}},
        {"type": "resource_link", "uri": f"javascript:{EVIL}", "name": EVIL},
        {"type": "resource_link"},
        {"type": "resource", "resource": {"uri": EVIL, "text": EVIL}},
        {"type": "resource", "resource": {"uri": [EVIL], "blob": EVIL, "mimeType": EVIL}},
        {"type": "resource", "resource": EVIL},
        EVIL,
        None,
        [EVIL],
    ],
    ids=repr,
)
def test_what_a_server_sent_is_text_and_never_html(block):
    for result in ({"content": [block]}, {"messages": [{"role": EVIL, "content": block}]}):
        page = shown(**result)
        assert page.sources == []
        assert set(page.tags) <= {"p", "i", "pre"}


def test_links_are_named_and_cannot_be_followed():
    page = shown(content=[resource_link("https://example.com/", "a.txt"), embedded("file:///b", "its text")])
    assert page.said == "a.txt https://example.com/file:///bits text"
    assert "a" not in page.tags


def test_what_is_too_large_is_named_or_cut():
    long = shown(content=[text("a" * (MAX_TEXT_CHARACTERS + 1))])
    assert long.said == "a" * MAX_TEXT_CHARACTERS + "..."
    large = {"type": "image", "mimeType": "image/png", "data": "A" * (MAX_MEDIA_CHARACTERS + 4)}
    assert (shown(content=[large]).sources, shown(content=[large]).said) == (
        [],
        "image/png: about 15728643 bytes",
    )
    assert shown(content=[text("a")] * (MAX_BLOCKS + 1)).said == "a" * MAX_BLOCKS


def test_characters_that_mislead_are_replaced():
    assert shown(content=[text("a\u202eb\x1b[31m\ud800c\nd")]).said == "a\ufffdb\ufffd[31m\ufffdc\nd"


MEMBERS = st.sampled_from(
    ["type", "text", "data", "mimeType", "resource", "uri", "name", "blob", "content", "role", EVIL]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(EVIL),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=5),
)


@given(st.dictionaries(st.sampled_from(["content", "messages", "contents", "structuredContent"]), JSON))
def test_every_result_can_be_shown(result):
    page = Page(as_html(result))
    assert set(page.tags) <= {"p", "i", "b", "pre"}
