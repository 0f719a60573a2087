"""Resources: what a server has to read, and how a client finds, reads and watches it."""

from mcp_ref import ErrorResponse, ResourceNotFound, Server, connect
from mcp_ref.server.resources import is_not_found

server = Server("library")
books = {"emma": "Emma Woodhouse, handsome, clever, and rich", "ulysses": "Stately, plump Buck Mulligan"}


@server.resource("library://about", mime_type="text/markdown")
def about() -> str:
    """What this library is."""
    return f"# A library of {len(books)} books"


@server.resource("library://books/{title}")
def book(title: str) -> str:
    """The text of a book."""
    if title not in books:
        raise ResourceNotFound(f"library://books/{title}")
    return books[title]


with connect(server) as client:
    for resource in client.list_resources():
        print(resource["uri"], "-", resource["description"])
    for template in client.list_resource_templates():
        print(template["uriTemplate"], "-", template["description"])
    print(client.read_resource("library://about").text)
    print(client.read_resource("library://books/emma")["contents"])
    for uri in ("library://books/moby-dick", "library://books/..%2Fkeys", "no uri"):
        try:
            client.read_resource(uri)
        except ErrorResponse as problem:
            print(problem, problem.data, is_not_found(problem))
    with client.listen(resources=["library://books/emma"]) as changes:
        books["emma"] += ", with a comfortable home"
        server.resource_updated("library://books/emma")
        print(changes.next(timeout=10))
    print(client.read_resource("library://books/emma").text)
