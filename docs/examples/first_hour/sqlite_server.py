"""A server for a database that has a table `books (title, year)`: `python sqlite_server.py books.db`."""

import sqlite3
import sys
from contextlib import closing

from mcp_ref import Server

server = Server("books")


def run(sql: str, *values: object) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(sys.argv[1])) as books, books:  # one for each call: several run at once
        return books.execute(sql, values).fetchmany(100)


@server.tool(annotations={"readOnlyHint": True})
def find(title: str = "", before: int = 9999) -> list[tuple[str, int]]:
    """The first hundred books with this in their titles, of the years before this one."""
    return run("select title, year from books where instr(title, ?) and year < ?", title, before)


@server.tool(annotations={"destructiveHint": False})
def add(title: str, year: int) -> None:
    """Add a book."""
    run("insert into books values (?, ?)", title, year)


server.run()
