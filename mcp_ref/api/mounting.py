"""What another server has, offered by this one (page: server/index): `server.mount("notes", other)`.

    tools, prompts    under "notes.tool": the prefix, a dot, and their own name
    resources         under their own URIs, and so do templates
    completion        of arguments of prompts, and of variables of templates
    questions         of a tool, a prompt or a resource of the other one go to the client of this one
    progress          of a call likewise
    tasks             none: a call that is a task there is waited for, and is an ordinary one here
    lists             are fetched anew when the other server says that they changed
    cancellation      a request to the other server ends with the one that it is made for

The other one is a `Server` of this process, or a client of a server anywhere. A Server is connected to while
this one serves, in memory; a client stays its owner's, who closes it.

A question is relayed from a server of 2026-07-28, which ends its request with it. What it said until then
is kept in the state of our own request, so that nothing runs twice there. Each request declares what the
client of this server can be asked (api/requests); the callbacks of a mounted client are not called.

A server of the legacy era asks the client that is connected to it: the callbacks of that one answer. A Server
of this era has none, so mount `connect(other, elicitation=...)` instead. Without one, the error says so. The
same holds for a task in either era, which goes on while it asks: in a Server, a call that asks as a task
fails, and says so.

Errors      ValueError for a prefix that no tool's name may begin with, for servers that would be mounted in
            each other, and for a name or a URI that this server has already; what comes to be so later is
            left out, with a line in the log. A server that is gone: the call fails with the reason, and all
            else is served. When it is there again, `Mount.refresh` fetches its lists.
Threads     a request to the other server is made by the thread of ours. `mcp_ref mount`, one for each mount
            while it is served, hears of changes of lists.
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
"""How often the thread that hears of changes looks whether it is to end."""

KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
"""By which an item of each list is known."""

UNTIL_CANCELLED = 86_400.0
"""Seconds for a call of a Server in this process: it is for our own client to give it up."""

MOST_READ = 2000
"""Characters of an error in which the name of a question is looked for."""

NOT_SERVED = "this server does not serve"
"""Why there is no client of a Server that is mounted, as a rule."""


class Mount:
    """What one other server has, in the lists of this one."""

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
        """What is there of the other server: kind -> our name for it -> its definition."""
        self._refreshing = threading.Lock()
        self._client = self._owned()
        self._lacking = NOT_SERVED
        """Why there is no client."""
        self._beginning = threading.Lock()
        # Guarded by _beginning: what ends when this server serves no more, and what hears of changes.
        self._entered: contextlib.ExitStack | None = None
        self._ended = threading.Event()
        self._ear: threading.Thread | None = None
        with self._connected() as client:
            self._refresh(client, is_first=True)

    def __repr__(self) -> str:
        return f"<Mount {self._before}*, {sum(map(len, self._ours.values()))} items>"

    def leads_to(self, server: Server) -> bool:
        """Whether this server is the mounted one, or is mounted in it, at any depth."""
        return not isinstance(self._source, Client) and (
            self._source is server or any(each.leads_to(server) for each in self._source.handlers.mounts)
        )

    # -- the connection ------------------------------------------------------------------------------

    def _owned(self) -> Client | None:
        """The client that was mounted, if it was one."""
        return self._source if isinstance(self._source, Client) else None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Client]:
        """The client: its owner's, or one of our own, for as long as this lasts."""
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
        """Around the time in which this server serves: connected, and with an ear for changes.

        A server that is gone keeps nothing else from being served: its items fail with the reason, until it
        is there again. Its lists are fetched with the next `refresh`.
        """
        with contextlib.ExitStack() as entered:
            self._client = self._owned()  # none of before: this process may be the child of a fork
            self._entered, self._ended, self._ear = entered, threading.Event(), None
            try:
                try:
                    self.refresh()
                except Exception as problem:  # whatever it is, ours can be served
                    _log.warning("%s* is mounted, and is not there: %s", self._before, message_of(problem))
                yield
            finally:
                with self._beginning:
                    self._entered = None
                self._stop_listening()
                self._client, self._lacking = self._owned(), NOT_SERVED

    def _begun(self) -> Client:
        """The client, connected by now if it may be. Raises what that raises."""
        with self._beginning:
            if self._client is None and self._entered is not None:
                try:
                    self._client = self._entered.enter_context(self._connected())
                except Exception as problem:
                    self._lacking = message_of(problem)
                    raise
        return self.client

    def _listen(self, client: Client) -> None:
        """Have an ear for changes while this server serves, also where one went with the other server."""
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
        """Fetch the lists anew whenever they change."""
        has = {"tools", "prompts", "resources"} & (client.server_capabilities or {}).keys()
        if not has:
            return  # there is nothing to hear of
        try:
            with client.listen(
                tools="tools" in has, prompts="prompts" in has, resources="resources" in has
            ) as changes:
                self._refresh(client)  # what changed before this was heard of
                while not ended.is_set() and not changes.is_over:
                    if changes.next(LOOK_SECONDS) is not None:
                        self._refresh(client)
        except (McpError, OSError) as problem:
            if not ended.is_set():
                _log.info("no changes of %s are heard of: %s", self._before, problem)

    @property
    def client(self) -> Client:
        """The client of the other server. Raises LocalError while it has none."""
        if self._client is None:
            raise LocalError(f"{self._before}* is not connected, since {self._lacking}")
        return self._client

    # -- the lists -----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Fetch the lists anew, also those of a server that was gone. Raises what that raises."""
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
        """Our names and items for what the other server has."""
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
        """Raises ValueError."""
        for kind, items in found.items():
            if taken := [name for name in items if self._lists[kind].get(name) is not None]:
                raise ValueError(f"{taken[0]!r:.200} is among the {kind} already")

    def _put(self, kind: str, items: Mapping[str, Any]) -> None:
        """Have these in a list of ours, in place of those that were there of this mount."""
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
        named.pop("execution", None)  # a task of ours would be another one

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
        """The templates that are good ones; a server may have none, and not know of them."""
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
        """The result of a request to the other server, after our client has answered what that one asks.

        Each round is made once: our own handler may run again for each answer.
        """
        client = self.client

        def begin() -> Result:
            if method == "tools/call":  # also where it is answered with a task
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
        """What our client answers, by the keys of the questions."""
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
        """An error of the other server, as one of this one."""
        is_undeclared = problem.code == MissingRequiredClientCapability.code
        if is_undeclared and ctx.revision.asks == "in requests":  # which has no such error
            return LocalError(f"{method}: {problem.message}")
        advice = self._advice(ctx, problem.message)
        made = ProtocolError(f"{problem.message}; {advice}" if advice else problem.message, data=problem.data)
        made.code = problem.code
        return made

    def _advice(self, ctx: Context, said: str) -> str | None:
        """What to do about a failure, if a server of the legacy era could not ask what it wanted to.

        It says so in words of its own; this package and the SDKs name the capability, or the method.
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
    """What our names of the other server's tools begin with. Raises ValueError."""
    check_text(prefix=prefix, separator=separator)
    before = prefix + separator if prefix else ""
    if before:
        try:
            check_name(before)
        except ValueError as problem:
            raise ValueError(f"prefix and separator begin the names of tools: {problem}") from None
    return before


def _check_server(source: Server, server: Server) -> None:
    """Check that this is a server which may be mounted in that one. Raises TypeError, ValueError."""
    if source is server:
        raise ValueError("a server cannot be mounted in itself")
    if not hasattr(source, "attach"):
        raise TypeError(f"mount takes a Server or a Client, not {source!r:.60}; connect(...) makes one")
    if any(each.leads_to(server) for each in source.handlers.mounts):
        ours, theirs = server.info["name"], source.info["name"]
        raise ValueError(f"mounts cannot be a ring: {ours!r:.80} is mounted in {theirs!r:.80} already")


def _unasked(*question: Any) -> Any:
    """Stands for the client of this server, who is asked instead: it declares that there is one.

    It is called for what a task asks, which does not end its request with the question.
    """
    raise LocalError("what a task of a mounted server asks is not relayed")
