"""Echo: a server with one of everything, as small as can be, and a client that uses it.

mcp-ref serve echo.py      serves it
python echo.py             runs the client below
"""

from mcp_ref import Server, connect

server = Server("echo")


@server.tool
def echo(text: str) -> str:
    """Say the same."""
    return text


@server.resource("echo://{text}")
def echoed(text: str) -> str:
    """Whatever the URI says."""
    return text


@server.prompt
def repeat(text: str) -> str:
    """Have a model say the same."""
    return f"Please repeat: {text}"


if __name__ == "__main__":
    with connect(server) as client:
        print(client.call_tool("echo", {"text": "hello"}).text)
        print(client.read_resource("echo://hello%20again").text)
        print(client.get_prompt("repeat", {"text": "goodbye"}).text)
