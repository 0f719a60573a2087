"""The server of the demo: four tools, one of which asks before it does anything, and one that is a task."""

import sys
from dataclasses import dataclass

from mcp_ref import Context, Server, TaskOptions
from mcp_ref.server.content import ContentBlock, resource_link, text

server = Server(
    "demo",
    version="1.0.0",
    instructions="Adds, counts, books tables and renders films.",
    tasks=TaskOptions(poll_interval=0.5),
)


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(title="Count", annotations={"readOnlyHint": True})
def count(upto: int, ctx: Context) -> list[str]:
    """Count aloud."""
    words = []
    for number in range(1, upto + 1):
        ctx.progress(number, upto, message="counting")
        words.append(f"number {number}")
    return words


@dataclass
class Party:
    guests: int
    outside: bool = False


@server.tool(output_schema=False)
def book(day: str, ctx: Context) -> str:
    """Book a table."""
    say("begins, and asks")
    answer = ctx.elicit(f"A table on {day}, for how many?", Party)
    say("has its answer, and ends")
    if not answer.accepted:
        return f"not booked: {answer.action}"
    return f"booked for {answer.data.guests}"


@server.tool(task="required")
def render(film: str, ctx: Context) -> list[ContentBlock]:
    """Render a film."""
    ctx.progress(1, 2, message="rendered")
    if not ctx.confirm(f"Half of {film} is there. Go on?"):
        return [text("left unfinished")]
    ctx.progress(2, 2, message="rendered")
    return [text("rendered"), resource_link(f"file:///films/{film}.mp4", f"{film}.mp4")]


def say(what: str) -> None:
    """For people who watch: stderr is not part of the protocol."""
    print(f"             the function book() {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    server.run()
