"""A server over HTTP: `python remote_server.py 8000` serves http://127.0.0.1:8000/mcp until Ctrl-C."""

import sys

from mcp_ref import Context, Server

server = Server("library")
TITLES = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


@server.tool
def count(ctx: Context, shelves: int) -> str:
    """Count the books, one shelf after another."""
    for shelf in range(1, shelves + 1):
        ctx.progress(shelf, shelves)
    return f"{shelves * 30} books"


@server.tool
def borrow(ctx: Context) -> str:
    """Borrow a book. Asks which."""
    answer = ctx.elicit("Which book?", TITLES)
    return f"Here is {answer.content['title']}." if answer.content else "Another time."


if __name__ == "__main__":
    port = int(sys.argv[1]) if sys.argv[1:] else 8000
    server.run("http", port=port, on_ready=lambda url: print(url, flush=True))
