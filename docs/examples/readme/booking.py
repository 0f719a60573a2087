from mcp_ref import Context, Server, connect

server = Server("restaurant")
booked: list[str] = []


@server.tool
def book(date: str, ctx: Context) -> str:
    """Book a table."""
    if not ctx.confirm(f"Book {date}?"):
        return "not booked"
    booked.append(date)
    server.resource_updated("restaurant://bookings")
    return f"booked {date}"


@server.resource("restaurant://bookings")
def bookings() -> list[str]:
    """All dates that are taken."""
    return booked


def ask(question):
    return True  # from mcp_ref.cli.terminal import ask: that one asks a person


for revision in "2025-11-25", "2026-07-28":
    with (
        connect(server, revision=revision, elicitation=ask) as client,
        client.listen(resources=["restaurant://bookings"]) as changes,
    ):
        print(client.call_tool("book", {"date": "Friday"}).text)
        change = changes.next(timeout=10)
        print(change.uri, "changed:", client.read_resource(change.uri).text)
