"""A protected server: notes, which belong to their users. Each may read, one may write.

    python notes_server.py [PORT [PORT]]

serves http://127.0.0.1:8000/mcp, and beside it the authorization server, on port 9000, which knows the two
users. Try it with notes_client.py, which opens your browser. Ada's password is `lovelace`, Bob's `builder`.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict

from mcp_ref import Context, ResourceServer, Server
from mcp_ref.extras.authorization_server import AuthorizationServer

PASSWORDS = {"ada": "lovelace", "bob": "builder"}
READ, WRITE = "notes:read", "notes:write"
SCOPES = {READ: "Read your notes", WRITE: "Write notes in your name"}
MAY_GRANT = {"ada": [READ, WRITE], "bob": [READ]}
PORTS = "8000", "9000"


def notes_server() -> Server:
    """The server. It says which scopes a tool needs, and asks whose notes are meant; nothing more."""
    server = Server("notes", version="1.0")
    notes: defaultdict[str, list[str]] = defaultdict(lambda: ["buy milk"])

    @server.tool
    def my_notes(ctx: Context) -> list[str]:
        """List the notes of the caller."""
        return notes[str(ctx.principal)]

    @server.tool(scopes=[WRITE])
    def add_note(ctx: Context, text: str) -> str:
        """Write a note."""
        mine = notes[str(ctx.principal)]
        mine.append(text)
        return f"{ctx.principal} has {len(mine)} notes"

    return server


def authorization_server(issuer: str, url: str) -> AuthorizationServer:
    """Who logs users in, and issues tokens for the server at the URL."""
    return AuthorizationServer(
        issuer, users=PASSWORDS, resources=[url], scopes=SCOPES, scopes_of=lambda user: MAY_GRANT[user]
    )


def protection(auth: AuthorizationServer, url: str) -> ResourceServer:
    """What the server at the URL wants to see of each request: a token of this authorization server."""
    return ResourceServer(
        url,
        authorization_servers=[auth.issuer],
        verify=auth.verifier(url),
        scopes=[READ],
        implies={WRITE: [READ]},
        resource_name="Notes",
    )


def main() -> None:
    port, auth_port = map(int, [*sys.argv[1:], *PORTS[len(sys.argv) - 1 :]])
    url = f"http://127.0.0.1:{port}/mcp"
    auth = authorization_server(f"http://127.0.0.1:{auth_port}", url)
    threading.Thread(target=auth.run, kwargs={"port": auth_port}, daemon=True).start()
    print(f"{url} is protected; tokens come from {auth.issuer}", flush=True)
    notes_server().run("http", port=port, auth=protection(auth, url))


if __name__ == "__main__":
    main()
