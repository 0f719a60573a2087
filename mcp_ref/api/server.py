"""Server (page: server/index): the class with which an author writes a server.

    server = Server("demo", version="1.0.0")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    server.run()

A server has no connection of its own: transports attach one after another, or many at once, and all
of them are served from the same tables (api/serving).

Revisions   all; `Server(revisions=...)` restricts them.
Threads     any: an author may register functions, and transports may attach and detach, at any time.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from mcp_ref.api.context import Context
from mcp_ref.api.options import AppOptions, RunOptions, ServerOptions
from mcp_ref.api.registering import Registry
from mcp_ref.api.serving import Serving
from mcp_ref.basic import lifecycle
from mcp_ref.basic.index.general_fields import Implementation
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.index.connection import Connection
from mcp_ref.basic.patterns.index.context import WayOut
from mcp_ref.basic.patterns.subscriptions import server as subscriptions
from mcp_ref.basic.patterns.subscriptions.server import Change, TaskChange
from mcp_ref.basic.utilities import ping
from mcp_ref.basic.utilities.tasks import protocol_messages as tasks_of_2025
from mcp_ref.basic.utilities.tasks.behavior_requirements import USUAL_OPTIONS, TaskOptions
from mcp_ref.basic.versioning import Revision, Versions
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.extensions import tasks as task_extension
from mcp_ref.runtime.checks import check_callable, check_count, check_names, check_text, check_text_if_any
from mcp_ref.runtime.limits import Limit, Limiters
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.seals import Seal, secrets_of
from mcp_ref.runtime.threads.shared import Shared
from mcp_ref.runtime.threads.workers import Workers
from mcp_ref.schema import REVISIONS
from mcp_ref.server import discover, prompts, resources, tools
from mcp_ref.server.resources import ResourceSource
from mcp_ref.server.utilities import completion
from mcp_ref.server.utilities import logging as log_page

if TYPE_CHECKING:
    from mcp_ref.api.client import Client
    from mcp_ref.api.mounting import Mount
    from mcp_ref.basic.transports.streamable_http.endpoint import Application

__all__ = ["Server"]

_log = logger("mcp_ref.server")

# spec: basic/index/support-base-and-lifecycle
ROWS = (
    *lifecycle.METHODS,
    *ping.METHODS,
    *discover.METHODS,
    *tools.METHODS,
    *resources.METHODS,
    *prompts.METHODS,
    *completion.METHODS,
    *subscriptions.METHODS,
    *log_page.METHODS,
    *tasks_of_2025.METHODS,
    *task_extension.METHODS,
)

USUAL = ServerOptions()

Lifespan = Callable[["Server"], AbstractContextManager[Any]]


class Server(Registry):
    """A server: functions that are its tools, resources and prompts, and the transports that offer them.

        server = Server("calculator")

        @server.tool
        def add(a: int, b: int) -> int:
            '''Add two numbers.'''
            return a + b

        @server.resource("notes://{name}")
        def note(name: str) -> str:
            return Path("notes", name).read_text()

        server.run()         # for a host that starts this program; or
        server.run("http")   # at http://127.0.0.1:8000/mcp; or
        server.wsgi_app()    # under gunicorn, beside the views of Flask or Django

    The type hints of a function describe its arguments, and its docstring says what it is for. A function
    that takes a Context can ask the client, report progress and log (api/context). `connect(server)` tests a
    server without a process.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        instructions: str | None = None,
        revisions: Iterable[str] = REVISIONS,
        lifespan: Lifespan | None = None,
        page_size: int = 1000,
        limit: Limit | None = None,
        principal: Callable[[Context], str | None] | None = None,
        secret: str | bytes | Sequence[str | bytes] | None = None,
        tasks: TaskOptions = USUAL_OPTIONS,
        options: ServerOptions = USUAL,
    ) -> None:
        """`limit` bounds the tool calls and completions of each principal, or of each connection where there
        is no principal. `principal(ctx)` returns on whose behalf a request is made; the state of a question
        is bound to its principal, too. `secret` signs that state: where several processes share a secret,
        each can go on with a request that another one answered with a question. `tasks` says where the tasks
        of tools are kept, and for how long (basic/utilities/tasks). ServerOptions has the rest.
        """
        check_text(name=name, version=version)
        check_text_if_any(title=title, instructions=instructions)
        check_callable(lifespan=lifespan, principal=principal)
        check_count(1, page_size=page_size)
        if not isinstance(limit, Limit | None):
            raise TypeError(f"limit is a Limit, not {limit!r:.60}")
        if not isinstance(options, ServerOptions):
            raise TypeError(f"options is a ServerOptions, not {options!r:.60}")
        if not isinstance(tasks, TaskOptions):
            raise TypeError(f"tasks is a TaskOptions, not {tasks!r:.60}")
        super().__init__(page_size, self._changed, ROWS, options, tasks)
        self.info = _info(name, version, title, options)
        self.instructions = instructions
        self.versions = Versions.of(revisions)
        self.limiters = Limiters(limit or Limit())
        self.listeners = subscriptions.Listeners(task_extension.TaskListening(self))
        self.tasks.on_change = lambda entry: self.listeners.publish(TaskChange(entry.id))
        self.lifespan = Shared(functools.partial(self._enter, lifespan))
        """Entered while any transport serves, or a task runs; its value is at `ctx.lifespan`."""
        self.tasks.needed = self.lifespan.kept
        self.serving = Serving(self, principal, Seal(secrets_of(secret), options.state_seconds))

    def __repr__(self) -> str:
        lists = (self.tools, "tool"), (self.resources, "resource"), (self.templates, "template")
        counts = [(len(found.keys()), word) for found, word in (*lists, (self.prompts, "prompt"))]
        parts = [f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count]
        return f"<Server {self.info['name']!r} {self.info['version']}: {', '.join(parts) or 'nothing yet'}>"

    # -- changes that only the author knows of -------------------------------------------------

    def _changed(self, kind: str) -> None:
        """Tell the listeners that a list has changed: "tools", "resources" or "prompts"."""
        self.listeners.publish(Change(kind))

    def resource_updated(self, uri: str) -> None:
        """The contents of a resource have changed: tell its subscribers."""
        check_text(uri=uri)
        self.listeners.publish(Change("resource", uri))

    def elicitation_complete(self, elicitation_id: str) -> bool:
        """A person has finished what they were asked to do at a URL: tell the client.

        False if no client waits to hear of this elicitation.
        """
        return url_elicitation.complete(self.serving, elicitation_id)

    # -- what transports use -----------------------------------------------------------------

    @overload
    def run(self, transport: Literal["stdio"] = "stdio") -> None: ...
    @overload
    def run(self, transport: Literal["http"], **given: Unpack[RunOptions]) -> None: ...
    def run(self, transport: Literal["stdio", "http"] = "stdio", **given: Unpack[RunOptions]) -> None:
        """Serve: "stdio" until the client is gone, "http" until SIGINT or SIGTERM.

        Over HTTP `host`, `port` and `path` say where; `api/http_server.serve` has the other options, besides
        those of `wsgi_app`.
        """
        if transport == "stdio":
            from mcp_ref.api import at_terminal  # start-up time
            from mcp_ref.basic.transports.stdio import server as stdio  # start-up time

            over_http = {name: f'run("http", {name}=...)' for name in RunOptions.__annotations__}
            check_names('Server.run("stdio")', given, (), over_http)
            at_terminal.say_waiting(self.info["name"])
            stdio.serve(self)
        elif transport == "http":
            from mcp_ref.api import http_server  # start-up time

            check_names('Server.run("http")', given, RunOptions.__annotations__)
            http_server.serve(self, **given)
        else:
            raise ValueError(f"there is no transport {transport!r}; there are 'stdio' and 'http'")

    def wsgi_app(self, path: str = "/mcp", **given: Unpack[AppOptions]) -> Application:
        """This server as a WSGI application (basic/transports/streamable_http/endpoint).

        With `auth` it is protected: each request must bring a token (api/resource_server).
        """
        from mcp_ref.basic.transports.streamable_http.endpoint import Application  # start-up time

        check_names("Server.wsgi_app", given, AppOptions.__annotations__)
        options: dict[str, Any] = {**given}
        auth = options.pop("auth", None)
        if auth is not None:
            options["authenticate"] = auth.guard(self, path, options.get("authenticate"))
        elif self.handlers.scoped is not None:
            raise ValueError(f"{self.handlers.scoped} needs scopes, which no request has without auth=")
        else:
            self.handlers.is_unprotected = True
        return Application(self, path, **options)

    def _enter(self, lifespan: Lifespan | None, entered: ExitStack) -> Any:
        """Begin what lasts while any transport serves or a task runs; return the value of the lifespan.

        That is the lifespan, the watching of directories, and the connections of mounts.
        """
        value = None if lifespan is None else entered.enter_context(lifespan(self))
        for directory in self.directories:
            entered.enter_context(directory.watch(self))
        for mount in self.handlers.mounts:
            entered.enter_context(mount.serving())
        return value

    def add_directory(self, path: str | PathLike[str], **options: Any) -> ResourceSource:
        """Offer the files of a directory as resources (extras/directories), as long as it exists."""
        directory = super().add_directory(path, **options)
        self.lifespan.add(lambda: directory.watch(self))
        return directory

    def mount(self, prefix: str, source: Server | Client, *, separator: str = ".") -> Mount:
        """Offer what another server has, its tools and prompts under this prefix (api/mounting)."""
        from mcp_ref.api.mounting import Mount  # start-up time

        mount = Mount(self, prefix, source, separator)
        self.handlers.mounts = (*self.handlers.mounts, mount)
        self.lifespan.add(mount.serving)
        return mount

    def new_workers(self) -> Workers:
        """Threads for the requests of one client, or of all clients of a transport."""
        options = self.options
        return Workers(options.workers, options.queue, queue_bytes=options.queue_bytes)

    def attach(self, outbox: WayOut) -> Connection:
        """The connection of a new client on a pipe. `outbox` takes the messages to it."""
        return self.attach_shared(outbox, self.new_workers(), shared=False)

    def attach_shared(
        self, outbox: WayOut, workers: Workers | None, *, shared: bool = True, notices: Limit | None = None
    ) -> Connection:
        """The connection of a new client over HTTP. Without workers its requests run on the threads that
        bring them; `shared` workers belong to other connections as well.
        """
        connection = self.connection(outbox, workers, shared=shared, notices=notices)
        self.listeners.attach(connection)
        return connection

    def connection(
        self,
        outbox: WayOut,
        workers: Workers | None,
        *,
        shared: bool = True,
        notices: Limit | None = None,
    ) -> Connection:
        """A connection as `attach_shared` returns it, for a client that is not told of changes."""
        return Connection(
            self.serving,
            outbox,
            workers=workers,
            shared=shared,
            timeout=self.options.timeout,
            limit=self.limiters.limit,
            notices=notices or self.options.notices,
        )

    def hang_up(self, connection: Connection, seconds: float) -> None:
        """No more requests will come: end the subscriptions, and give running requests time to finish."""
        self.listeners.close(connection, "the server is shutting down")
        connection.drain(seconds)

    def detach(self, connection: Connection, reason: str) -> None:
        """A client has left, or is given up: end its subscriptions and its connection, and forget it."""
        self.listeners.close(connection, reason)
        self.listeners.detach(connection)
        url_elicitation.forget(self.serving, connection)
        connection.end(reason)

    def capabilities(self, at: Revision, *, tells: bool = True, knows_requestor: bool = False) -> Json:
        """The capabilities to declare in a revision. `tells`: whether notifications of changes can reach
        the client (listChanged). `knows_requestor`: whether it can be told apart from others (tasks/list).

        # spec: architecture/index/advertise-server-features
        """
        listed = {"listChanged": True} if tells else {}
        offers: Json = {
            "logging": {},
            "tools": listed,
            "resources": {"subscribe": True, **listed} if tells else {},
            "prompts": listed,
            "completions": {},
        }
        found: Json = {name: parts for name, parts in offers.items() if self.offers(name)}
        if self.options.experimental:
            found["experimental"] = self.options.experimental
        extensions = dict(self.options.extensions or {})
        if self.offers("tasks"):
            requests: Json = {"tools": {"call": {}}}
            found["tasks"] = tasks_of_2025.capability(requests, lists=knows_requestor)
            extensions.setdefault(task_extension.EXTENSION, {})
        if extensions:
            found["extensions"] = extensions
        return found


def _info(name: str, version: str, title: str | None, options: ServerOptions) -> Implementation:
    """The `serverInfo` of a server, as the newest revision has it."""
    info: Json = {
        "name": name,
        "version": version,
        "title": title,
        "description": options.description,
        "websiteUrl": options.website_url,
        "icons": options.icons,
    }
    return typing.cast(Implementation, {key: value for key, value in info.items() if value is not None})
