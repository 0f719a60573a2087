"""`server.run("http")`: the MCP endpoint on a socket of its own (page: basic/transports/streamable-http).

Runs the WSGI application (basic/transports/streamable_http) on the embedded server
(runtime/http_server/server) until a signal ends it. Other WSGI servers run the same application: see the
page on deployment.

Revisions   all.
Threads     the thread that calls `serve` accepts connections; each connection has a thread of its own.

Shutdown    SIGINT or SIGTERM: 1 no more connections  2 the application ends its streams, and gives calls
            `grace` seconds (`Application.close`)  3 the remaining connections are closed. After a second
            signal, step 2 waits no longer for calls. No signal interrupts the end of the lifespan until
            `grace` + IN_PEACE seconds after the first signal; then the next one raises KeyboardInterrupt.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from mcp_ref.api import at_terminal
from mcp_ref.basic.transports.streamable_http.security import LOOPBACK
from mcp_ref.runtime.checks import check_bool, check_callable, check_count, check_seconds, check_text
from mcp_ref.runtime.http_server.receiving import Limits
from mcp_ref.runtime.http_server.server import HttpServer
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.signals import IN_PEACE, Handled

if TYPE_CHECKING:
    from mcp_ref.api.options import AppOptions
    from mcp_ref.api.server import Server
    from mcp_ref.basic.transports.streamable_http.endpoint import Application

__all__ = ["serve"]

_log = logger("mcp_ref.http")


def serve(
    server: Server,
    *,
    host: str = LOOPBACK,
    port: int = 8000,
    path: str = "/mcp",
    grace: float = 3.0,
    max_connections: int = 1000,
    on_ready: Callable[[str], object] | None = None,
    log: bool = False,
    **more: Unpack[AppOptions],
) -> None:
    """Serve until a signal. When connections are accepted, `on_ready(url)` is called; without it, the URL is
    printed on a terminal. `grace` is how many seconds calls get to finish after the signal. `log` prints a
    line for each request on stderr. The other keywords are those of `Server.wsgi_app`.
    """
    check_bool(log=log)
    check_text(host=host, path=path)
    check_callable(on_ready=on_ready)
    check_count(1, max_connections=max_connections)
    check_count(0, port=port)
    if grace != 0:
        check_seconds("grace", grace)
    app = server.wsgi_app(path, **more)
    limit = app.bodies.one + (64 << 10)
    host = host.removeprefix("[").removesuffix("]")  # as in a URL
    served = at_terminal.RequestLog(app) if log else app
    http = HttpServer(served, host, port, Limits(max_connections, max_body_bytes=limit))
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{http.port}{app.path}"
    signals = _Signals(http, app, grace + IN_PEACE)
    with Handled(signals.hear, (signal.SIGTERM, signal.SIGINT)):
        try:
            app.start()  # enter the lifespan: if that fails, it fails here, and not at the first request
            signals.serves = True
            _log.info("serving at %s", url)
            (on_ready or at_terminal.say_serving)(url)
            http.serve()
            http.stop()
            app.close(grace)
        finally:
            signals.ends()
            app.close(0.0)
            http.close(0.5)


class _Signals:
    """Handles SIGTERM and SIGINT alike: the first one ends the service, a second one makes it hurry.

    Neither interrupts what is running, except before the lifespan was entered, and more than `patience`
    seconds after the end has begun: then KeyboardInterrupt is raised.
    """

    def __init__(self, http: HttpServer, app: Application, patience: float) -> None:
        self._http, self._app, self._patience = http, app, patience
        self.serves = False
        """Whether the lifespan was entered. Before that, the first signal raises KeyboardInterrupt."""
        self._since: float | None = None

    def ends(self) -> None:
        """Note the time at which the end began, with a signal or without."""
        if self._since is None:
            self._since = time.monotonic()

    def hear(self, number: int, frame: Any) -> None:
        first, now = self._since is None, time.monotonic()
        self.ends()
        if (first and not self.serves) or (self._since is not None and now - self._since > self._patience):
            raise KeyboardInterrupt
        if not first:
            self._app.hurry()
        self._http.stop()
