"""What can go wrong, and how it shows: the peer's error, a tool that failed, a fact of this side."""

from mcp_ref import ConnectionClosed, ErrorResponse, RequestTimeout, Server, connect

server = Server("troubles")


@server.tool
def divide(a: float, b: float) -> float:
    """Divide."""
    return a / b


@server.on_request("com.example/slow")
def slow(params, ctx):
    ctx.sleep(60)


with connect(server) as client:
    # A tool that raised, or did not like its arguments: a result, for the model to read.
    for arguments in ({"a": 1, "b": 0}, {"a": 1, "b": "two"}):
        result = client.call_tool("divide", arguments)
        print("is_error", result.is_error, "-", result.text)

    # The server refused: an exception with the error's code.
    for method, params in (("tools/call", {"name": "multiply"}), ("com.example/nothing", {})):
        try:
            client.request(method, params)
        except ErrorResponse as problem:
            print("ErrorResponse", problem.code, "-", problem.message)

    # No answer came: a local fact, which has no code.
    try:
        client.request("com.example/slow", timeout=0.1)
    except RequestTimeout as problem:
        print("RequestTimeout -", problem)

try:
    client.ping()
except ConnectionClosed as problem:
    print("ConnectionClosed -", problem)

# Before 2025-11-25 bad arguments are an error of the protocol.
with connect(server, revision="2025-06-18") as client:
    try:
        client.call_tool("divide", {"a": 1, "b": "two"})
    except ErrorResponse as problem:
        print(client.revision, problem.code, "-", problem.message)
