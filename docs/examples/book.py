"""One blocking ask, either era: a tool, a resource and a prompt that ask their client before they go on."""

import itertools
import sys
from dataclasses import dataclass

from mcp_ref import Context, Server, connect

server = Server("bookings")
numbers = itertools.count(1)


@dataclass
class Confirm:
    sure: bool
    name: str = "nobody"


@server.tool
def book(date: str, ctx: Context) -> str:
    """Book a table."""
    answer = ctx.elicit(f"Book {date}?", Confirm)
    if answer.action != "accept" or not answer.data.sure:
        return f"not booked: {answer.action}"
    number = ctx.once("book", lambda: next(numbers))  # not again, when this runs again with the reply
    reply = ctx.sample("Write a greeting", max_tokens=50)
    return f"booking {number} for {answer.data.name}: {reply.text}"


@server.resource("menu://{day}")
def menu(day: str, ctx: Context) -> str:
    """What there is to eat."""
    guest = ctx.elicit("Do you eat meat?", Confirm)
    return f"{day}: {'roast' if guest.accepted and guest.data.sure else 'beans'}"


@server.prompt
def invite(ctx: Context) -> str:
    """Invite somebody to where the work is."""
    place = ctx.list_roots()[0]["name"]
    return f"Invite my friends to {place}. {ctx.sample('A joke, please', max_tokens=50).text}"


if sys.argv[1:] == ["serve"]:
    server.run()
    sys.exit()


def ask(question):
    """Stands where a person would be asked: see mcp_ref.cli.terminal."""
    print(f"  {question.server} asks: {question.message}")
    return {"sure": True, "name": "Mona"} if question.message.startswith("Book") else question.decline()


def model(request):
    """Stands where a model would be called."""
    print(f"  {request.server} asks for: {request.text}")
    return "Hello!"


options = {"elicitation": ask, "sampling": model, "roots": [{"uri": "file:///home/mona", "name": "Mona's"}]}
for revision in ("2025-06-18", "2025-11-25", "2026-07-28"):
    print(revision)
    with connect([sys.executable, __file__, "serve"], revision=revision, **options) as client:
        print(client.call_tool("book", {"date": "Friday"}).text)
        print(client.read_resource("menu://friday").text)
        print(client.get_prompt("invite").text)
