"""A client of notes_server.py: it learns by itself where to log in, and opens the browser for that.

python notes_client.py [URL]
"""

from __future__ import annotations

import sys

from mcp_ref import McpError, OAuth, connect

URL = "http://127.0.0.1:8000/mcp"


def use(url: str, auth: OAuth) -> None:
    """Read, then write: the second may need a further consent, or fail for good."""
    with connect(url, auth=auth) as client:
        print("notes:", client.call_tool("my_notes").text)
        try:
            print(client.call_tool("add_note", {"text": "call Charles"}).text)
        except McpError as problem:
            print("not allowed:", problem)


if __name__ == "__main__":
    use(sys.argv[1] if len(sys.argv) > 1 else URL, OAuth(client_name="Notes client"))
