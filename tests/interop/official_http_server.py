"""A server of this folder made with the official SDK, over HTTP. Arguments: its module, options as JSON.

It has Streamable HTTP at /mcp (`json_response`, `stateless_http`, `retry_interval`, and with `events` a store
of events), and HTTP+SSE at /sse. It tells its URL in the first line of its output, and serves until SIGTERM.
"""

import importlib
import itertools
import json
import socket
import sys
from functools import partial
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route


class Store(EventStore):
    """All events, in memory; `replayed` of them were sent again."""

    def __init__(self) -> None:
        self.events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not 0 < int(last_event_id) <= len(self.events):
            return None
        stream, _ = self.events[int(last_event_id) - 1]
        for number, (of, message) in itertools.islice(enumerate(self.events, 1), int(last_event_id), None):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def old_transport(server: Server[Any]) -> list[Route | Mount]:
    """HTTP+SSE, as the SDK's documentation has it."""
    transport = SseServerTransport("/messages/")

    async def stream(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return [Route("/sse", stream), Mount("/messages/", app=transport.handle_post_message)]


class Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp", flush=True)


def main(name: str, options: str) -> None:
    found = importlib.import_module(name).server
    server = getattr(found, "_lowlevel_server", found)
    if server is found:  # as over stdio
        server.create_initialization_options = partial(
            server.create_initialization_options, NotificationOptions(True, True, True)
        )
    settings = json.loads(options)
    store = Store() if settings.pop("events", False) else None
    app = found.streamable_http_app(event_store=store, **settings)
    app.router.routes.extend(old_transport(server))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    # With its protocol, or asyncio sets no TCP_NODELAY, and each answer takes 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        Announced(config).run([listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
