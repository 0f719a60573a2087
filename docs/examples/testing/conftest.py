"""Fixtures: a client of the server in memory, in both eras, and one over HTTP, through a real socket."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from mcp_ref import Client, connect

sys.path.insert(0, str(Path(__file__).parent))  # not needed where the server is an installed package
from weights import server


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """In memory: no process, no socket, a millisecond. Break points and monkeypatch work in the tools."""
    with connect(server, revision=request.param, elicitation=lambda question: True) as client:
        yield client


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The URL of the server, on a free port, as long as the tests run."""
    app = server.wsgi_app()
    http = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.port}/mcp"
    http.shutdown()
    thread.join()
    http.server_close()
    app.close()


@pytest.fixture
def http_client(url: str) -> Iterator[Client]:
    """Over HTTP: what headers, tokens and streams have to do with it is tested, too."""
    with connect(url) as client:
        yield client
