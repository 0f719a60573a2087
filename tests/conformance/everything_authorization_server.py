"""An authorization server for the official conformance suite: one user, one client, which listens anywhere.

python everything_authorization_server.py PORT          at http://127.0.0.1:PORT
"""

import sys

from mcp_ref.extras.authorization_server import AuthorizationServer, RegisteredClient

CLIENT_ID = "conformance-client"
USER, PASSWORD = "ada", "the password of ada"
RESOURCE = "http://127.0.0.1/mcp"
"""The suite only names it."""


def main() -> None:
    port = int(sys.argv[1])
    auth = AuthorizationServer(
        f"http://127.0.0.1:{port}",
        users={USER: PASSWORD},
        resources=[RESOURCE],
        scopes={"mcp": "Use the tools of the server"},
        clients=[RegisteredClient(CLIENT_ID, ("http://127.0.0.1/callback",), client_name="The suite")],
    )
    auth.run(port=port)


if __name__ == "__main__":
    main()
