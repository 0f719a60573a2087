"""Which era am I in? One server, two clients, and what a tool can see of it."""

from mcp_ref import ClientOptions, Context, Server, connect

server = Server("eras", version="1.0.0")


@server.tool
def which(ctx: Context) -> str:
    """Tell what the server knows of this request."""
    source = "this request's own _meta" if ctx.session is None else "the session that initialize opened"
    return f"{ctx.revision}, {ctx.revision.era.value}: {ctx.client_info['name']} is known from {source}"


for revision in (None, "2024-11-05"):
    with connect(server, revision=revision, options=ClientOptions(name="script")) as client:
        print(client.revision, client.revision.era.value, "modern:", client.revision.modern)
        print(client.call_tool("which").text)
