"""A database, the explorer for it, and a client that looks around."""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from mcp_ref import connect

SERVER = Path(__file__).with_name("sqlite_server.py")

LIBRARY = """
create table authors (id integer primary key, name text not null);
create table books (title text not null, year integer, author integer references authors);
insert into authors values (1, 'Jane Austen'), (2, 'James Joyce');
insert into books values ('Emma', 1815, 1), ('Persuasion', 1817, 1), ('Ulysses', 1922, 2);
"""

COUNT = "select name, count(*) as books from books join authors on author = id group by id"
WRONG = ["delete from books", "attach 'other.db' as other", "select titel from books", "select 1; select 2"]

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "library.db")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(LIBRARY)
        with connect([sys.executable, SERVER, path]) as client:
            print(client.read_resource("db:schema").text)

            print(client.call_tool("query", {"sql": COUNT}).structured)
            for sql in WRONG:
                print(f"{sql} -> {client.call_tool('query', {'sql': sql}).text}")

            found = client.complete(resource="db://{table}", argument="table", value="b")
            print(found["completion"]["values"])
            print(client.read_resource("db://books").text)
            print(client.get_prompt("explain", {"table": "books"}).text)

            with client.listen(resources=["db:schema"]) as changes:
                database.execute("create index by_year on books (year)")
                print(changes.next(timeout=10))
            print(client.read_resource("db:schema").text.splitlines()[-1])
