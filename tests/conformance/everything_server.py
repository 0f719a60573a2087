"""A server with one of everything: what the official conformance suite calls, and what other clients like to.

    python everything_server.py                 over stdio
    python everything_server.py --http PORT     at http://127.0.0.1:PORT/mcp, and at /sse as in 2024-11-05

With `--answers stream` every answer over HTTP is an event stream, with `json` none is.

The server itself is in fixtures_server.py. What it offers is in the other files beside it, by what it is
about; each adds to the server when it is imported.
"""

import argparse
import importlib

from fixtures_server import server

from mcp_ref import HttpOptions

PARTS = ("content", "behaviour", "asking", "rounds", "resources", "tasks")
"""In the order of the list of tools: the suite calls the first one with no arguments."""

for part in PARTS:
    importlib.import_module(f"fixtures_{part}")


def main() -> None:
    parser = argparse.ArgumentParser(description="a server with one of everything")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp")
    parser.add_argument("--answers", choices=("auto", "json", "stream"), default="auto")
    options = parser.parse_args()
    if options.http is None:
        server.run()
    else:
        http = HttpOptions(answers=options.answers)
        server.run("http", host="127.0.0.1", port=options.http, sse_path="/sse", options=http)


if __name__ == "__main__":
    main()
