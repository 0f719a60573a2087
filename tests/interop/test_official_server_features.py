"""A client of ours against the official Python SDK's servers: everything but tools, over real pipes.

MCPServer asks in either era, by itself: it sends requests until 2025-11-25, and answers with
input_required in 2026-07-28. The low-level server is for the rest: pages, resources/subscribe, questions
made by hand, subscriptions that the server ends.

Where the SDK (2.3) has less than a revision, or something else:

    resources/subscribe       only the low-level server has it
    listChanged               MCPServer declares it in 2026-07-28 only (and notifies all the same)
    not found                 -32602 in all revisions from MCPServer; the spec has -32002 until 2025-11-25
    a wrong prompt            an error of code 0, or -32603 in 2026-07-28, from MCPServer; the spec: -32602
    what the client lacks     -32021 in all revisions; the spec has that in 2026-07-28 only
    elicitation by URL        MCPServer has it as a request only, and asks whoever is there; so in
                              2026-07-28 it is the low-level server that asks, by hand
    -32042 and completion     also in 2026-07-28, which has neither any more
    titles, icons, several    sent to old revisions too, as are choices of several to 2025-06-18
    choices
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from choices import for_connect
from peers import LEGACY, MODERN, PATIENCE, REVISIONS, eventually, nothing_left

from mcp_ref import Change, Client, ErrorResponse, InvalidResponse, Limit, SamplingRefused, connect
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.client.elicitation.url_mode import UrlElicitationNeeded
from mcp_ref.client.sampling.messages import tool_use
from mcp_ref.server.resources import is_not_found

HERE = Path(__file__).parent
OFFICIAL = [sys.executable, str(HERE / "official_features_server.py")]
LOWLEVEL = [sys.executable, str(HERE / "official_lowlevel_features_server.py")]
ICONS = [{"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["1x1"]}]

ANN = {
    "name": "Ann",
    "email": "ann@example.org",
    "site": "https://example.org/ann",
    "day": "2026-07-28",
    "at": "2026-07-28T12:00:00Z",
    "people": 3,
    "weight": 1.5,
}


class Person:
    """Who sits before our client, and the model that they pay for; a test says how they are."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.asked: list[Any] = []
        self.sampled: list[Any] = []
        self.answer: Callable[[Any], Any] = self.fill_in
        self.reply: Callable[[Any], Any] = self.say_hello

    def elicitation(self, asked: Any) -> Any:
        self.asked.append(asked)
        return self.answer(asked)

    def sampling(self, request: Any) -> Any:
        self.sampled.append(request)
        return self.reply(request)

    @staticmethod
    def fill_in(asked: Any) -> Any:
        if asked.mode == "url":
            return True
        choices = {"colours": ["green", "blue"], "size": "l", "answer": "blue"}
        known = {**ANN, **choices}
        return {field.name: known[field.name] for field in asked.fields if field.required}

    @staticmethod
    def say_hello(request: Any) -> Any:
        if request.tools and request.tool_choice != "none":
            return tool_use("call_1", "weather", {"city": "Oslo"})
        text = {"type": "text", "text": "Hello"}
        model = request.choose(["opus", "sonnet"])
        return {"role": "assistant", "content": text, "model": model, "stopReason": "endTurn"}


class Sessions(NamedTuple):
    """One connection to each server, shared by the tests of a revision: the SDK is slow to start."""

    revision: str
    official: Client
    lowlevel: Client
    person: Person
    notifications: queue.SimpleQueue[tuple[str, Any]]
    directory: Path


@pytest.fixture(scope="module", params=REVISIONS)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    notifications: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    person, revision = Person(), request.param
    directory = tmp_path_factory.mktemp("a root")
    options: dict[str, Any] = {
        "revision": revision,
        "elicitation": person.elicitation,
        "sampling": person.sampling,
        "sampling_tools": True,
        "sampling_context": True,
        "roots": [{"uri": directory.as_uri(), "name": "work"}],
        "ask_limit": Limit(),
        "on_notification": lambda method, params: notifications.put((method, params)),
        "on_stderr": lambda line: None,
    }
    with (
        nothing_left(),
        connect(OFFICIAL, **for_connect(**options)) as official,
        connect(LOWLEVEL, **for_connect(**options)) as lowlevel,
    ):
        yield Sessions(revision, official, lowlevel, person, notifications, directory)


@pytest.fixture
def sessions(opened: Sessions) -> Sessions:
    opened.person.reset()
    drain(opened.notifications)
    return opened


@pytest.fixture
def official(sessions: Sessions) -> Client:
    return sessions.official


@pytest.fixture
def lowlevel(sessions: Sessions) -> Client:
    return sessions.lowlevel


def drain(messages: queue.SimpleQueue[Any]) -> None:
    while not messages.empty():
        messages.get()


def updates(sessions: Sessions, last: str) -> list[str]:
    """The resources that the server told of, up to this one."""
    found: list[str] = []
    while last not in found:
        method, params = sessions.notifications.get(timeout=PATIENCE)
        if method == "notifications/resources/updated":
            found.append(params["uri"])
    return found


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> ErrorResponse:
    """The server's error."""
    with pytest.raises(ErrorResponse) as caught:
        call(*arguments, **options)
    return caught.value


# ------------------------------------------------------------------------------ resources


def test_every_field_of_a_resource_arrives(official):
    resource = next(found for found in official.list_resources() if found["uri"] == "config://app")
    assert resource == {
        "uri": "config://app",
        "name": "config",
        "title": "Configuration",
        "description": "How it is set up.",
        "mimeType": "application/json",
        "icons": ICONS,
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-07-28T12:00:00Z"},
        "_meta": {"example.org/shelf": 7},
    }
    template = next(t for t in official.list_resource_templates() if t["name"] == "row")
    assert (template["uriTemplate"], template["title"]) == ("db://{table}/{row}", "Row")


def test_text_and_bytes_are_read(official):
    config = official.read_resource("config://app")
    assert json.loads(config.text) == {"depth": 3, "name": "wëll"}
    assert config["contents"][0]["_meta"] == {"example.org/shelf": 7}
    logo = official.read_resource("logo://app")
    assert logo.blobs == [b"\x89PNG\x00\xff"]
    assert logo["contents"][0]["mimeType"] == "image/png"


def test_resources_of_templates_are_read(official):
    """Plain and reserved expansion; the SDK makes an integer of the row."""
    assert official.read_resource("db://walks/3").text == "walks:4"
    assert official.read_resource("file:///a/b%20c.txt").text == "a/b c.txt"


@pytest.mark.spec("server/resources/not-found-32002-accepted")
def test_a_resource_that_is_not_there_is_known_as_such_whatever_the_code(sessions):
    for uri in ("no://where", "db://walks/10", "file:///../secret"):
        problem = refused(sessions.official.read_resource, uri)
        assert is_not_found(problem)
        assert (problem.code, problem.data) == (-32602, {"uri": uri})
    problem = refused(sessions.lowlevel.read_resource, "no://where")
    assert is_not_found(problem)
    assert problem.code == (-32602 if sessions.revision == MODERN else -32002)
    problem = refused(sessions.official.read_resource, "broken://well")
    assert not is_not_found(problem)
    assert (problem.code, problem.message) == (-32603, "the well is dry")


def test_several_contents_come_at_once(lowlevel):
    result = lowlevel.read_resource("item://0")
    assert [item["uri"] for item in result["contents"]] == ["item://0/a", "item://0/b"]
    assert (result.text, result.blobs) == ("a", [b"\x00\x01"])
    assert result["contents"][0]["_meta"] == {"example.org/k": "v"}


def test_what_is_no_base64_is_refused(lowlevel):
    with pytest.raises(InvalidResponse, match="base64"):
        lowlevel.read_resource("item://1")


@pytest.mark.spec("server/utilities/pagination/opaque-cursors", "server/prompts/handle-pagination")
def test_all_pages_of_each_list_are_fetched(lowlevel):
    assert [resource["size"] for resource in lowlevel.list_resources()] == list(range(7))
    assert [template["name"] for template in lowlevel.list_resource_templates()] == ["t0", "t1", "t2", "t3"]
    assert [prompt["name"] for prompt in lowlevel.list_prompts()] == ["p0", "p1", "p2", "p3"]
    assert [len(page["resources"]) for page in lowlevel.pages("resources/list")] == [3, 3, 1]
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert refused(lowlevel.request, method, {"cursor": "nonsense"}).code == -32602


@pytest.mark.spec("server/utilities/caching/ttl-positive-fresh")
def test_what_is_fresh_is_not_fetched_again():
    """The SDK's hints are in 2026-07-28; what it says changed is fetched anew."""
    with nothing_left(), connect(OFFICIAL, revision=MODERN, cache=True) as client:
        assert client.read_resource("count://reads").text == client.read_resource("count://reads").text == "1"
        with client.listen(resources=["count://reads"]) as changes:
            client.call_tool("touch", {"uri": "count://reads"})
            assert changes.next(PATIENCE) == Change("resource", "count://reads")
        assert client.read_resource("count://reads").text == "2"


# -------------------------------------------------------------------------------- prompts


def test_every_field_of_a_prompt_arrives(sessions):
    review = next(prompt for prompt in sessions.official.list_prompts() if prompt["name"] == "review")
    assert review == {
        "name": "review",
        "title": "Review",
        "description": "Asks for a review.",
        "icons": ICONS,
        "arguments": [
            {"name": "code", "description": "what to look at", "required": True},
            {"name": "depth", "required": False},
        ],
    }
    by_hand = sessions.lowlevel.list_prompts()[1]
    assert by_hand["arguments"][0]["title"] == "Word"
    assert by_hand["_meta"] == {"example.org/n": 1}


def test_a_prompt_is_filled_in(sessions):
    result = sessions.official.get_prompt("review", {"code": "x = 1", "depth": "2"})
    said = [(message["role"], message["content"]["text"]) for message in result["messages"]]
    assert said == [("user", "Review x = 1, depth 3"), ("assistant", "I will.")]
    assert result["description"] == "Asks for a review."
    result = sessions.lowlevel.get_prompt("p1", {"word": "wörd"})
    assert (result.text, result["_meta"]["example.org/trace"]) == ("wörd", "t1")


def test_every_type_of_content_arrives_in_a_prompt(official):
    image, audio, link, resource = (m["content"] for m in official.get_prompt("everything")["messages"])
    assert image == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    assert audio == {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    assert (link["uri"], link["size"]) == ("file:///a.txt", 3)
    assert resource["resource"] == {"uri": "file:///b.txt", "text": "b", "mimeType": "text/plain"}


def test_wrong_prompts_and_arguments_are_errors(official):
    """Of whichever code: the SDK has none for it."""
    for name, arguments in (("nothing", {}), ("review", {}), ("review", {"code": "x", "depth": "deep"})):
        refused(official.get_prompt, name, arguments)


# ----------------------------------------------------------------------------- completion


@pytest.mark.spec("server/utilities/completion/context-arguments")
def test_arguments_and_variables_are_completed(sessions):
    """What was chosen before is told from 2025-06-18 on."""
    client = sessions.official
    found = client.complete(prompt="review", argument="code", value="p")["completion"]
    assert found["values"] == ["python", "pascal"]
    assert client.complete(prompt="review", argument="depth")["completion"]["values"] == []
    table = {"table": "walks"}
    found = client.complete(resource="db://{table}/{row}", argument="row", value="1", arguments=table)
    known = "walks" if sessions.revision >= "2025-06-18" else "?"
    assert found["completion"] == {
        "values": [f"{known}10", f"{known}11", f"{known}12"],
        "total": 300,
        "hasMore": True,
    }
    assert refused(client.complete, resource="no://{template}", argument="template").code == -32602


def test_a_hundred_values_arrive(lowlevel):
    found = lowlevel.complete(prompt="p1", argument="word", value="x")["completion"]
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 1000, True)


# -------------------------------------------------------------------------------- changes


@pytest.mark.spec("basic/patterns/subscriptions/client-checks-ack")
def test_changes_are_heard_by_one_call_in_either_era(sessions):
    """A request that stays open in 2026-07-28, resources/subscribe before."""
    client = sessions.lowlevel
    everything = {"tools": True, "prompts": True, "resource_list": True, "resources": ["item://1", "no://x"]}
    with client.listen(**everything) as changes:
        # The SDK's subscriptions take any URI; its own resources/subscribe is ours, and refuses.
        assert changes.refused == (set() if sessions.revision == MODERN else {"no://x"})
        for uri in ("item://2", "item://1"):
            client.call_tool("touch", {"uri": uri})
        assert changes.next(PATIENCE) == Change("resource", "item://1")
        client.call_tool("change")
        lists = {changes.next(PATIENCE) for _ in range(3)}
        assert lists == {Change("tools"), Change("prompts"), Change("resources")}
    assert changes.next() is None
    with client.listen(resources=["item://3"]):  # and who listens no longer is not told
        for uri in ("item://1", "item://3"):
            client.call_tool("touch", {"uri": uri})
        assert updates(sessions, "item://3") == ["item://1", "item://3"]


def test_only_what_a_server_declares_is_promised(sessions):
    """MCPServer declares no changes before 2026-07-28, though it may tell of them."""
    client = sessions.official
    before = len(client.list_resources())
    with client.listen(prompts=True, resources=True) as changes:
        name = client.call_tool("change").text
        if sessions.revision == MODERN:
            assert changes.refused == set()
        else:
            assert changes.refused == {"prompts", "resources"}
        assert {changes.next(PATIENCE) for _ in range(2)} == {Change("resources"), Change("prompts")}
    assert len(client.list_resources()) == before + 1
    assert client.get_prompt(name).text == client.read_resource(f"new://{name}").text == name


@pytest.mark.parametrize("opened", [MODERN], indirect=True)
@pytest.mark.spec(
    "basic/patterns/subscriptions/multiple-concurrent", "basic/patterns/subscriptions/stdio-correlate"
)
def test_several_subscriptions_are_told_apart(lowlevel):
    with lowlevel.listen(resources=["item://1"]) as first, lowlevel.listen(resources=["item://2"]) as second:
        for uri in ("item://1", "item://2"):
            lowlevel.call_tool("touch", {"uri": uri})
        assert first.next(PATIENCE) == Change("resource", "item://1")
        assert second.next(PATIENCE) == Change("resource", "item://2")
        first.close()
        for uri in ("item://1", "item://2"):
            lowlevel.call_tool("touch", {"uri": uri})
        assert second.next(PATIENCE) == Change("resource", "item://2")


@pytest.mark.parametrize("opened", [MODERN], indirect=True)
def test_a_subscription_that_the_server_ends_is_over(lowlevel):
    with lowlevel.listen(tools=True) as changes:
        lowlevel.call_tool("change")
        assert changes.next(PATIENCE) == Change("tools")
        lowlevel.call_tool("end")
        assert list(changes) == []


# ------------------------------------------------------------------------------- questions

FORMS = [date for date in REVISIONS if date >= "2025-06-18"]
URLS = [date for date in REVISIONS if date >= "2025-11-25"]
TOOLS = URLS
"""The revisions in which a model may want tools called."""


def since(dates: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opened", dates, indirect=True)


@since(FORMS)
@pytest.mark.spec("client/elicitation/enum-variants", "client/elicitation/defaults-prefilled")
def test_a_form_with_every_kind_of_field_is_filled_in(sessions):
    """The fields as our client sees them; the answer as pydantic checked it."""
    result = sessions.official.call_tool("form")
    (asked,) = sessions.person.asked
    assert (asked.server, asked.message, asked.mode) == ("official", "Who are you?", "form")
    fields = {field.name: field for field in asked.fields}
    kinds = {name: (field.kind, field.format) for name, field in fields.items()}
    assert kinds == {
        "name": ("string", None),
        "email": ("string", "email"),
        "site": ("string", "uri"),
        "day": ("string", "date"),
        "at": ("string", "date-time"),
        "people": ("integer", None),
        "weight": ("number", None),
        "sure": ("boolean", None),
        "unit": ("choice", None),
        "note": ("string", None),
    }
    name, people = fields["name"], fields["people"]
    assert (name.title, name.description, name.min_length, name.max_length) == ("Name", "yours", 2, 20)
    assert (people.minimum, people.maximum, fields["weight"].minimum) == (1, 9, 0.5)
    assert fields["unit"].choices == (("metre", "metre"), ("foot", "foot"))
    assert [field.name for field in asked.fields if field.required] == list(ANN)
    filled = {**ANN, "sure": True, "unit": "metre", "note": None}
    assert json.loads(result.text) == {"action": "accept", "data": filled}


@since(URLS)
def test_selections_of_several_and_titles_are_filled_in(sessions):
    result = sessions.official.call_tool("choices")
    colours, size = sessions.person.asked[0].fields
    assert (colours.kind, colours.min_items, colours.max_items) == ("choices", 1, 2)
    assert colours.default == ["red"]
    assert size.choices == (("s", "Small"), ("l", "Large"))
    assert json.loads(result.text)["data"] == {"colours": ["red"], "size": "l"}
    sessions.person.answer = lambda asked: {"colours": ["green", "blue"], "size": "s"}
    assert json.loads(sessions.official.call_tool("choices").text)["data"]["colours"] == ["green", "blue"]


@since(FORMS)
@pytest.mark.spec("client/elicitation/three-actions")
def test_declining_and_cancelling_are_told_apart(sessions):
    for said, action in ((False, "decline"), (None, "cancel")):
        sessions.person.answer = lambda asked, said=said: said
        assert json.loads(sessions.official.call_tool("form").text) == {"action": action}
        result = sessions.official.call_tool("needed")
        assert result.is_error
        assert action in result.text


@since(FORMS)
@pytest.mark.spec("client/elicitation/client-validates-responses")
def test_content_that_does_not_fit_the_form_is_not_sent(sessions):
    """An error to a legacy server; where nothing can be sent, one to our caller."""
    sessions.person.answer = lambda asked: {**ANN, "people": 10}
    if sessions.revision == MODERN:
        with pytest.raises(InputRefused, match="people"):
            sessions.official.call_tool("form")
    else:
        problem = refused(sessions.official.call_tool, "form")
        assert (problem.code, "people" in problem.message) == (-32603, True)
    sessions.person.reset()
    assert sessions.official.call_tool("needed").text == "Ann"


@since(FORMS)
def test_a_selection_with_names_beside_it_is_understood(sessions):
    """enumNames, of 2025-06-18, which later revisions still know."""
    result = sessions.lowlevel.call_tool("ask", {"kinds": ["form"]})
    assert sessions.person.asked[0].fields[0].choices == (("s", "Small"), ("l", "Large"))
    answer = {"action": "accept", "content": {"size": "l", "sure": True}}
    assert json.loads(result.text) == {"form": answer}


@since(URLS)
def test_a_person_is_asked_to_open_a_url(sessions):
    """As a request, or by hand in an input_required result."""
    result = sessions.lowlevel.call_tool("ask", {"kinds": ["url"]})
    (asked,) = sessions.person.asked
    assert (asked.mode, asked.message, asked.host) == ("url", "Please pay", "example.org")
    assert asked.url == "https://example.org/pay?n=1"
    assert json.loads(result.text) == {"url": {"action": "accept"}}
    for said, action in ((False, "decline"), (None, "cancel")):
        sessions.person.answer = lambda asked, said=said: said
        result = sessions.lowlevel.call_tool("ask", {"kinds": ["url"]})
        assert json.loads(result.text) == {"url": {"action": action}}


@since(["2025-11-25"])
@pytest.mark.spec("client/elicitation/complete-auto-retry")
def test_a_call_that_needs_a_url_goes_on_when_the_person_is_done(sessions):
    """-32042 names the URL, a notification says that it is done, and then the same call works."""
    client = sessions.official
    with pytest.raises(UrlElicitationNeeded) as caught:
        client.call_tool("paid")
    (elicitation,) = caught.value.elicitations
    assert (caught.value.code, elicitation["url"]) == (-32042, "https://example.org/pay")
    sessions.person.answer = lambda asked: False
    assert not client.visit(caught.value)

    def pay(asked: Any) -> bool:
        assert asked.url == "https://example.org/pay"
        return client.call_tool("complete_payment").text == "told"

    sessions.person.answer = pay
    assert client.visit(caught.value, PATIENCE)
    assert client.call_tool("paid").text == "paid"


def test_what_a_revision_does_not_have_is_not_asked_of_a_person(sessions):
    """The SDK sends elicitation/create to whoever is there: our client knows no such thing."""
    if sessions.revision < "2025-06-18":
        assert refused(sessions.official.call_tool, "form").code == -32021
        assert refused(sessions.official.call_tool, "old_way").code == -32601
    if sessions.revision < "2025-11-25":
        code = refused(sessions.official.call_tool, "url").code
        assert code == (-32602 if sessions.revision == "2025-06-18" else -32601)
    if sessions.revision == MODERN:  # no server sends requests any more
        assert refused(sessions.official.call_tool, "old_way").code == -32600
    assert sessions.person.asked == []


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_client_that_declares_nothing_is_not_asked(revision):
    with nothing_left(), connect(OFFICIAL, revision=revision) as client:
        for tool, lacking in (("form", "elicitation"), ("greet", "sampling"), ("roots", "roots")):
            problem = refused(client.call_tool, tool)
            assert problem.code == -32021
            assert list(problem.data["requiredCapabilities"]) == [lacking]


@pytest.mark.spec("client/sampling/hints-advisory", "client/sampling/result-fields")
def test_a_model_is_asked_with_everything_there_is(sessions):
    """Text and a picture, and each of the options."""
    result = sessions.official.call_tool("greet")
    (request,) = sessions.person.sampled
    text, picture = (message["content"] for message in request.messages)
    assert text == {"type": "text", "text": "hi"}
    assert picture == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    assert {name: value for name, value in request.items() if name != "messages"} == {
        "maxTokens": 7,
        "systemPrompt": "Be kind",
        "includeContext": "thisServer",
        "temperature": 0.5,
        "stopSequences": ["x"],
        "metadata": {"a": 1},
        "modelPreferences": {"hints": [{"name": "son"}], "costPriority": 0.1},
    }
    assert result.text == "Hello by sonnet, endTurn"


@since(list(REVISIONS[1:]))
def test_a_model_hears_sound(sessions):
    """Which 2024-11-05 did not have."""
    result = sessions.lowlevel.call_tool("ask", {"kinds": ["sample"]})
    sound, text = (message["content"] for message in sessions.person.sampled[0].messages)
    assert sound == {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    assert text["text"] == "hi"
    assert json.loads(result.text)["sample"]["content"]["text"] == "Hello"


@since(TOOLS)
def test_a_model_uses_a_tool_of_the_server(sessions):
    """It wants it called, is told what came of it, and then says something."""
    assert sessions.official.call_tool("loop").text == "Hello"
    first, second = sessions.person.sampled[0], sessions.person.sampled[-1]
    assert (first.tools[0]["name"], first.tool_choice) == ("weather", "auto")
    assert second.tool_choice == "none"
    asked, wanted, done = second.messages
    assert asked["content"]["text"] == "weather?"
    assert wanted["content"]["id"] == "call_1"
    (answered,) = done["content"]
    assert (answered["toolUseId"], answered["content"][0]["text"]) == ("call_1", "18")


@since([date for date in REVISIONS if date not in TOOLS])
def test_tools_are_not_declared_where_there_are_none(sessions):
    assert refused(sessions.official.call_tool, "loop").code == -32021
    assert sessions.person.sampled == []


@pytest.mark.spec("client/sampling/user-rejected-code", "client/sampling/declined-needs-no-replay")
def test_a_person_refuses(sessions):
    """-1 to a legacy server; in 2026-07-28 the caller hears it, and the server nothing."""

    def refuse(request: Any) -> Any:
        raise SamplingRefused

    sessions.person.reply = refuse
    if sessions.revision == MODERN:
        with pytest.raises(InputRefused, match="rejected"):
            sessions.official.call_tool("greet")
    else:
        assert refused(sessions.official.call_tool, "greet").code == -1
    sessions.person.reset()
    assert sessions.official.call_tool("greet").text == "Hello by sonnet, endTurn"


@pytest.mark.spec("client/roots/list-request", "client/roots/list-changed", "client/roots/result-shape")
def test_roots_are_listed_and_may_change(sessions, tmp_path):
    """A space in a name is escaped in its URI; a change is told until 2025-11-25, and asked for after."""
    uri = sessions.directory.as_uri()
    assert "%20" in uri
    assert sessions.official.call_tool("roots").text == f"{uri} work"
    found = json.loads(sessions.lowlevel.call_tool("ask", {"kinds": ["roots"]}).text)
    assert found == {"roots": {"roots": [{"uri": uri, "name": "work"}]}}
    sessions.lowlevel.set_roots([tmp_path])
    if sessions.revision != MODERN:
        assert sessions.lowlevel.call_tool("wait_for_roots").text == "changed"
    found = json.loads(sessions.lowlevel.call_tool("ask", {"kinds": ["roots"]}).text)
    assert found == {"roots": {"roots": [{"uri": tmp_path.as_uri()}]}}
    sessions.lowlevel.set_roots([{"uri": uri, "name": "work"}])


@since(FORMS)
@pytest.mark.spec("basic/patterns/mrtr/input-response-keys-match")
def test_several_questions_are_answered_at_once(sessions):
    """In one round in 2026-07-28, as three requests before."""
    assert sessions.official.call_tool("several").text == "accept Hello 1"
    kinds = ["form", "roots", "sample"]
    found = json.loads(sessions.lowlevel.call_tool("ask", {"kinds": kinds}).text)
    assert sorted(found) == kinds
    assert found["form"]["content"]["size"] == "l"


@since(FORMS)
def test_a_question_is_answered_while_other_calls_run(sessions):
    """A person takes their time; the connection does not wait for them."""
    read, go = threading.Event(), threading.Event()

    def think(asked: Any) -> Any:
        read.set()
        assert go.wait(PATIENCE)
        return Person.fill_in(asked)

    sessions.person.answer = think
    call = sessions.official.submit("tools/call", {"name": "needed"})
    assert read.wait(PATIENCE)
    assert sessions.official.read_resource("db://walks/3").text == "walks:4"
    go.set()
    assert call.result(PATIENCE).text == "Ann"


@since([date for date in FORMS if date != MODERN])
def test_a_call_that_is_given_up_takes_its_question_along(sessions):
    """The SDK's server cancels its request, and the person need not answer any more."""
    read, over = threading.Event(), threading.Event()

    def think(asked: Any) -> None:
        read.set()
        if eventually(lambda: asked.is_over):
            over.set()

    sessions.person.answer = think
    call = sessions.official.submit("tools/call", {"name": "needed"})
    assert read.wait(PATIENCE)
    assert call.cancel()
    assert over.wait(PATIENCE)
    sessions.person.reset()
    assert sessions.official.call_tool("needed").text == "Ann"


@pytest.mark.spec("client/elicitation/undeclared-mode-32602")
def test_a_client_of_forms_alone_opens_no_url():
    """The SDK asks all the same."""
    options: dict[str, Any] = {"elicitation": Person.fill_in, "elicitation_modes": ["form"]}
    with nothing_left(), connect(LOWLEVEL, **for_connect(revision="2025-11-25", **options)) as client:
        assert refused(client.call_tool, "ask", {"kinds": ["url"]}).code == -32602
        assert "accept" in client.call_tool("ask", {"kinds": ["form"]}).text


# ------------------------------------------------------------------- rounds, in 2026-07-28 only


@since([MODERN])
def test_prompts_and_resources_ask_as_well(sessions):
    assert sessions.official.read_resource("ask://sky").text == "sky is blue, so far"
    assert sessions.official.get_prompt("asked").text == "Write about blue."
    assert [asked.message for asked in sessions.person.asked] == ["Which colour?", "About what?"]


@since([MODERN])
@pytest.mark.spec("basic/patterns/mrtr/client-echoes-state")
def test_the_caller_may_see_to_each_round(sessions):
    client = sessions.official
    result = client.call_tool("loop", rounds=0)
    rounds = 0
    while result.is_input_required:
        rounds += 1
        ((key, request),) = result.input_requests.items()
        assert request["method"] == "sampling/createMessage"
        result = client.resume(result, {key: reply_by_hand(request["params"])}, rounds=0)
    assert (rounds, result.text) == (2, "18 degrees")
    assert sessions.person.sampled == []


def reply_by_hand(params: Any) -> Any:
    """What a model says: it wants a tool, until it may not."""
    may = params["toolChoice"]["mode"] != "none"
    block = tool_use("call_1", "weather", {}) if may else {"type": "text", "text": "18 degrees"}
    return {"role": "assistant", "model": "m", "content": block}


@since([MODERN])
def test_a_state_that_is_not_the_servers_own_is_refused(sessions):
    """The SDK seals it: for this tool, and as it is."""
    client = sessions.official
    result = client.call_tool("needed", rounds=0)
    ((key, _),) = result.input_requests.items()
    answer = {key: {"action": "accept", "content": ANN}}
    state = result["requestState"]
    result["requestState"] = state[:-2] + ("AA" if state[-2:] != "AA" else "BB")
    assert refused(client.resume, result, answer).code == -32602
    result["requestState"] = state
    method, params = result.request
    result.request = (method, {**params, "name": "form"})
    assert refused(client.resume, result, answer).code == -32602
    result.request = (method, params)
    assert client.resume(result, answer).text == "Ann"


@since([MODERN])
@pytest.mark.spec("basic/patterns/mrtr/client-echoes-state")
def test_a_server_may_want_nothing_but_another_call(sessions):
    """Without questions, the same request is sent again with its state: non-ASCII, and as it was."""
    assert sessions.lowlevel.call_tool("ask", {"kinds": []}).text == "{}"
    assert sessions.person.asked == []


@since([MODERN])
def test_a_server_that_asks_without_end_is_given_up(sessions):
    with pytest.raises(InputRefused, match="no end"):
        sessions.official.call_tool("forever")
    assert len(sessions.person.asked) == sessions.official.asker.max_rounds
    with pytest.raises(InputRefused, match="no end"):
        sessions.official.submit("tools/call", {"name": "forever"}).result(PATIENCE)


@since(list(LEGACY))
def test_a_server_that_asks_by_hand_breaks_off_in_the_legacy_era(sessions):
    """The SDK has no way to ask so: it sends an error."""
    assert refused(sessions.official.call_tool, "forever").code == -32603
    assert refused(sessions.official.get_prompt, "asked").code == -32603
