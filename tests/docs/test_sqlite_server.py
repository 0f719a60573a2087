"""The SQLite explorer of the examples takes queries from anybody: none may write, and all must end."""

from __future__ import annotations

import importlib.util
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from peers import PATIENCE

from mcp_ref import Client, ErrorResponse, connect

PATH = Path(__file__).resolve().parents[2] / "docs" / "examples" / "sqlite_server.py"

SCHEMA = """
create table t (a integer, b text);
create index i on t (b);
create table "odd "" name/?" (a);
create view v as select a from t;
insert into t values (1, 'one'), (2, 'two');
"""


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example, as a module."""
    spec = importlib.util.spec_from_file_location("sqlite_server", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a name that a URI cannot hold as it is."""
    path = tmp_path / "a b?#%.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    return path


@pytest.fixture
def client(example: ModuleType, database: Path) -> Iterator[Client]:
    with connect(example.explorer(database)) as connected:
        yield connected


def failed(client: Client, sql: str) -> str:
    """What is said of a query that cannot be."""
    result = client.call_tool("query", {"sql": sql})
    assert result.is_error
    return result.text


def test_rows_are_structured(client: Client) -> None:
    result = client.call_tool("query", {"sql": "select a, b, a as b from t order by a"})
    assert result.structured == {
        "columns": ["a", "b", "b"],
        "rows": [[1, "one", 1], [2, "two", 2]],
        "more": False,
    }


@pytest.mark.parametrize(
    "sql",
    [
        "insert into t values (3, 'three')",
        "replace into t values (1, 'x')",
        "update t set a = 5",
        "delete from t",
        "delete from t returning a",
        "with x as (select 1) delete from t",
        "create table u (a)",
        "create temp table u (a)",
        "create virtual table u using fts5 (a)",
        "drop table t",
        "alter table t rename to u",
        "vacuum",
        "vacuum into 'new.db'",
        "reindex",
        "analyze",
        "attach 'new.db' as u",
        "detach main",
        "pragma writable_schema = 1",
        "pragma journal_mode = wal",
        "pragma user_version",
        "select * from pragma_table_info('t')",
        "begin",
        "savepoint s",
        "rollback",
        "explain delete from t",
        "update sqlite_master set sql = ''",
        "insert into sqlite_master values (1, 2, 3, 4, 5)",
        "select load_extension('new')",
        "select writefile('new', 'x')",
        "select 1; delete from t",
        "select 1 -- ;\n; delete from t",
    ],
)
def test_nothing_but_reading_is_allowed(
    client: Client, database: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(database.parent)
    before = database.read_bytes()
    assert failed(client, sql)
    assert database.read_bytes() == before
    assert list(database.parent.iterdir()) == [database]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("delete from t", "not allowed: this database is for reading, with SELECT"),
        ("selec a from t", 'near "selec": syntax error'),
        ("select c from t", "no such column: c"),
        ("select * from u", "no such table: u"),
        ("select * from t where a = ?", "bindings"),
        ("", "0 columns: write a SELECT"),
        ("-- nothing", "0 columns: write a SELECT"),
        ("select 1; select 2", "one statement at a time"),
        ("select '\0'", "null character"),
        ("select zeroblob(1000000000)", "more than 200000 bytes"),
        ("select " + "1," * 100 + "1", "101 columns"),
        (f"select {'(' * 500}1{')' * 500}", "stack overflow"),
        ("x" * 10_001, "at most 10000"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(client: Client, sql: str, says: str) -> None:
    assert says in failed(client, sql)


ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        "with c(x) as (values (1), (2), (3), (4), (5), (6), (7), (8), (9)) select count(*) from "
        + ", ".join(f"c c{n}" for n in range(20)),
    ],
)
def test_a_query_without_end_is_stopped(
    client: Client, example: ModuleType, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(example, "MAX_SECONDS", 0.05)
    start = time.monotonic()
    assert "stopped after" in failed(client, sql)
    assert time.monotonic() - start < PATIENCE / 2


def test_a_query_that_nobody_waits_for_is_stopped(
    client: Client, example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "MAX_SECONDS", 60.0)
    started, ended = threading.Event(), threading.Event()
    select = example.Database.select

    def noticed(*arguments: Any) -> Any:
        started.set()
        try:
            return select(*arguments)
        finally:
            ended.set()

    monkeypatch.setattr(example.Database, "select", noticed)
    call = client.submit("tools/call", {"name": "query", "arguments": {"sql": ENDLESS}})
    assert started.wait(10)
    call.cancel()
    assert ended.wait(10)


def doubled(join: str) -> str:
    """Thirty WITHs, each with twice as much to it as the one before."""
    more = "".join(f", a{n} as (select p.x from a{n - 1} p {join})".format(n=n - 1) for n in range(1, 30))
    return f"with a0 as (select 1 x){more} select x from a29"


@pytest.mark.parametrize("join", [", a{n} q", "union all select x from a{n}"])
def test_a_query_that_would_fill_the_memory_is_stopped(client: Client, join: str) -> None:
    assert "too much memory" in failed(client, doubled(join))
    assert client.call_tool("query", {"sql": "select 1"}).structured["rows"] == [[1]]


def test_rows_beyond_the_bound_are_left_out(client: Client) -> None:
    sql = "with recursive c(x) as (select 1 union all select x + 1 from c where x < {}) select x from c"
    for count, more in (100, False), (101, True):
        found = client.call_tool("query", {"sql": sql.format(count)}).structured
        assert (len(found["rows"]), found["more"]) == (100, more)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("null", None),
        ("9223372036854775807", 9223372036854775807),
        ("0.5", 0.5),
        ("9e999", "inf"),
        ("-9e999", "-inf"),
        ("x'00ff'", "(2 bytes)"),
        ("cast(x'61ff' as text)", "a\ufffd"),
        ("char(0)", "\0"),
        ("replace(hex(zeroblob(1000)), '00', 'ab')", "ab" * 500 + "... (2000 characters)"),
        ("(select value from json_each('[5]'))", 5),
    ],
)
def test_every_value_has_a_form_in_json(client: Client, sql: str, value: object) -> None:
    assert client.call_tool("query", {"sql": f"select {sql}"}).structured["rows"] == [[value]]


def test_tables_are_read_by_their_uris(client: Client) -> None:
    assert client.read_resource("db://t").text == (
        '{"columns":["a","b"],"rows":[[1,"one"],[2,"two"]],"more":false}'
    )
    assert client.read_resource("db://v").text.startswith('{"columns":["a"]')
    assert client.read_resource("db://odd%20%22%20name%2F%3F").text.startswith('{"columns":["a"]')


@pytest.mark.parametrize("uri", ["db://nothing", "db://sqlite_master", "db://T", "db://t%20union", "db://"])
def test_what_is_no_table_is_not_found(client: Client, uri: str) -> None:
    with pytest.raises(ErrorResponse, match="Resource not found") as refused:
        client.read_resource(uri)
    assert refused.value.data == {"uri": uri}


def test_names_of_tables_are_completed(client: Client) -> None:
    def values(typed: str) -> object:
        asked: Any = {"resource": "db://{table}"}, {"prompt": "explain"}
        found = [client.complete(**of, argument="table", value=typed)["completion"] for of in asked]
        assert found[0] == found[1]
        return found[0]["values"]

    assert values("") == ['odd " name/?', "t", "v"]
    assert values("O") == ['odd " name/?']
    assert values("x") == []


def test_a_prompt_brings_the_schema(client: Client) -> None:
    said = client.get_prompt("explain", {"table": "t"})
    assert "CREATE TABLE t (a integer, b text);" in said["messages"][0]["content"]["resource"]["text"]
    with pytest.raises(ErrorResponse, match="there is no table u") as refused:
        client.get_prompt("explain", {"table": "u"})
    assert refused.value.code == -32602


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_who_listens_is_told_of_a_new_schema(example: ModuleType, database: Path, revision: str) -> None:
    with (
        connect(example.explorer(database), revision=revision) as client,
        client.listen(resources=["db:schema"]) as changes,
        closing(sqlite3.connect(database)) as connection,
    ):
        connection.execute("create table u (a)")
        change = changes.next(timeout=10)
        assert change is not None
        assert change.uri == "db:schema"
        assert "CREATE TABLE u (a);" in client.read_resource("db:schema").text


def test_a_file_that_is_none_or_gone_is_told(example: ModuleType, database: Path) -> None:
    with connect(example.explorer(database)) as client:
        database.write_bytes(b"no database, but as long as one" * 100)
        assert "file is not a database" in failed(client, "select 1 from t")
        with pytest.raises(ErrorResponse, match="file is not a database"):
            client.read_resource("db:schema")
        database.unlink()
        assert "unable to open" in failed(client, "select 1")


def test_the_explorer_leaves_no_thread_behind(example: ModuleType, database: Path) -> None:
    with connect(example.explorer(database)):
        assert "schema watcher" in {thread.name for thread in threading.enumerate()}
    assert "schema watcher" not in {thread.name for thread in threading.enumerate()}
