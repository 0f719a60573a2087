"""A client whose token is renewed, and what it makes of a page that is no server."""

import itertools
import queue
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from mcp_ref import McpError, Server, connect

server = Server("books", version="1")
numbers = itertools.count(1)
asked = []


def who(request):
    """See which tokens arrive."""
    asked.append(request.headers.get("Authorization"))
    return "reader"


def headers():
    """Called for each request: here a token may be renewed."""
    return {"Authorization": f"Bearer {next(numbers)}"}


@server.tool
def shelf(subject: str) -> int:
    """Which shelf?"""
    return len(subject)


ready: queue.SimpleQueue[str] = queue.SimpleQueue()
options = {"port": 0, "authenticate": who, "on_ready": ready.put}
threading.Thread(target=server.run, args=("http",), kwargs=options, daemon=True).start()

with connect(ready.get(timeout=10), headers=headers) as client:
    print(client.revision, client.call_tool("shelf", {"subject": "music"}).text)
print(asked)


class Website(BaseHTTPRequestHandler):
    """Answers in HTML, whatever it is asked."""

    def do_POST(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><title>Welcome</title><p>This is a website.</html>")

    def log_message(self, *args):
        """Say nothing."""


website = HTTPServer(("127.0.0.1", 0), Website)
threading.Thread(target=website.serve_forever, daemon=True).start()
try:
    connect(f"http://127.0.0.1:{website.server_port}/")
except McpError as problem:
    print(type(problem).__name__, str(problem).replace(str(website.server_port), "PORT"))
