"""Hooks: one function around every request. It may look, answer, change or refuse."""

from mcp_ref import ClientOptions, Context, ErrorResponse, ProtocolError, Server, connect

server = Server("bank")


@server.tool
def balance(account: str) -> int:
    """How much money there is."""
    return 100


@server.around
def logged(ctx: Context, params, proceed):
    print(f"{ctx.client_info['name']} asks {ctx.method} in {ctx.revision}")
    return proceed(params)


@server.around
def guarded(ctx: Context, params, proceed):
    if params.get("arguments", {}).get("account") == "secret":
        raise ProtocolError("no such account", code=1001)
    return proceed(params)


with connect(server, options=ClientOptions(name="cashier")) as client:
    print(client.call_tool("balance", {"account": "mine"}).text)
    try:
        client.call_tool("balance", {"account": "secret"})
    except ErrorResponse as problem:
        print(problem.code, problem.message)
