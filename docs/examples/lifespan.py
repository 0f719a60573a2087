"""A lifespan: entered once, when the first client comes, and left after the last has gone."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from mcp_ref import Context, Server, connect


@contextmanager
def database(server: Server) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("create table notes (text)")
    print("opened")
    try:
        yield connection
    finally:
        connection.close()
        print("closed")


server = Server("notes", lifespan=database)


@server.tool
def note(text: str, ctx: Context) -> int:
    """Keep a note; returns how many there are."""
    ctx.lifespan.execute("insert into notes values (?)", [text])
    return ctx.lifespan.execute("select count(*) from notes").fetchone()[0]


with connect(server) as client:
    client.call_tool("note", {"text": "buy milk"})
    print(client.call_tool("note", {"text": "call Ada"}).text, "notes")
