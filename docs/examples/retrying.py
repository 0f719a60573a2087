"""A client that is turned away by a limit comes back; one whose server is not there waits for a while."""

from mcp_ref import Limit, NotReached, Retry, Server, connect

server = Server("shop", limit=Limit(rate=10, burst=1))


@server.tool
def price(of: str) -> int:
    """The price of a thing."""
    return 10 * len(of)


if __name__ == "__main__":
    with connect(server, retry=Retry(5)) as client:
        for thing in ("tea", "bread", "honey"):
            print(thing, client.call_tool("price", {"of": thing}).text)
    try:
        connect("http://127.0.0.1:9/mcp", retry=Retry(2, pause=0.05))
    except NotReached as problem:
        print("not reached:", str(problem).partition(":")[0])
