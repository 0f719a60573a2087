"""Completion: of an Enum by itself, of a list by relevance, of a function by what was chosen before."""

import enum

from mcp_ref import Server, connect

server = Server("database")

TABLES = {"main": ["orders", "order_items", "customers"], "archive": ["orders_2024", "orders_2025"]}


class Format(enum.Enum):
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"


def tables(value: str, arguments: dict[str, str]) -> list[str]:
    """The tables of the schema that was chosen already."""
    return [table for table in TABLES.get(arguments.get("schema", "main"), []) if value in table]


@server.prompt(complete={"schema": list(TABLES), "table": tables})
def explain(schema: str, table: str, format: Format = Format.CSV) -> str:
    """Have a table explained."""
    return f"Explain the table {schema}.{table}, as {format.value}."


@server.resource("db://{schema}/{table}", complete={"schema": list(TABLES), "table": tables})
def rows(schema: str, table: str) -> str:
    """The rows of a table."""
    return "1,2,3"


with connect(server) as client:
    for value in "m", "J", "mdn", "x":
        found = client.complete(prompt="explain", argument="format", value=value)
        print(f"format {value!r}:", found["completion"]["values"])

    for schema in "main", "archive":
        found = client.complete(
            resource="db://{schema}/{table}",
            argument="table",
            value="order",
            arguments={"schema": schema},
        )
        print(f"table in {schema}:", found["completion"])
