"""The features of another server, offered by this one (page: server/index): `server.mount("notes", other)`.

    tools, prompts    under "notes.tool": the prefix, a dot, and their own name
    resources         under their own URIs, as are templates
    completion        of arguments of prompts, and of variables of templates
    questions         of a tool, a prompt or a resource of the other server go to the client of this one
    progress          of a call goes there, too
    tasks             none: a call that is a task there is waited for, and is an ordinary one here
    lists             are fetched anew when the other server says that they changed
    cancellation      of a request here cancels the request to the other server that is made for it

The other server is a `Server` of this process, or a client of a server anywhere. A Server is connected to in
memory, while this one serves; a client remains its owner's, and its owner closes it.

Questions are relayed from a server of 2026-07-28: there a question is the result that ends a round. The
results of finished rounds are kept in the state of our own request, so that no round is sent twice when our
handler runs again. Each request to the other server declares what the client of this server can be asked
(api/requests); the callbacks of a mounted client are not called.

A server of the legacy era sends its questions to the client that is connected to it, and the callbacks of
that client answer. The client of a mounted legacy Server has no callbacks: mount
`connect(other, elicitation=...)` instead. The error of a question without a callback says so. The same holds
for a task in either era, since a task goes on while it asks: in a mounted Server, a call that asks as a task
fails, and the error says so.

Errors      ValueError for a prefix that no tool's name may begin with, for servers that would be mounted in
            each other, and for a name or a URI that this server has already; one that collides later is
            left out, with a line in the log. If the other server is gone, a call to it fails with the
            reason, and everything else is served. When it is back, `Mount.refresh` fetches its lists.
Threads     a request to the other server is made on the thread of our own request. `mcp_ref mount`, one for
            each mount while it is served, listens for changes of lists.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from mcp_ref.api.callbacks import ARGUMENTS
from mcp_ref.api.client import Client
from mcp_ref.api.connect import connect
from mcp_ref.api.options import ClientOptions
from mcp_ref.api.requests import asked_for
from mcp_ref.api.results import Result
from mcp_ref.basic.index.error_responses import ErrorResponse, ProtocolError
from mcp_ref.basic.index.general_fields import MissingRequiredClientCapability
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.mrtr import basic_workflow as mrtr
from mcp_ref.basic.transports.streamable_http.schema_extension import annotated_by_us
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import InvalidResponse, LocalError, McpError
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import message_of
from mcp_ref.runtime.uri.templates import BadTemplate, Template
from mcp_ref.server.prompts import RegisteredPrompt
from mcp_ref.server.resources import RegisteredResource, RegisteredTemplate
from mcp_ref.server.tools import RegisteredTool, check_name

if TYPE_CHECKING:
    from mcp_ref.api.context import Context
    from mcp_ref.api.server import Server

__all__ = ["Mount"]

_log = logger("mcp_ref.mount")

LOOK_SECONDS = 0.5
"""How often the thread that listens for changes checks whether it should end."""

KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
"""Kind of list -> the field that identifies an item in it."""

UNTIL_CANCELLED = 86_400.0
"""Time-out in seconds of a call to a Server in this process: a day, as our own client decides how long to
wait, and cancels."""

MOST_READ = 2000
"""Characters of an error message that are searched for the name of a capability or a method."""

NOT_SERVED = "this server does not serve"
"""The usual reason why a mounted Server has no client."""


class Mount:
    """The items of one other server in the lists of this one, and the connection to that server."""

    def __init__(self, server: Server, prefix: str, source: Server | Client, separator: str = ".") -> None:
        self._before = _beginning(prefix, separator)
        if not isinstance(source, Client):
            _check_server(source, server)
        self._server, self._source = server, source
        self._lists: dict[str, Any] = {
            "tools": server.tools,
            "prompts": server.prompts,
            "resources": server.resources,
            "templates": server.templates,
        }
        self._ours: dict[str, dict[str, Json]] = {kind: {} for kind in self._lists}
        """The items of the other server that are in our lists: kind -> our name -> definition."""
        self._refreshing = threading.Lock()
        self._client = self._owned()
        self._lacking = NOT_SERVED
        """Why there is no client."""
        self._beginning = threading.Lock()
        # Guarded by _beginning: what is closed when this server stops serving; and the thread that listens.
        self._entered: contextlib.ExitStack | None = None
        self._ended = threading.Event()
        self._ear: threading.Thread | None = None
        with self._connected() as client:
            self._refresh(client, is_first=True)

    def __repr__(self) -> str:
        return f"<Mount {self._before}*, {sum(map(len, self._ours.values()))} items>"

    def leads_to(self, server: Server) -> bool:
        """Whether `server` is the mounted server, or is mounted in that one, at any depth."""
        return not isinstance(self._source, Client) and (
            self._source is server or any(each.leads_to(server) for each in self._source.handlers.mounts)
        )

    # -- the connection ------------------------------------------------------------------------------

    def _owned(self) -> Client | None:
        """The client that was mounted, if it was one."""
        return self._source if isinstance(self._source, Client) else None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Client]:
        """The client of the other server: the one that was mounted, or one of our own, which is closed after
        the block.
        """
        if isinstance(self._source, Client):
            yield self._source
            return
        relays = bool(self._source.versions.modern)
        callbacks: dict[str, Any] = {"elicitation": _unasked, "sampling": _unasked, "roots": _unasked}
        options = ClientOptions(
            name=self._server.info["name"], sampling_tools=relays, sampling_context=relays
        )
        with connect(
            self._source, **(callbacks if relays else {}), timeout=UNTIL_CANCELLED, options=options
        ) as client:
            yield client

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Connect, and listen for changes, while this server serves: entered with its lifespan.

        If the other server cannot be reached, everything else is served all the same: calls of its items fail
        with the reason until it is back and `refresh` has fetched its lists.
        """
        with contextlib.ExitStack() as entered:
            self._client = self._owned()  # never one from before: this process may be the child of a fork
            self._entered, self._ended, self._ear = entered, threading.Event(), None
            try:
                try:
                    self.refresh()
                except Exception as problem:  # of any kind: our own items can still be served
                    _log.warning("%s* is mounted, and is not there: %s", self._before, message_of(problem))
                yield
            finally:
                with self._beginning:
                    self._entered = None
                self._stop_listening()
                self._client, self._lacking = self._owned(), NOT_SERVED

    def _begun(self) -> Client:
        """The client, which is connected first if this server serves. Raises what connecting raises, and
        LocalError without a client.
        """
        with self._beginning:
            if self._client is None and self._entered is not None:
                try:
                    self._client = self._entered.enter_context(self._connected())
                except Exception as problem:
                    self._lacking = message_of(problem)
                    raise
        return self.client

    def _listen(self, client: Client) -> None:
        """Start the thread that listens for changes, if this server serves and the thread is not running:
        it also ends when the other server is gone.
        """
        with self._beginning:
            if self._entered is None or (self._ear is not None and self._ear.is_alive()):
                return
            about = (client, self._ended)
            self._ear = threading.Thread(target=self._hear, args=about, name="mcp_ref mount", daemon=True)
            self._ear.start()

    def _stop_listening(self) -> None:
        self._ended.set()
        if self._ear is not None:
            self._ear.join(5.0)

    def _hear(self, client: Client, ended: threading.Event) -> None:
        """Fetch the lists anew whenever they change. Runs on `mcp_ref mount`."""
        has = {"tools", "prompts", "resources"} & (client.server_capabilities or {}).keys()
        if not has:
            return  # there is nothing to listen for
        try:
            with client.listen(
                tools="tools" in has, prompts="prompts" in has, resources="resources" in has
            ) as changes:
                self._refresh(client)  # the lists may have changed before this listened
                while not ended.is_set() and not changes.is_over:
                    if changes.next(LOOK_SECONDS) is not None:
                        self._refresh(client)
        except (McpError, OSError) as problem:
            if not ended.is_set():
                _log.info("no changes of %s are heard of: %s", self._before, problem)

    @property
    def client(self) -> Client:
        """The client of the other server. Raises LocalError while it is not connected."""
        if self._client is None:
            raise LocalError(f"{self._before}* is not connected, since {self._lacking}")
        return self._client

    # -- the lists -----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Fetch the lists anew; connect and listen again first if the server was gone.

        Raises what connecting or a request raises.
        """
        client = self._begun()
        self._refresh(client)
        self._listen(client)

    def _refresh(self, client: Client, *, is_first: bool = False) -> None:
        with self._refreshing:
            found = {kind: dict(self._made(kind, client)) for kind in self._lists}
            if is_first:
                self._check_free(found)
            for kind, items in found.items():
                self._put(kind, items)

    def _made(self, kind: str, client: Client) -> Iterator[tuple[str, Any]]:
        """The items of one kind that the other server has, as items of ours, each after its key."""
        has = client.server_capabilities or {}
        completes = "completions" in has
        make: dict[str, Callable[[], list[Any]]] = {
            "tools": lambda: [self._tool(each) for each in client.list_tools()],
            "prompts": lambda: [self._prompt(each, completes) for each in client.list_prompts()],
            "resources": lambda: [self._resource(each) for each in client.list_resources()],
            "templates": lambda: self._templates(client, completes),
        }
        if {"templates": "resources"}.get(kind, kind) in has:
            for item in make[kind]():
                yield item.definition[KEYS[kind]], item

    def _check_free(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that none of these keys is taken in our lists. Raises ValueError."""
        for kind, items in found.items():
            if taken := [name for name in items if self._lists[kind].get(name) is not None]:
                raise ValueError(f"{taken[0]!r:.200} is among the {kind} already")

    def _put(self, kind: str, items: Mapping[str, Any]) -> None:
        """Replace the items of this mount in one of our lists. One whose key is taken is left out."""
        there, ours = self._lists[kind], self._ours[kind]
        free = {name: i for name, i in items.items() if name in ours or there.get(name) is None}
        for name in items.keys() - free.keys():
            _log.warning("%s of %s is left out: that name is taken", name, self._before)
        new = {name: item for name, item in free.items() if ours.get(name) != item.definition}
        there.change(new.values(), ours.keys() - free.keys())
        self._ours[kind] = {name: item.definition for name, item in free.items()}

    # -- what becomes of each item -------------------------------------------------------------------

    def _named(self, definition: Json) -> Any:
        return {**definition, "name": self._before + definition["name"]}

    def _tool(self, definition: Any) -> RegisteredTool:
        named = self._named(definition)
        named.pop("execution", None)  # it says how the other server runs it as a task; here it is never one

        def call(arguments: Json, ctx: Context) -> Json:
            params = {"name": definition["name"], "arguments": arguments}
            result = self._relayed(ctx, "tools/call", params)
            return {key: value for key, value in result.items() if key not in ("resultType", "_meta")}

        return RegisteredTool(
            named,
            call,
            lambda arguments: {"arguments": arguments},
            "ctx",
            lambda result: result,
            annotated_by_us(named),
        )

    def _prompt(self, definition: Any, completes: bool) -> RegisteredPrompt:
        name = definition["name"]

        def get(arguments: dict[str, str], ctx: Context) -> Json:
            result = self._relayed(ctx, "prompts/get", {"name": name, "arguments": arguments})
            return {key: value for key, value in result.items() if key in ("messages", "description")}

        names = [each["name"] for each in definition.get("arguments", [])] if completes else []
        return RegisteredPrompt(
            self._named(definition),
            get,
            lambda arguments: {"arguments": dict(arguments)},
            "ctx",
            {each: partial(self._complete, {"prompt": name}, each) for each in names},
        )

    def _resource(self, definition: Any) -> RegisteredResource:
        return RegisteredResource(definition, lambda ctx: self._read(definition["uri"], ctx))

    def _templates(self, client: Client, completes: bool) -> list[RegisteredTemplate]:
        """The resource templates that are valid. A server that has none may answer with an error."""
        try:
            found = client.list_resource_templates()
        except ErrorResponse:
            return []
        made = []
        for definition in found:
            text = definition["uriTemplate"]
            try:
                template = Template(text)
            except BadTemplate as problem:
                _log.warning("a template of %s is left out: %s", self._before, problem)
                continue
            names = template.variables if completes else ()
            complete = {each: partial(self._complete, {"resource": text}, each) for each in names}
            read: Callable[..., Any] = lambda uri, variables, ctx: self._read(uri, ctx)  # noqa: E731
            made.append(RegisteredTemplate(definition, template, read, None, complete, allow_traversal=True))
        return made

    def _read(self, uri: str, ctx: Any) -> list[Json]:
        contents: list[Json] = self._relayed(ctx, "resources/read", {"uri": uri})["contents"]
        return contents

    def _complete(self, of: Json, name: str, value: str, arguments: dict[str, str], ctx: Any) -> list[Any]:
        result = self.client.complete(**of, argument=name, value=value, arguments=arguments)
        values: list[Any] = result["completion"]["values"]
        return values

    # -- a request -----------------------------------------------------------------------------------

    def _relayed(self, ctx: Context, method: str, params: Json) -> Json:
        """Send a request to the other server and relay its questions to our client: the last result.

        Each round is wrapped in `once`, since our own handler may run again for each answer.
        """
        client = self.client

        def begin() -> Result:
            if method == "tools/call":  # by `call_tool`, which also waits for the end of a task
                return client.call_tool(**params, rounds=0, on_progress=ctx.progress, check=False)
            return client.request(method, params, rounds=0, on_progress=ctx.progress)

        token = asked_for.set(ctx)
        try:
            result = ctx.once("round 0", begin)
            for number in count(1):
                if result.get("resultType") != "input_required":
                    break
                asked = Result(result)
                asked.request = (method, params)
                responses = self._answers(ctx, asked)
                go_on = partial(client.resume, asked, responses, rounds=0, on_progress=ctx.progress)
                result = ctx.once(f"round {number}", go_on)
        except ErrorResponse as problem:
            raise self._as_ours(ctx, method, problem) from problem
        finally:
            asked_for.reset(token)
        found: Json = result
        if found.get("isError") and (advice := self._advice(ctx, Result(found).text)):
            found = {**found, "content": [*found["content"], {"type": "text", "text": advice}]}
        return found

    def _answers(self, ctx: Context, asked: Result) -> Json:
        """Ask our client the questions of an input_required result. Return its answers, by their keys."""
        kinds = mrtr.server_of(ctx).input_requests
        questions = []
        try:
            for each in asked.input_requests.values():
                question = kinds[each["method"]].question(each.get("params", {}), ctx)
                questions.append(question._replace(read=lambda answer: answer))
        except (LookupError, TypeError, ValueError) as problem:
            raise InvalidResponse(f"a question of {self._before}* cannot be read: {problem!r:.200}") from None
        return dict(zip(asked.input_requests, mrtr.ask(ctx, questions), strict=True))

    def _as_ours(self, ctx: Context, method: str, problem: ErrorResponse) -> McpError:
        """The error of this server for an error of the other one: the same code, message and data.

        With what to do about it, where `_advice` knows. -32021 is a LocalError in the legacy era.
        """
        is_undeclared = problem.code == MissingRequiredClientCapability.code
        if is_undeclared and ctx.revision.asks == "in requests":  # the legacy era has no such error
            return LocalError(f"{method}: {problem.message}")
        advice = self._advice(ctx, problem.message)
        made = ProtocolError(f"{problem.message}; {advice}" if advice else problem.message, data=problem.data)
        made.code = problem.code
        return made

    def _advice(self, ctx: Context, said: str) -> str | None:
        """What to do about a failure, if it is that a legacy server could not ask its question; else None.

        No error code tells that, so the message is searched: this package and the SDKs name the capability,
        or the method.
        """
        client, said = self.client, said[:MOST_READ].lower()
        if client.revision.asks == "in results":
            return None
        is_about = "capabilit" in said or "support" in said
        declared = client.asker.negotiated.capabilities
        lacking = []
        for asking in mrtr.server_of(ctx).input_requests:
            name = asking.partition("/")[0]
            if name not in declared and (asking.lower() in said or (is_about and name in said)):
                lacking.append(ARGUMENTS[name])
        if not lacking:
            return None
        return (
            f"{self._before}* speaks {client.revision}, where questions cannot be relayed: the mounted "
            f"client answers them itself, if it is made by connect(..., {', '.join(lacking)})"
        )


def _beginning(prefix: str, separator: str) -> str:
    """The text before the other server's own names in ours: prefix and separator. Raises ValueError."""
    check_text(prefix=prefix, separator=separator)
    before = prefix + separator if prefix else ""
    if before:
        try:
            check_name(before)
        except ValueError as problem:
            raise ValueError(f"prefix and separator begin the names of tools: {problem}") from None
    return before


def _check_server(source: Server, server: Server) -> None:
    """Check that `source` is a server that may be mounted in `server`. Raises TypeError, ValueError."""
    if source is server:
        raise ValueError("a server cannot be mounted in itself")
    if not hasattr(source, "attach"):
        raise TypeError(f"mount takes a Server or a Client, not {source!r:.60}; connect(...) makes one")
    if any(each.leads_to(server) for each in source.handlers.mounts):
        ours, theirs = server.info["name"], source.info["name"]
        raise ValueError(f"mounts cannot be a ring: {ours!r:.80} is mounted in {theirs!r:.80} already")


def _unasked(*question: Any) -> Any:
    """A callback that declares a capability; the questions themselves are relayed to our own client.

    It is called only when a task asks: a task does not end its request with the question.
    """
    raise LocalError("what a task of a mounted server asks is not relayed")
