"""One value: asked for by its type."""

import enum

from mcp_ref import Context, Server, connect

server = Server("cinema")


class Row(enum.Enum):
    FRONT = "f"
    BACK = "b"


@server.tool
def book(ctx: Context) -> str:
    """Book seats."""
    seats = ctx.elicit("How many seats?", int)
    if not seats:
        return "as you like"
    row = ctx.elicit("In which row?", Row)
    return f"{seats.data} seats at the {row.data.name.lower()}" if row else "as you like"


def answer(question):
    field = question.fields[0]
    print(question.message, [title for _, title in field.choices] or field.kind)
    return {"value": "b" if field.choices else 3}


with connect(server, elicitation=answer) as client:
    print(client.call_tool("book").text)
