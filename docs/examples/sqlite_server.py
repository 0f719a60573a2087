"""An explorer for SQLite databases: what is in one, and answers to any query, but nothing that changes it.

    python sqlite_server.py library.db

A query comes from a model, so from anybody. Three things see to it that it does no harm: the file is opened
for reading only, an authorizer lets nothing but reading pass, and time, rows and memory are bounded.

Threads     each request opens a connection of its own, on its worker; one more thread looks for changes.
"""

import math
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from mcp_ref import Bounds, Context, ResourceNotFound, Server
from mcp_ref.basic.index.error_responses import InvalidParams
from mcp_ref.server.content import embedded

MAX_SECONDS = 2.0
MAX_ROWS, MAX_COLUMNS, MAX_TEXT = 100, 100, 1000
MAX_VALUE = 200_000
"""Bytes of one value while a query runs: some functions take long for more, and cannot be stopped."""
MAX_MEMORY = 64 << 20
"""Bytes, for all queries at once: ten nested WITHs would take gigabytes before the first row."""
LOOK_EVERY = 0.2
"""Seconds between two looks at the schema."""


class Rows(TypedDict):
    columns: list[str]
    rows: list[list[str | int | float | None]]
    more: Annotated[bool, "whether there are rows beyond these"]


# ------------------------------------------------------------------------ the database

READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}

WHY = {
    "SQLITE_AUTH": "not allowed: this database is for reading, with SELECT",
    "SQLITE_INTERRUPT": f"stopped after {MAX_SECONDS:g} seconds: ask for less",
    "SQLITE_TOOBIG": f"a value of more than {MAX_VALUE} bytes came up: ask for less",
}


def authorize(action: int, first: str | None, *more: str | None) -> int:
    """No ATTACH and no VACUUM INTO, which `mode=ro` would let write elsewhere; no PRAGMA, no BEGIN."""
    # With this a table-valued function such as json_each says which columns it has.
    declares = (action, first) == (sqlite3.SQLITE_UPDATE, "sqlite_master")
    return sqlite3.SQLITE_OK if action in READING or declares else sqlite3.SQLITE_DENY


class Database:
    """A file that is read, and never written."""

    def __init__(self, path: Path) -> None:
        self.uri = f"{path.resolve().as_uri()}?mode=ro"

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection whose use of memory is bounded."""
        with closing(sqlite3.connect(self.uri, uri=True, timeout=1)) as connection:
            connection.execute(f"pragma hard_heap_limit = {MAX_MEMORY}")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            yield connection

    def select(self, sql: str, ctx: Context) -> Rows:
        """The first rows of a query of anybody's. Raises ValueError."""
        end = time.monotonic() + MAX_SECONDS
        try:
            with self.opened() as connection:
                connection.set_authorizer(authorize)
                connection.set_progress_handler(lambda: ctx.cancelled or time.monotonic() > end, 1000)
                return first_rows(connection.execute(sql))
        except MemoryError:
            raise ValueError("this takes too much memory: ask for less") from None
        except (sqlite3.Error, sqlite3.Warning) as problem:
            raise ValueError(WHY.get(getattr(problem, "sqlite_errorname", ""), str(problem))) from None

    def column(self, sql: str) -> list[Any]:
        """The first column of a query of our own."""
        with self.opened() as connection:
            return [value for value, *_ in connection.execute(sql)]

    def schema(self) -> str:
        """The statements that made what is in the database."""
        statements = self.column("select sql from sqlite_master where sql is not null")
        return "".join(f"{sql};\n" for sql in statements)

    def tables(self, value: str = "") -> list[str]:
        """Tables and views whose names begin with this."""
        found = self.column("select name from sqlite_master where type in ('table', 'view') order by name")
        return [name for name in found if name.lower().startswith(value.lower())]

    def version(self, before: int = 0) -> int:
        """A number that changes with the schema."""
        try:
            return self.column("pragma schema_version")[0]
        except sqlite3.Error:  # locked, or away: no change that can be told
            return before


def first_rows(cursor: sqlite3.Cursor) -> Rows:
    columns = [name for name, *_ in cursor.description or ()]
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise ValueError(f"{len(columns)} columns: write a SELECT of 1 to {MAX_COLUMNS}")
    rows = [[shown(value) for value in row] for row in cursor.fetchmany(MAX_ROWS + 1)]
    return {"columns": columns, "rows": rows[:MAX_ROWS], "more": len(rows) > MAX_ROWS}


def shown(value: Any) -> str | int | float | None:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}... ({len(value)} characters)"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


# -------------------------------------------------------------------------- the server


def explorer(path: Path) -> Server:
    """A server for this file."""
    database = Database(path)
    server = Server("sqlite", version="1.0.0", title="SQLite explorer", lifespan=partial(watched, database))

    @server.tool(annotations={"readOnlyHint": True, "openWorldHint": False})
    def query(sql: Annotated[str, "one SELECT", Bounds(max_length=10_000)], ctx: Context) -> Rows:
        """Ask the database something; the first 100 rows come back."""
        return database.select(sql, ctx)

    @server.resource("db:schema", mime_type="application/sql")
    def schema() -> str:
        """The statements that made what is in the database."""
        return database.schema()

    @server.resource("db://{table}", complete={"table": database.tables})
    def rows(table: str, ctx: Context) -> Rows:
        """The first rows of a table."""
        if table not in database.tables():
            raise ResourceNotFound(ctx.params["uri"])
        name = table.replace('"', '""')
        return database.select(f'select * from "{name}"', ctx)

    @server.prompt(complete={"table": database.tables})
    def explain(table: str) -> list[Any]:
        """Have a table explained."""
        if table not in database.tables():
            raise InvalidParams(f"there is no table {table}; there are {', '.join(database.tables()[:20])}")
        return [
            embedded("db:schema", database.schema(), mime_type="application/sql"),
            f"What is in the table {table}, and how does it belong to the others? Query it if that helps.",
        ]

    return server


@contextmanager
def watched(database: Database, server: Server) -> Iterator[None]:
    """While the server runs, its subscribers hear when the schema changes."""
    over = threading.Event()
    first = database.version()

    def watch() -> None:
        known = first
        while not over.wait(LOOK_EVERY):
            before, known = known, database.version(known)
            if known != before:
                server.resource_updated("db:schema")

    watcher = threading.Thread(target=watch, name="schema watcher", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python sqlite_server.py DATABASE")
    explorer(Path(sys.argv[1])).run()
