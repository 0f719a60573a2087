"""The server of the demo: three tools, one of which asks before it does anything."""

import sys
from dataclasses import dataclass

from mcp_ref import Context, Server

server = Server("demo", version="1.0.0", instructions="Adds, counts and books tables.")


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


def say(what: str) -> None:
    """For people who watch: stderr is not part of the protocol."""
    print(f"             the function book() {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    server.run()
