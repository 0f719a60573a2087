"""One blocking ask, either era: the same tool, resource and prompt in every revision that can ask a person.

The server is a child process; what crosses its pipes is recorded and looked at. BOOK is the promise as it
stands on the first page: not a line of it knows of eras.
"""

import sys

import pytest
from choices import for_connect
from peers import ENV, MODERN, ROOT, Notes, nothing_left, python, recorded, source, tap

from mcp_ref import ClientOptions, connect

BOOK = """
    from dataclasses import dataclass

    @dataclass
    class Confirm:
        sure: bool = True

    @server.tool
    def book(date: str, ctx: Context) -> str:
        answer = ctx.elicit(f"Book {date}?", Confirm)      # Confirm: a dataclass
        if answer.action != "accept": return "not booked"
        reply = ctx.sample("Write a greeting", max_tokens=50)
        return reply.text
"""
EXAMPLE = [sys.executable, f"{ROOT}/docs/examples/book.py", "serve"]
WITH_FORMS = ("2025-06-18", "2025-11-25", "2026-07-28")
revisions = pytest.mark.parametrize("revision", WITH_FORMS)


def ask(question):
    assert (question.server, question.mode) == ("raw tests", "form")
    assert question.message == "Book Friday?"
    assert [(field.name, field.kind, field.default) for field in question.fields] == [
        ("sure", "boolean", True)
    ]
    return {}


def my_llm(request):
    assert (request.text, request.max_tokens) == ("Write a greeting", 50)
    return "Hello!"


def asked_by_the_server(received):
    return [message["method"] for message in received if "method" in message and "id" in message]


@revisions
@pytest.mark.spec(
    "basic/patterns/mrtr/use-mrtr",
    "basic/patterns/mrtr/client-constructs-inputs",
    "basic/patterns/mrtr/retry-new-id",
    "client/elicitation/create-request",
    "client/elicitation/create-input-request",
)
def test_the_book_example(revision, tmp_path):
    wire = tmp_path / "wire"
    with nothing_left():
        server = tap(python(source(BOOK)), wire)
        with connect(
            server, revision=revision, elicitation=ask, sampling=my_llm, options=ClientOptions(env=ENV)
        ) as client:
            assert client.call_tool("book", {"date": "Friday"}).text == "Hello!"
    sent, received = recorded(wire)
    calls = [message for message in sent if message.get("method") == "tools/call"]
    if revision != MODERN:
        assert len(calls) == 1
        assert asked_by_the_server(received) == ["elicitation/create", "sampling/createMessage"]
    else:
        assert len(calls) == len({call["id"] for call in calls}) == 3
        assert asked_by_the_server(received) == []
        results = {message["id"]: message["result"] for message in received}
        kinds = [results[call["id"]]["resultType"] for call in calls]
        assert kinds == ["input_required", "input_required", "complete"]


@revisions
@pytest.mark.parametrize("say", ["decline", "cancel"])
def test_a_person_who_does_not_want_it(revision, say):
    def no(question):
        return getattr(question, say)()

    server = python(source(BOOK))
    with connect(
        server, revision=revision, elicitation=no, sampling=pytest.fail, options=ClientOptions(env=ENV)
    ) as client:
        assert client.call_tool("book", {"date": "Friday"}).text == "not booked"


@revisions
def test_a_tool_a_resource_and_a_prompt_ask(revision):
    """docs/examples/book.py: with roots too, and a side effect that must not happen twice."""
    said = {"Book Friday?": {"sure": True, "name": "Mona"}, "Do you eat meat?": {"sure": False}}
    options = {
        "elicitation": lambda question: said[question.message],
        "sampling": lambda request: f"{request.text}: Hello!",
        "roots": [{"uri": "file:///home/mona", "name": "Mona's"}],
        "revision": revision,
    }
    with nothing_left(), connect(EXAMPLE, **for_connect(env=ENV, **options)) as client:
        for number in (1, 2):
            booked = client.call_tool("book", {"date": "Friday"}).text
            assert booked == f"booking {number} for Mona: Write a greeting: Hello!"
        assert client.read_resource("menu://friday").text == "friday: beans"
        assert client.get_prompt("invite").text == "Invite my friends to Mona's. A joke, please: Hello!"


@revisions
def test_what_is_printed_on_the_way_is_printed_as_often_as_the_handler_runs(revision):
    """The trap: what stands before a question runs again in the modern era, unless `once` keeps it."""
    body = """
        import sys
        @server.tool
        def noisy(ctx: Context) -> str:
            print('"runs"', file=sys.stderr, flush=True)
            ctx.once("only", lambda: print('"once"', file=sys.stderr, flush=True))
            ctx.elicit("a?"), ctx.elicit("b?")
            print('"ends"', file=sys.stderr, flush=True)
            return "done"
    """
    notes = Notes()
    server = python(source(body))
    with connect(
        server, revision=revision, elicitation=lambda q: True, options=ClientOptions(env=ENV, on_stderr=notes)
    ) as client:
        assert client.call_tool("noisy").text == "done"
        notes.until(lambda line: line == "ends")
    assert notes.all.count("runs") == (3 if revision == MODERN else 1)
    assert notes.all.count("once") == 1
