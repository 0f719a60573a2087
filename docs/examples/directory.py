"""A directory as resources: what is in it is listed, read and watched; what a link leads to is not."""

import tempfile
from pathlib import Path

from mcp_ref import ErrorResponse, Server, connect

with tempfile.TemporaryDirectory() as home:
    handbook = Path(home, "handbook")
    handbook.mkdir()
    (handbook / "first steps.md").write_text("# First steps\n")
    (handbook / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (handbook / "passwords").symlink_to("/etc/passwd")

    server = Server("handbook")
    server.add_directory(handbook, uri="docs://handbook/", poll=0.05)

    with connect(server) as client:
        for resource in client.list_resources():
            print(resource["uri"], resource["mimeType"], resource["size"])
        steps = "docs://handbook/first%20steps.md"
        print(client.read_resource(steps).text.strip())
        for path in ("passwords", "../other", "%2e%2e/other"):
            try:
                client.read_resource(f"docs://handbook/{path}")
            except ErrorResponse as problem:
                print(problem)
        with client.listen(resources=[steps]) as changes:
            (handbook / "first steps.md").write_text("# First steps, and second ones\n")
            print(changes.next(timeout=10))
        print(client.read_resource(steps).text.strip())
