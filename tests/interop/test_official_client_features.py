"""The official Python SDK's client against a server of ours: everything but tools, over real pipes.

The revision is fixed by restricting our server to it, as in test_official_client; one session of each
revision is shared by its tests. The SDK's client lives in an event loop on a thread of its own (a portal
of anyio), and the tests stay plain functions.

Where the SDK (2.3) has less than a revision, or something else:

    capabilities        it declares those of 2025-11-25 in every handshake, whatever is agreed on; our
                        server does not ask for what the revision does not have
    changes             in the legacy era it has requests and a handler for messages, and no `listen`
    forms, roots        it sends what it is given; so our server is the one that checks
    -32042              it does nothing about it: the caller goes there, and calls again
    refusals            a refused question of 2026-07-28 is an error to its caller, as with our client
"""

from __future__ import annotations

import inspect
import json
import queue
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from interop.sdk_processes import reaped
from mcp import Client, StdioServerParameters
from mcp.client._input_required import InputRequiredRoundsExceededError
from mcp.client.stdio import stdio_client
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from peers import ENV, MODERN, PATIENCE, REVISIONS, nothing_left

SERVER = str(Path(__file__).with_name("our_features_server.py"))

# The SDK warns whoever uses what 2026-07-28 removed; to use it is the point here.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

ANN = {
    "name": "Ann",
    "email": "ann@example.org",
    "site": "https://example.org/ann",
    "day": "2026-07-28",
    "at": "2026-07-28T14:00:00+02:00",
    "people": 3,
    "weight": 1.5,
    "size": "l",
}
YES = types.ElicitResult(action="accept", content={})
HELLO = types.CreateMessageResult(
    role="assistant",
    content=types.TextContent(type="text", text="Hello"),
    model="m1",
    stop_reason="endTurn",
)


class Person:
    """Who sits before the SDK's client, and the model that they pay for; a test says how they are."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.asked: list[Any] = []
        self.sampled: list[Any] = []
        self.answer: Callable[[Any], Any] = self.fill_in
        self.reply: Callable[[Any], Any] = self.say_hello
        self.roots = [types.Root(uri="file:///projects/a%20b", name="work")]

    async def elicitation(self, context: Any, params: types.ElicitRequestParams) -> Any:
        self.asked.append(params)
        said = self.answer(params)
        return await said if inspect.isawaitable(said) else said

    async def sampling(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        self.sampled.append(params)
        return self.reply(params)

    async def list_roots(self, context: Any) -> Any:
        return types.ListRootsResult(roots=self.roots)

    @staticmethod
    def fill_in(params: Any) -> Any:
        if params.mode == "url":
            return types.ElicitResult(action="accept")
        known: dict[str, Any] = {**ANN, "colours": ["green", "blue"], "answer": "blue"}
        fields = params.requested_schema["properties"]
        required = params.requested_schema.get("required", list(fields))
        return types.ElicitResult(action="accept", content={name: known[name] for name in required})

    @staticmethod
    def say_hello(params: Any) -> Any:
        if params.tools and (params.tool_choice is None or params.tool_choice.mode != "none"):
            use = types.ToolUseContent(type="tool_use", id="call_1", name="weather", input={"city": "Oslo"})
            return types.CreateMessageResultWithTools(
                role="assistant", content=[use], model="m1", stop_reason="toolUse"
            )
        return HELLO


class Session(NamedTuple):
    """A client of the SDK, to be used from a test."""

    revision: str
    client: Client
    person: Person
    messages: queue.SimpleQueue[Any]
    portal: BlockingPortal

    def do(self, act: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        """Run something in the client's event loop, with a limit."""

        async def limited() -> Any:
            with anyio.fail_after(2 * PATIENCE):
                return await act(*arguments, **options)

        return self.portal.call(limited)

    def call(self, tool: str, **arguments: Any) -> str:
        """The text of a tool that works."""
        result = self.do(self.client.call_tool, tool, arguments)
        assert not result.is_error, result.content[0].text
        return str(result.content[0].text)

    def fails(self, tool: str, **arguments: Any) -> str:
        """The text of one that does not."""
        result = self.do(self.client.call_tool, tool, arguments)
        assert result.is_error, result.content[0].text
        return str(result.content[0].text)

    def refused(self, act: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> MCPError:
        """Our server's error."""
        with pytest.raises(MCPError) as caught:
            self.do(act, *arguments, **options)
        return caught.value

    def hear(self, kind: type[Any]) -> Any:
        """The next notification of a kind; what comes before it is lost."""
        while True:
            message = self.messages.get(timeout=PATIENCE)
            if isinstance(message, kind):
                return message

    def reaches(self, revision: str) -> bool:
        return self.revision >= revision


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with nothing_left(), start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    (directory / "a b.txt").write_text("wörds")
    (directory / "c.bin").write_bytes(b"\x00\x01")
    (directory / "out").symlink_to("/etc")
    return directory


@pytest.fixture(scope="module", params=REVISIONS)
def opened(request: pytest.FixtureRequest, portal: BlockingPortal, files: Path) -> Iterator[Session]:
    revision, person = request.param, Person()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def on_message(message: Any) -> None:
        messages.put(message)

    env = {**ENV, "MCP_REF_FILES": str(files)}
    command = StdioServerParameters(command=sys.executable, args=[SERVER, revision], env=env)
    with tempfile.TemporaryFile("w+") as stderr:
        client = Client(
            stdio_client(command, errlog=stderr),
            mode="auto" if revision == MODERN else "legacy",
            message_handler=on_message,
            elicitation_callback=person.elicitation,
            sampling_callback=person.sampling,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            list_roots_callback=person.list_roots,
        )
        with portal.wrap_async_context_manager(reaped(client)):
            yield Session(revision, client, person, messages, portal)


@pytest.fixture
def session(opened: Session) -> Session:
    opened.person.reset()
    while not opened.messages.empty():
        opened.messages.get()
    return opened


def since(revision: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opened", [r for r in REVISIONS if r >= revision], indirect=True)


def before(revision: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opened", [r for r in REVISIONS if r < revision], indirect=True)


def dumped(model: Any) -> Any:
    """The members that were there, as JSON."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


async def whole(fetch: Callable[..., Awaitable[Any]], member: str) -> tuple[dict[str, Any], int]:
    """All items of a list by name, and the number of pages they came in."""
    page = await fetch()
    items, pages = list(getattr(page, member)), 1
    while page.next_cursor is not None:
        page = await fetch(cursor=page.next_cursor)
        items += getattr(page, member)
        pages += 1
    return {item.name: item for item in items}, pages


# ------------------------------------------------------------------------------ resources


@pytest.mark.spec(
    "server/resources/capability-declared",
    "server/prompts/capability-at-initialize",
    "server/prompts/capability-in-discover",
)
def test_what_the_server_can_do_is_declared(session):
    """The capability of completion came with 2025-03-26, completion was there before."""
    capabilities = session.client.server_capabilities
    assert (capabilities.resources.subscribe, capabilities.resources.list_changed) == (True, True)
    assert capabilities.prompts.list_changed is True
    assert (capabilities.completions is not None) == session.reaches("2025-03-26")


@pytest.mark.spec("server/resources/list-paginated", "server/resources/templates-paginated")
def test_every_field_of_a_resource_arrives_that_the_revision_has(session):
    resources, pages = session.do(whole, session.client.list_resources, "resources")
    assert pages == -(-len(resources) // 4) > 1
    icons = {"icons": [{"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["1x1"]}]}
    later = {"title": "Configuration", "_meta": {"example.org/shelf": 7}}
    modified = {"lastModified": "2026-07-28T12:00:00Z"} if session.reaches("2025-06-18") else {}
    assert dumped(resources["config"]) == {
        "uri": "config://app",
        "name": "config",
        "description": "How it is set up.",
        "mimeType": "application/json",
        "size": 26,
        "annotations": {"audience": ["user"], "priority": 0.5, **modified},
        **(later if session.reaches("2025-06-18") else {}),
        **(icons if session.reaches("2025-11-25") else {}),
    }
    templates, _ = session.do(whole, session.client.list_resource_templates, "resource_templates")
    assert dumped(templates["row"]) == {
        "uriTemplate": "db://{table}/{row}",
        "name": "row",
        "description": "One row of a table.",
        "mimeType": "text/plain",
        **({"title": "Row"} if session.reaches("2025-06-18") else {}),
        **(icons if session.reaches("2025-11-25") else {}),
    }
    for fetch in (session.client.list_resources, session.client.list_resource_templates):
        assert session.refused(fetch, cursor="nonsense").code == types.INVALID_PARAMS


@pytest.mark.spec("server/resources/binary-encoded", "server/resources/multiple-contents")
def test_text_bytes_and_several_contents_are_read(session):
    read = session.client.read_resource
    (config,) = session.do(read, "config://app").contents
    assert (config.mime_type, len(config.text.encode())) == ("application/json", 26)
    assert json.loads(config.text) == {"depth": 3, "name": "wëll"}
    (logo,) = session.do(read, "logo://app").contents
    assert (logo.mime_type, logo.blob) == ("image/png", "iVBORwD/")
    text, blob = session.do(read, "pair://both").contents
    assert (text.uri, text.text, blob.uri, blob.blob) == ("pair://both/a", "a", "pair://both/b", "AAE=")
    assert text.meta == ({"example.org/k": "v"} if session.reaches("2025-06-18") else None)


@pytest.mark.spec("server/resources/uri-template-rfc6570")
def test_resources_of_templates_are_read(session):
    for uri, text in (
        ("db://walks/3", "walks:4"),
        ("tree:///a/b%20c", "a/b c 1 None"),
        ("tree:///a?depth=3&kinds=x%20y", "a 3 x y"),
    ):
        (contents,) = session.do(session.client.read_resource, uri).contents
        assert (contents.uri, contents.text) == (uri, text)


@pytest.mark.spec(
    "server/resources/not-found-32002", "server/resources/not-found-32602", "server/resources/errors"
)
def test_a_resource_that_is_not_there_is_an_error_with_its_uri(session):
    not_found = types.INVALID_PARAMS if session.revision == MODERN else -32002
    for uri in ("no://where", "db://walks/10", "tree:///../secret", "docs://files/out/passwd"):
        problem = session.refused(session.client.read_resource, uri)
        assert (problem.code, problem.data) == (not_found, {"uri": uri})
    assert session.refused(session.client.read_resource, "db://walks/x").code == types.INVALID_PARAMS
    problem = session.refused(session.client.read_resource, "broken://well")
    assert (problem.code, problem.message.endswith("the well is dry")) == (types.INTERNAL_ERROR, True)


def test_the_files_of_a_directory_are_read(session):
    resources, _ = session.do(whole, session.client.list_resources, "resources")
    assert resources["a b.txt"].uri == "docs://files/a%20b.txt"
    assert "out" not in resources
    (text,) = session.do(session.client.read_resource, "docs://files/a%20b.txt").contents
    assert (text.text, text.mime_type) == ("wörds", "text/plain")
    (blob,) = session.do(session.client.read_resource, "docs://files/c.bin").contents
    assert blob.blob == "AAE="


@since(MODERN)
def test_what_is_fresh_is_kept_by_the_client_until_it_hears_otherwise(session):
    """Our hints, and the SDK's cache."""

    async def reads() -> list[str]:
        client, uri = session.client, "count://reads"
        found = [await client.read_resource(uri), await client.read_resource(uri)]
        async with client.listen(resource_subscriptions=[uri]) as changes:
            await client.call_tool("touch", {"uri": uri})
            assert await anext(changes) == ResourceUpdated(uri)
        found.append(await client.read_resource(uri))
        assert (found[0].ttl_ms, found[0].cache_scope) == (60_000, "private")
        return [result.contents[0].text for result in found]

    first, second, third = session.do(reads)
    assert (second, int(third)) == (first, int(first) + 1)


# -------------------------------------------------------------------------------- prompts


@pytest.mark.spec("server/prompts/list-paginated")
def test_every_field_of_a_prompt_arrives_that_the_revision_has(session):
    prompts, pages = session.do(whole, session.client.list_prompts, "prompts")
    assert pages == -(-len(prompts) // 4) > 1
    icons = {"icons": [{"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["1x1"]}]}
    later = {"title": "Review", "_meta": {"example.org/n": 1}}
    assert dumped(prompts["review"]) == {
        "name": "review",
        "description": "Asks for a review.",
        "arguments": [
            {"name": "code", "description": "what to look at", "required": True},
            {"name": "style", "required": False},
            {"name": "depth", "required": False},
        ],
        **(later if session.reaches("2025-06-18") else {}),
        **(icons if session.reaches("2025-11-25") else {}),
    }


def test_a_prompt_is_filled_in(session):
    arguments = {"code": "x = 1", "style": "long", "depth": "2"}
    result = session.do(session.client.get_prompt, "review", arguments)
    said = [(message.role, message.content.text) for message in result.messages]
    assert said == [("user", "Review x = 1, long, depth 3"), ("assistant", "I will.")]
    assert result.description == "Asks for a review."


@pytest.mark.spec("server/prompts/embedded-resource-mime", "server/prompts/resource-links")
def test_every_type_of_content_arrives_in_a_prompt(session):
    """What the revision does not have arrives as text."""
    result = session.do(session.client.get_prompt, "everything")
    image, audio, link, resource = (message.content for message in result.messages)
    assert (image.data, image.mime_type) == ("iVBORw==", "image/png")
    assert (audio.type, link.type) == {
        "2024-11-05": ("text", "text"),
        "2025-03-26": ("audio", "text"),
    }.get(session.revision, ("audio", "resource_link"))
    assert "file:///a.txt" in (link.text if link.type == "text" else link.uri)
    assert (resource.resource.text, resource.resource.mime_type) == ("b", "text/plain")


@pytest.mark.spec("server/prompts/invalid-name-32602", "server/prompts/missing-argument-32602")
def test_wrong_prompts_and_arguments_are_invalid_params(session):
    for name, arguments in (
        ("nothing", {}),
        ("review", {}),
        ("review", {"code": "x", "depth": "deep"}),
        ("review", {"code": "x", "style": "loud"}),
        ("review", {"code": "x", "tone": "kind"}),
    ):
        assert session.refused(session.client.get_prompt, name, arguments).code == types.INVALID_PARAMS


# ----------------------------------------------------------------------------- completion

REVIEW = types.PromptReference(type="ref/prompt", name="review")
ROW = types.ResourceTemplateReference(type="ref/resource", uri="db://{table}/{row}")


@pytest.mark.spec(
    "server/utilities/completion/max-100-values", "server/utilities/completion/total-and-has-more"
)
def test_arguments_and_variables_are_completed(session):
    """Lists and Enums by themselves, fuzzily; functions are told what was chosen before."""

    def complete(ref: Any, name: str, value: str, **chosen: str) -> Any:
        argument = {"name": name, "value": value}
        return session.do(session.client.complete, ref, argument, chosen or None).completion

    assert complete(REVIEW, "code", "p").values == ["python"]
    assert complete(REVIEW, "style", "sh").values == ["short", "shouted"]
    assert complete(REVIEW, "depth", "").values == []
    assert complete(ROW, "table", "wd").values == ["words"]
    found = complete(ROW, "row", "1", table="walks")
    known = "walks" if session.reaches("2025-06-18") else "?"
    assert found.values == [f"{known}1{n}" for n in range(100)]
    assert (found.total, found.has_more) == (300, True)


@pytest.mark.spec("server/utilities/completion/invalid-prompt-32602")
def test_what_cannot_be_completed_is_invalid_params(session):
    nothing = types.PromptReference(type="ref/prompt", name="nothing")
    nowhere = types.ResourceTemplateReference(type="ref/resource", uri="no://{where}")
    for ref, name in ((nothing, "code"), (nowhere, "where"), (REVIEW, "tone"), (ROW, "column")):
        problem = session.refused(session.client.complete, ref, {"name": name, "value": ""})
        assert problem.code == types.INVALID_PARAMS


# -------------------------------------------------------------------------------- changes


@before(MODERN)
@pytest.mark.spec(
    "server/resources/subscribe-empty-result",
    "server/resources/updated-notification",
    "server/resources/list-changed",
    "server/prompts/list-changed",
)
def test_a_legacy_client_subscribes_to_resources_and_hears_of_lists(session):
    uri = "count://reads"
    session.do(session.client.session.subscribe_resource, uri)
    assert session.refused(session.client.session.subscribe_resource, "no://where").code == -32002
    session.call("touch", uri="config://app")
    session.call("touch", uri=uri)
    assert session.hear(types.ResourceUpdatedNotification).params.uri == uri
    session.do(session.client.session.unsubscribe_resource, uri)
    session.do(session.client.session.subscribe_resource, "config://app")
    session.call("touch", uri=uri)
    session.call("touch", uri="config://app")
    assert session.hear(types.ResourceUpdatedNotification).params.uri == "config://app"
    session.do(session.client.session.unsubscribe_resource, "config://app")
    session.call("change")
    # The SDK hands each notification to a task of its own: in whichever order.
    wanted = {
        types.ResourceListChangedNotification,
        types.PromptListChangedNotification,
        types.ToolListChangedNotification,
    }
    while wanted:
        wanted.discard(type(session.messages.get(timeout=PATIENCE)))
    session.call("change")
    with pytest.raises(ListenNotSupportedError):
        session.do(_listen, session, tools_list_changed=True)


async def _listen(session: Session, **wanted: Any) -> Any:
    async with session.client.listen(**wanted) as changes:
        return changes.honored


@since(MODERN)
@pytest.mark.spec(
    "basic/patterns/subscriptions/ack-lists-honoured-subset",
    "basic/patterns/subscriptions/id-is-request-id",
    "basic/patterns/subscriptions/only-requested-types",
    "server/resources/updated-on-listen",
    "server/prompts/list-changed-subscribed",
)
def test_a_modern_client_hears_what_it_listens_to(session):
    """Two at once, each its own; the SDK's ids are strings."""

    async def listening() -> None:
        client = session.client
        uris = ["count://reads", "no://where"]
        lists = {"prompts_list_changed": True, "resources_list_changed": True}
        async with (
            client.listen(resource_subscriptions=uris, **lists) as one,
            client.listen(tools_list_changed=True) as other,
        ):
            assert dumped(one.honored) == {
                "promptsListChanged": True,
                "resourcesListChanged": True,
                "resourceSubscriptions": ["count://reads"],
            }
            assert dumped(other.honored) == {"toolsListChanged": True}
            await client.call_tool("touch", {"uri": "config://app"})
            await client.call_tool("touch", {"uri": "count://reads"})
            assert await anext(one) == ResourceUpdated("count://reads")
            await client.call_tool("change")
            assert {await anext(one), await anext(one)} == {PromptsListChanged(), ResourcesListChanged()}
            assert await anext(other) == ToolsListChanged()
            await client.call_tool("change")

    session.do(listening)


@since(MODERN)
def test_a_modern_client_that_listens_no_longer_hears_nothing(session):
    async def listening() -> None:
        client = session.client
        async with client.listen(resource_subscriptions=["count://reads"]):
            pass
        async with client.listen(resource_subscriptions=["config://app"]) as changes:
            for uri in ("count://reads", "config://app"):
                await client.call_tool("touch", {"uri": uri})
            assert await anext(changes) == ResourceUpdated("config://app")

    session.do(listening)
    assert session.hear(types.ResourceUpdatedNotification).params.uri == "config://app"


# ------------------------------------------------------------------------------- questions


@since("2025-06-18")
@pytest.mark.spec("client/elicitation/flat-primitive-schema", "client/elicitation/string-formats")
def test_a_form_with_every_kind_of_field_is_filled_in(session):
    """Made of a dataclass, and the answer is one again; 2025-06-18 says titles in its own way."""
    said = session.call("form")
    (asked,) = session.person.asked
    titled = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    size: dict[str, Any] = {"oneOf": titled}
    if session.revision == "2025-06-18":
        size = {"enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    unit = {"type": "string", "enum": ["metre", "foot"]}
    assert (asked.mode, asked.message) == ("form", "Who are you?")
    assert asked.requested_schema == {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "minLength": 2,
                "maxLength": 20,
                "title": "Name",
                "description": "yours",
            },
            "email": {"type": "string", "format": "email"},
            "site": {"type": "string", "format": "uri"},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "people": {"type": "integer", "minimum": 1, "maximum": 9},
            "weight": {"type": "number", "minimum": 0.5},
            "size": {"type": "string", **size},
            "unit": unit | ({"default": "metre"} if session.reaches("2025-11-25") else {}),
            "sure": {"type": "boolean", "default": True},
            "note": {"type": "string"},
        },
        "required": list(ANN),
    }
    assert said.startswith("accept Simple(name='Ann', email='ann@example.org'")
    assert said.endswith("unit='metre', sure=True, note=None)")


@since("2025-11-25")
def test_selections_of_several_are_filled_in(session):
    assert session.call("choices").startswith("accept Choices(colours=['green', 'blue'], sizes=[<Size.SMALL")
    properties = session.person.asked[0].requested_schema["properties"]
    assert properties["colours"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["red", "green", "blue"]},
        "minItems": 1,
        "maxItems": 2,
    }
    assert properties["sizes"]["items"]["anyOf"][0] == {"const": "s", "title": "Small"}


@since("2025-06-18")
@pytest.mark.spec("client/elicitation/handle-actions")
def test_accepting_declining_and_cancelling_are_told_apart(session):
    assert session.call("confirm") == "accept {}"
    for action in ("decline", "cancel"):
        session.person.answer = lambda params, action=action: types.ElicitResult(action=action)
        assert session.call("confirm") == f"{action} None"
        assert session.call("form") == f"{action} None"


@since("2025-06-18")
def test_what_was_not_asked_for_is_left_aside(session):
    extra = {**ANN, "shoe": 42}
    session.person.answer = lambda params: types.ElicitResult(action="accept", content=extra)
    assert session.call("form").startswith("accept Simple(name='Ann'")


@since("2025-06-18")
@pytest.mark.spec("client/elicitation/server-validates-data", "client/elicitation/validate-both-sides")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"people": 10}, "people"),
        ({"people": "three"}, "people"),
        ({"name": "A"}, "name"),
        ({"email": "nobody"}, "email"),
        ({"day": "tomorrow"}, "day"),
        ({"size": "xl"}, "size"),
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_the_form_is_noticed(session, wrong, told):
    """By our server alone: the SDK's client sends what it is given."""
    content = {**ANN, **wrong}
    session.person.answer = lambda params: types.ElicitResult(action="accept", content=content)
    assert told in session.fails("form")


@since("2025-11-25")
@pytest.mark.spec("client/elicitation/url-parameters", "client/elicitation/url-parameters-with-id")
def test_a_person_is_asked_to_open_a_url(session):
    assert session.call("url") == "accept"
    (asked,) = session.person.asked
    assert (asked.mode, asked.message, asked.url) == ("url", "Please pay", "https://example.org/pay?n=1")
    assert (asked.elicitation_id is None) == (session.revision == MODERN)
    session.person.answer = lambda params: types.ElicitResult(action="decline")
    assert session.call("url") == "decline"


@pytest.mark.parametrize("opened", ["2025-11-25"], indirect=True)
@pytest.mark.spec("client/elicitation/url-required-error", "client/elicitation/complete-notification")
def test_a_call_that_needs_a_url_says_so_and_tells_when_it_is_done(session):
    problem = session.refused(session.client.call_tool, "paid", {})
    (elicitation,) = problem.data["elicitations"]
    assert (problem.code, elicitation["url"]) == (-32042, "https://example.org/pay")
    assert session.call("complete_payment") == "true"
    done = session.hear(types.ElicitCompleteNotification)
    assert done.params.elicitation_id == elicitation["elicitationId"]
    assert session.call("paid") == "paid"


@since(MODERN)
def test_the_same_tool_asks_for_the_url_where_there_is_no_such_error(session):
    """And the call goes on once the person has been there."""

    session.person.answer = lambda params: types.ElicitResult(action="decline")
    assert session.refused(session.client.call_tool, "paid", {}).code == types.INTERNAL_ERROR

    async def pay(params: Any) -> Any:
        await session.client.call_tool("complete_payment", {})
        return types.ElicitResult(action="accept")

    session.person.answer = pay
    assert session.call("paid") == "paid"
    assert {asked.url for asked in session.person.asked} == {"https://example.org/pay"}


@pytest.mark.spec("client/elicitation/no-unsupported-mode")
def test_what_a_revision_does_not_have_is_not_asked(session):
    """Whatever the SDK declared in its handshake: the tool hears why."""
    if not session.reaches("2025-06-18"):
        for tool in ("form", "confirm", "several"):
            assert "2025-06-18" in session.fails(tool)
    if not session.reaches("2025-11-25"):
        for tool in ("url", "loop"):
            assert session.revision in session.fails(tool)
    if session.revision == "2025-06-18":
        assert "several choices" in session.fails("choices")
    assert session.person.asked == []


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.spec("basic/patterns/mrtr/no-undeclared-input-request")
def test_a_client_that_declares_nothing_is_not_asked(revision, portal):
    """A tool that failed in the legacy era, and -32021 in 2026-07-28."""
    command = StdioServerParameters(command=sys.executable, args=[SERVER, revision], env=ENV)
    with tempfile.TemporaryFile("w+") as stderr:
        client = Client(stdio_client(command, errlog=stderr), mode="auto" if revision == MODERN else "legacy")
        with portal.wrap_async_context_manager(reaped(client)):
            session = Session(revision, client, Person(), queue.SimpleQueue(), portal)
            for tool, lacking in (("form", "elicitation"), ("greet", "sampling"), ("roots", "roots")):
                if revision == MODERN:
                    problem = session.refused(client.call_tool, tool, {})
                    assert problem.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
                    assert list(problem.data["requiredCapabilities"]) == [lacking]
                else:
                    assert lacking in session.fails(tool)


@pytest.mark.spec("client/sampling/create-message-request", "client/sampling/message-role-content")
def test_a_model_is_asked_with_everything_there_is(session):
    """Text and a picture, and each of the options."""
    assert session.call("greet") == "Hello by m1, endTurn"
    (request,) = session.person.sampled
    text, picture = (message.content for message in request.messages)
    assert (text.text, picture.data, picture.mime_type) == ("hi", "iVBORw==", "image/png")
    assert {k: v for k, v in dumped(request).items() if k != "messages"} == {
        "maxTokens": 7,
        "systemPrompt": "Be kind",
        "includeContext": "none",
        "temperature": 0.5,
        "stopSequences": ["x"],
        "metadata": {"a": 1},
        "modelPreferences": {"hints": [{"name": "son"}], "costPriority": 0.1},
    }


@since("2025-11-25")
@pytest.mark.spec("client/sampling/tool-use-balanced", "client/sampling/tool-results-only")
def test_a_model_uses_a_tool_of_the_server(session):
    """It wants it called, is told what came of it, and then says something."""
    assert session.call("loop") == "Hello"
    first, second = session.person.sampled[0], session.person.sampled[-1]
    assert ([tool.name for tool in first.tools], first.tool_choice) == (["weather"], None)
    assert second.tool_choice.mode == "none"
    asked, wanted, done = (message.content_as_list for message in second.messages)
    assert (asked[0].text, wanted[0].id, wanted[0].input) == ("weather?", "call_1", {"city": "Oslo"})
    assert (done[0].tool_use_id, done[0].content[0].text) == ("call_1", "18")


def test_a_person_refuses(session):
    """In the legacy era the tool hears of it; in 2026-07-28 the SDK's caller does, and nothing is sent."""
    refusal = types.ErrorData(code=-1, message="User rejected sampling request")
    session.person.reply = lambda params: refusal
    if session.revision == MODERN:
        assert session.refused(session.client.call_tool, "greet", {}).code == -1
    else:
        assert "rejected" in session.fails("greet")
    session.person.reset()
    assert session.call("greet") == "Hello by m1, endTurn"


@pytest.mark.spec("client/sampling/validate-content")
def test_what_a_model_cannot_have_said_is_noticed(session):
    """A picture that is no base64. In 2026-07-28 it comes as an answer of the retry."""
    picture = types.ImageContent(type="image", data="no base64!", mime_type="image/png")
    wrong = types.CreateMessageResult(role="assistant", content=picture, model="m1")
    session.person.reply = lambda params: wrong
    assert "base64" in session.fails("greet")


@pytest.mark.spec("client/roots/handle-list-changes", "client/roots/cache-roots")
def test_roots_are_listed_and_may_change(session, tmp_path):
    """Until 2025-11-25 a change is told, and only then are they asked for again."""
    assert json.loads(session.call("roots")) == ["file:///projects/a%20b work"]
    assert session.call("within", path="/projects/a b/c/../d") == "true"
    assert session.call("within", path="/projects/a b/../d") == "false"
    session.person.roots = [types.Root(uri=tmp_path.as_uri())]
    if session.revision != MODERN:
        assert json.loads(session.call("roots")) == ["file:///projects/a%20b work"]
        session.do(session.client.send_roots_list_changed)
        assert session.call("wait_for_roots") == "true"
    assert json.loads(session.call("roots")) == [f"{tmp_path.as_uri()} -"]
    session.person.reset()
    if session.revision != MODERN:
        session.do(session.client.send_roots_list_changed)


def test_a_root_that_is_none_is_noticed(session):
    session.person.roots = [types.Root(uri="file://elsewhere/share")]
    if session.revision != MODERN:
        session.do(session.client.send_roots_list_changed)
    assert "another machine" in session.fails("roots")
    session.person.reset()
    if session.revision != MODERN:
        session.do(session.client.send_roots_list_changed)


@since("2025-06-18")
@pytest.mark.spec("basic/patterns/mrtr/use-mrtr")
def test_several_questions_are_answered_at_once_or_one_by_one(session):
    """In one round, or in three; what is to be done once is done once."""
    assert session.call("several") == "accept Hello 1"
    assert session.call("one_by_one") == "accept Hello 1 True"
    assert [asked.message for asked in session.person.asked] == ["Sure?", "Sure?"]


@since("2025-06-18")
@pytest.mark.spec("basic/patterns/mrtr/supported-requests", "server/resources/input-required")
def test_prompts_and_resources_ask_as_well(session):
    """In either era."""
    (contents,) = session.do(session.client.read_resource, "ask://sky").contents
    assert contents.text == "sky is {'answer': 'blue'}"
    (message,) = session.do(session.client.get_prompt, "asked").messages
    assert message.content.text == "Write about {'answer': 'blue'}."
    assert [asked.message for asked in session.person.asked] == ["Which colour?", "About what?"]


@since("2026-07-28")
def test_a_question_of_a_handlers_own_making_is_answered(session):
    """As input_required; and without a question the call is made again."""
    assert session.call("by_hand") == "accept so far"
    assert session.call("again") == "{}"


@pytest.mark.parametrize("opened", ["2025-06-18", "2025-11-25"], indirect=True)
def test_a_call_that_is_given_up_takes_its_question_along(session):
    """Our server cancels its request, and the person need not answer any more."""

    async def give_up() -> None:
        taken_back = anyio.Event()
        with anyio.CancelScope() as call:

            async def think(params: Any) -> None:
                call.cancel()
                try:
                    await anyio.sleep(PATIENCE)
                finally:
                    taken_back.set()

            session.person.answer = think
            await session.client.call_tool("confirm", {})
        with anyio.fail_after(PATIENCE / 2):
            await taken_back.wait()

    session.do(give_up)
    session.person.reset()
    assert session.call("confirm") == "accept {}"


# ------------------------------------------------------------------- rounds, in 2026-07-28 only


async def _first_round(session: Session, tool: str) -> types.InputRequiredResult:
    result = await session.client.session.call_tool(tool, {}, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult)
    return result


@since(MODERN)
@pytest.mark.spec("basic/patterns/mrtr/ask-again-when-missing", "basic/patterns/mrtr/ignore-extra-inputs")
def test_missing_answers_are_asked_for_again_and_extra_ones_ignored(session):
    async def rounds() -> str:
        retry = partial(session.client.session.call_tool, "several", {}, allow_input_required=True)
        first = await _first_round(session, "several")
        keys = {request.method: key for key, request in first.input_requests.items()}
        assert sorted(keys) == ["elicitation/create", "roots/list", "sampling/createMessage"]
        some = {keys["elicitation/create"]: YES, "nobody-asked": YES}
        second = await retry(input_responses=some, request_state=first.request_state)
        assert sorted(r.method for r in second.input_requests.values()) == sorted(keys)[1:]
        rest = {
            keys["roots/list"]: types.ListRootsResult(roots=[]),
            keys["sampling/createMessage"]: HELLO,
        }
        last = await retry(input_responses=rest, request_state=second.request_state)
        return str(last.content[0].text)

    assert session.do(rounds) == "accept Hello 0"


@since(MODERN)
@pytest.mark.spec("basic/patterns/mrtr/request-state-reject-tampered")
def test_a_state_that_is_not_as_it_was_is_refused(session):
    async def altered(tool: str, state: Callable[[str], str]) -> Any:
        first = await _first_round(session, "confirm")
        (key,) = first.input_requests
        return await session.client.session.call_tool(
            tool, {}, input_responses={key: YES}, request_state=state(first.request_state)
        )

    changes: list[tuple[str, Callable[[str], str]]] = [
        ("confirm", lambda state: state[:-1]),
        ("confirm", lambda state: ("A" if state[0] != "A" else "B") + state[1:]),
        ("confirm", lambda state: "nonsense"),
        ("one_by_one", lambda state: state),
    ]
    for tool, change in changes:
        assert session.refused(altered, tool, change).code == types.INVALID_PARAMS
    assert session.do(altered, "confirm", lambda state: state).content[0].text == "accept {}"


@since(MODERN)
@pytest.mark.spec("basic/patterns/mrtr/malformed-is-error")
def test_an_answer_of_the_wrong_kind_is_refused(session):
    async def wrong() -> Any:
        first = await _first_round(session, "confirm")
        (key,) = first.input_requests
        roots = types.ListRootsResult(roots=[])
        return await session.client.session.call_tool(
            "confirm", {}, input_responses={key: roots}, request_state=first.request_state
        )

    assert session.refused(wrong).code == types.INVALID_PARAMS


@since("2025-06-18")
def test_many_questions_are_too_many_for_a_modern_client(session):
    """The SDK's client answers ten rounds; fifty questions of a legacy server are just that."""
    if session.revision == MODERN:
        with pytest.raises(InputRequiredRoundsExceededError):
            session.do(session.client.call_tool, "forever", {})
        assert len(session.person.asked) == 10
    else:
        assert session.call("forever") == "enough"
