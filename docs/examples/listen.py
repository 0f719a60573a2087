"""Listening: one call in either era. It blocks; it ends when it is closed, from any thread."""

import threading

from mcp_ref import Server, connect

server = Server("weather")
celsius = {"zurich": 20}


@server.resource("weather://zurich")
def zurich() -> str:
    """How warm it is in Zurich."""
    return f"{celsius['zurich']} degrees"


for revision in ("2026-07-28", "2025-11-25"):
    with connect(server, revision=revision) as client:
        changes = client.listen(resources=["weather://zurich", "weather://atlantis"], resource_list=True)
        print(revision, "not told of:", changes.refused)

        for _ in range(100):  # many changes are one
            celsius["zurich"] += 1
            server.resource_updated("weather://zurich")
        change = changes.next(timeout=10)
        print(change, client.read_resource(change.uri).text)

        threading.Timer(0.2, server.add_resource, (zurich, f"weather://zurich/{revision}")).start()
        for change in changes:
            if change.kind == "resources":  # the list: there is one more
                print(change.method)
                threading.Thread(target=changes.close).start()
        print("closed")
