"""Tools (page: server/tools).

A server lists named functions; a client calls one and gets content back.

    client -> server   tools/list {cursor?}             -> {tools: [Tool], nextCursor?}
    client -> server   tools/call {name, arguments?}    -> {content, structuredContent?, isError?}
                       in 2026-07-28 the result may be a question (basic/patterns/mrtr);
                       before, a tool asks by a request from the server
    server -> client   notifications/tools/list_changed    in 2026-07-28 only to clients that subscribed

Server half   `on_list_tools`, `on_call_tool` (and api/from_function/tool: how a function becomes a tool)
Client half   `KnownTools`, `list_tools`; a call is `call_params`, `review`, `check_result`, `ended`;
              `ToolError` is for callers that want a failed tool to raise

Revisions   2024-11-05  tools/list, tools/call, notifications/tools/list_changed
            2025-03-26  + annotations; audio content
            2025-06-18  + title, `_meta`, outputSchema and structuredContent (an object); resource links
            2025-11-25  + icons, rules for names; bad arguments become a result that a model can read
            2026-07-28  + outputSchema and structuredContent of any type; + ttlMs and cacheScope of lists,
                        whose order is deterministic; + a result may be a question

Errors      two kinds, kept apart: an unknown tool or a malformed request is a JSON-RPC error; a tool
            that fails is a result with isError, and its message, never a traceback.
Threads     `on_call_tool` runs on the thread of the request (a worker, or over Streamable HTTP the thread
            that took the POST), and may block. The client half runs on the caller's thread; for a future,
            `ended` runs on the client's thread for events.
Not here    what a schema may contain (basic/index/json_schema_usage), what content is (server/content).
"""

from __future__ import annotations

import logging
import re
import time
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Required, TypeAlias, TypedDict

from mcp_ref.basic.index.error_responses import InvalidParams, ProtocolError, TooManyRequests
from mcp_ref.basic.index.general_fields import Icon, RequestMeta, ResultMeta
from mcp_ref.basic.index.json_schema_usage import BadSchema, validator
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.lifecycle import KnowsServer
from mcp_ref.basic.patterns.index.requester import Asks
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRequired, is_input_required
from mcp_ref.basic.transports.streamable_http import schema_extension
from mcp_ref.basic.transports.streamable_http.schema_extension import Paths
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskSupport, support_of
from mcp_ref.basic.versioning import LATEST, Method, Notification, Revision, revision
from mcp_ref.runtime import audit
from mcp_ref.runtime.errors import InvalidResponse, LocalError, McpError, RequestCancelled
from mcp_ref.runtime.json_text import Encoded, to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.long_strings import LONG_CHARACTERS, LongStrings
from mcp_ref.runtime.typing.mismatch import message_of
from mcp_ref.schema import Mismatch, checker, opaque, pruner, required, since, until, was
from mcp_ref.server import content
from mcp_ref.server.content import ContentBlock, text
from mcp_ref.server.utilities import pagination
from mcp_ref.server.utilities.caching import CacheScope, TtlMs, fresh_for
from mcp_ref.server.utilities.pagination import ListParams, PagedList

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.mrtr.basic_workflow import InputResponses
    from mcp_ref.basic.utilities.tasks.data_types import TaskMetadata
    from mcp_ref.runtime.limits import Limiters
    from mcp_ref.runtime.threads.deadlines import Deadline

__all__ = [
    "CallRefused",
    "CallToolResult",
    "KnownTools",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "list_tools",
]

_log = logger("mcp_ref.tools")

# ---------------------------------------------------------------------------- shapes


class ToolAnnotations(TypedDict, total=False):
    """Hints about the behaviour of a tool. A client relies on them only if it trusts the server.

    # spec: server/tools/annotations-untrusted
    """

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


class ToolExecution(TypedDict, total=False):
    taskSupport: Literal["forbidden", "optional", "required"]


class OldInputSchema(TypedDict, total=False):
    type: Required[Literal["object"]]
    properties: dict[str, Json]
    required: list[str]


OlderInputSchema = TypedDict(
    "OlderInputSchema",
    {
        "$schema": str,
        "type": Required[Literal["object"]],
        "properties": dict[str, Json],
        "required": list[str],
    },
    total=False,
)
if TYPE_CHECKING:  # an author may use any other keywords, and callers may read them
    InputSchema: TypeAlias = Json
    OutputSchema: TypeAlias = Json
else:
    InputSchema = TypedDict("InputSchema", {"$schema": str, "type": Required[Literal["object"]]}, total=False)
    # spec: server/tools/output-schema-any-root
    OutputSchema = TypedDict("OutputSchema", {"$schema": str}, total=False)


class Tool(TypedDict, total=False):
    """One tool of a list: what a model is told about it, and the schemas of its arguments and result."""

    name: Required[str]
    title: Annotated[str, since("2025-06-18")]
    description: str
    icons: Annotated[list[Icon], since("2025-11-25")]
    inputSchema: Required[
        Annotated[
            InputSchema,
            was(OldInputSchema, until="2025-06-18"),
            was(OlderInputSchema, until="2025-11-25"),
            opaque(),
        ]
    ]
    outputSchema: Annotated[
        OutputSchema,
        since("2025-06-18"),
        was(OldInputSchema, until="2025-06-18"),
        was(OlderInputSchema, until="2025-11-25"),
        opaque(),
    ]
    annotations: Annotated[ToolAnnotations, since("2025-03-26")]
    execution: Annotated[ToolExecution, since("2025-11-25"), until("2025-11-25")]
    _meta: Annotated[Json, since("2025-06-18")]


class ListToolsResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    tools: Required[list[Tool]]
    nextCursor: str
    ttlMs: Required[Annotated[TtlMs, since("2026-07-28")]]
    cacheScope: Required[Annotated[CacheScope, since("2026-07-28")]]


class CallToolRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), required(since="2026-07-28")]
    name: Required[str]
    arguments: Json
    task: Annotated[TaskMetadata, since("2025-11-25"), until("2025-11-25")]
    inputResponses: Annotated[InputResponses, since("2026-07-28")]
    requestState: Annotated[str, since("2026-07-28")]


class CallToolResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    content: Required[list[ContentBlock]]  # spec: server/tools/content-always-present
    structuredContent: Annotated[Any, since("2025-06-18"), was(Json, until="2025-11-25")]
    isError: bool


DEFINITIONS: dict[str, Any] = {
    "Tool": Tool,
    "ToolAnnotations": Annotated[ToolAnnotations, since("2025-03-26")],
    "ToolExecution": Annotated[ToolExecution, since("2025-11-25"), until("2025-11-25")],
}

# ----------------------------------------------------------------------- server half


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def check_name(name: str) -> None:
    """Check the name of a tool. Raises ValueError.

    # spec: server/tools/name-length, server/tools/name-characters, server/tools/name-no-special
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no tool name: 1 to 128 of A-Z a-z 0-9 _ - .")


def check_input_schema(schema: Any) -> None:
    """Check that an input schema has the type "object" at its root. Raises ValueError.

    # spec: server/tools/input-schema-object, server/tools/input-schema-root-object
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ValueError('an input schema is an object with "type": "object"')


def listed(definition: Tool, date: str) -> Json:
    """A tool's definition as a revision has it.

    Where a revision knows only objects as structured content, any other output schema is left out.
    # spec: server/tools/output-schema-root-object
    """
    listed = pruner(Tool, date)(typing.cast(Json, definition))
    output = listed.get("outputSchema")
    if output is not None and revision(date).structured == "object" and output.get("type") != "object":
        listed = {key: value for key, value in listed.items() if key != "outputSchema"}
    return listed


MISSING: Any = object()
"""There is no structured content. (None would mean a content of `null`.)"""

ContentAndData = tuple[list[Any], Any]
"""Content blocks and structured content."""


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredTool:
    """One tool, ready to be called."""

    definition: Tool
    """With the members of all revisions; `listed` leaves out those that a client's revision lacks."""
    function: Callable[..., Any]
    load: Callable[[Any], dict[str, Any]]
    """Arguments from JSON -> keyword arguments. Raises Mismatch."""
    context: str | None
    """The function's parameter that takes the Context, if it has one."""
    content_of: Callable[[Any], ContentAndData | CallToolResult]
    """What the function returned -> content and structured content, or a whole result. Raises Mismatch."""
    mirrored: Paths
    """The arguments that also travel in HTTP headers."""
    immediate_response: str | None = None
    """A text that a model can be given at once, while the call goes on as a task."""
    scopes: tuple[str, ...] = ()
    """The scopes that a token needs for a call, where the server is protected (basic/authorization)."""

    @property
    def task_support(self) -> TaskSupport:
        """Whether a call may, or must, run as a task.  # spec: server/tools/execution-task-support"""
        return support_of(typing.cast(Json, self.definition))

    def result(self, value: Any, at: Revision) -> CallToolResult:
        """The result of a call, from what the function returned, as a client's revision has it."""
        made = self.content_of(value)
        if isinstance(made, dict):
            result: Any = {**made}
            structured = result.pop("structuredContent", MISSING)
        else:
            blocks, structured = made
            result = {"content": blocks}
        if at is not LATEST:
            result["content"] = content.downgrade(result["content"], at)
        # spec: server/tools/structured-as-object, server/tools/structured-any-json
        may_be_sent = at.structured == "any" or (at.structured == "object" and isinstance(structured, dict))
        if structured is not MISSING and may_be_sent:
            result["structuredContent"] = structured
        return typing.cast(CallToolResult, result)


class AuditOptions(Protocol):
    """The options of a server that this page needs."""

    @property
    def audit_arguments(self) -> bool:
        """Whether the audit includes the arguments of calls."""


class ToolHost(Protocol):
    """What this page needs of the server."""

    @property
    def tools(self) -> PagedList[RegisteredTool]:
        """The tools that can be listed and called."""

    @property
    def options(self) -> AuditOptions: ...

    def known(self, names: Iterable[str]) -> str:
        """The end of an error about an unknown name: the names that exist, unless some may be hidden."""

    @property
    def limiters(self) -> Limiters:
        """One limiter for each principal: it bounds the calls that the principal makes."""


def on_list_tools(server: ToolHost, params: Json, context: RequestContext) -> Json:
    """Answer tools/list: one page, in the order in which tools were registered, the same for every client.

    Where the author hides tools from callers without their scopes (`hides_tools`), the page is the same for
    the same scopes, and "private": only the caller's own cache may store it.
    # spec: server/tools/list-answered, server/tools/list-paginated
    # spec: server/tools/list-deterministic-order, server/tools/list-not-per-connection
    # spec: server/tools/list-may-change, server/tools/list-empty-or-changing
    # spec: server/tools/list-by-authorization
    """
    access, at, cursor = context.arrival.access, context.revision, params.get("cursor")
    if access is None or not access.hides_tools:
        return server.tools.page(at, cursor)
    shown = server.tools.page_of(at, cursor, lambda tool: access.allows(tool.scopes))
    return {**shown, "cacheScope": "private"} if at.modern else shown


def on_call_tool(server: ToolHost, params: Json, context: RequestContext) -> Json:
    """Answer tools/call, in five steps. Each call is one line in the audit, however it ends."""
    name, outcome = params["name"], "refused"
    own, principal = context.connection.responder.limiter, context.principal
    limiter = own if principal is None else server.limiters.of(principal)
    try:
        # Step 1: count the call against the limit of its caller while it runs.
        wait = limiter.enter()  # spec: server/tools/rate-limit
        if wait:
            raise TooManyRequests("too many tool calls", wait)
        try:
            # Step 2: find the tool.
            tool = server.tools.get(name)  # spec: server/tools/name-case-sensitive
            if tool is None:  # spec: server/tools/protocol-errors
                raise InvalidParams(f"Unknown tool: {name[:200]}{server.known(server.tools.keys())}")
            # Step 3: convert the arguments to Python values.
            try:
                arguments = tool.load(params.get("arguments", {}))  # spec: server/tools/validate-inputs
            except Mismatch as problem:
                return BAD_ARGUMENTS[context.revision.bad_arguments](name, problem)
            if tool.context is not None:
                arguments[tool.context] = context
            # Step 4: run the function.
            outcome = "failed"
            try:
                value = tool.function(**arguments)
            except (ProtocolError, RequestCancelled, InputRequired) as problem:
                outcome = ENDINGS.get(type(problem), outcome)
                raise
            except BaseException as problem:  # even SystemExit becomes a result with isError
                return _failed(tool, problem, context)
            # Step 5: make the result of what it returned.
            result, outcome = _result_of(tool, value, context)
            return result
        finally:
            limiter.leave()
    finally:
        if audit.log.isEnabledFor(logging.INFO):
            _record(server, params, outcome, context)


ENDINGS: dict[type[BaseException], str] = {InputRequired: "asked", RequestCancelled: "cancelled"}
"""What the audit says of a call that ended by an exception, but did not fail."""


def _record(server: ToolHost, params: Json, outcome: str, context: RequestContext) -> None:
    """Write the line for a call to the audit.  # spec: server/tools/log-usage"""
    if not context.connection.is_inherited:  # in a forked child the call is the parent's
        audit.record("served", params, outcome, context.principal or "-", server.options.audit_arguments)


def _result_of(tool: RegisteredTool, value: Any, context: RequestContext) -> tuple[Json, str]:
    """Step 5: the result, and what the audit says of it."""
    if type(value) is dict and is_input_required(value):
        return typing.cast(Json, value), "asked"
    try:
        # spec: server/tools/output-schema-conforms
        return typing.cast(Json, tool.result(value, context.revision)), "done"
    except (ValueError, TypeError, RecursionError) as problem:
        _log.error("%s returned what it does not declare: %s", tool.definition["name"], problem)
        return tool_error(f"the result of this tool is not as declared: {problem}"), "failed"


def _refuse_arguments(name: str, problem: Mismatch) -> Json:
    """# spec: server/tools/invalid-arguments-protocol-error"""
    raise InvalidParams(f"{name}: {problem}")


def _explain_arguments(name: str, problem: Mismatch) -> Json:
    """# spec: server/tools/input-validation-tool-error"""
    return tool_error(f"Invalid arguments for {name}: {problem}")


BAD_ARGUMENTS: dict[str, Callable[[str, Mismatch], Json]] = {
    "error": _refuse_arguments,
    "result": _explain_arguments,
}
"""What answers bad arguments, by `Revision.bad_arguments`: an error, or a result that a model can read."""


def _failed(tool: RegisteredTool, problem: BaseException, context: RequestContext) -> Json:
    """The result of a tool that raised: the message goes to the model, the traceback to the server's log."""
    if context.connection.is_inherited:  # a forked child: the client is the parent's to answer
        raise problem
    _log.warning("tool %s failed", tool.definition["name"], exc_info=problem)
    said = message_of(problem)
    return tool_error(said if isinstance(problem, Exception) else f"the tool ended itself: {said}")


def tool_error(message: str) -> Json:
    """A result with isError, whose text is the message.  # spec: server/tools/execution-errors-in-result"""
    return {"content": [text(message)], "isError": True}


def write(result: Json) -> Encoded:
    """Encode a result as JSON. If it has no JSON form, a result with isError that says why is encoded."""
    try:
        # The result of a hook may be an input_required result, which has no content.
        members = (
            m for block in result.get("content", ()) if isinstance(block, dict) for m in block.values()
        )
        if any(type(member) is str and len(member) >= LONG_CHARACTERS for member in members):
            return write_long(result)
        return Encoded([to_json(result).encode("utf-8")])
    except (ValueError, TypeError, RecursionError) as problem:
        dress: Json = {key: result[key] for key in ("resultType", "_meta") if key in result}
        return write({**dress, **tool_error(f"the result of this tool is no JSON: {problem}")})


def write_long(result: Json) -> Encoded:
    """Encode a result with a long text, which is encoded only once, even if structured content repeats it."""
    long = LongStrings()
    marked = {**result, "content": [long.mark(block) for block in result["content"]]}
    if "structuredContent" in result:
        marked["structuredContent"] = long.mark(result["structuredContent"])
    return long.encode(marked)


# A server declares the capability of these rows once it has had a tool, even if the list is empty later.
# spec: server/tools/capability-declared
METHODS = (
    Method(
        "tools/list",
        on_list_tools,
        params=ListParams,
        result=ListToolsResult,
        capability="tools",
        cacheable=True,
    ),
    Method(
        "tools/call",
        on_call_tool,
        params=CallToolRequestParams,
        result=CallToolResult,
        capability="tools",
        asks=True,
        may_be_task=True,
        encode=write,
    ),
)
# spec: server/tools/list-changed-subscribed
NOTIFICATIONS = (Notification("notifications/tools/list_changed", "ToolListChanged", "server"),)

# ----------------------------------------------------------------------- client half


Confirm: TypeAlias = Callable[[Any, Any, Json], object]
"""The definition of a tool, its hints, and the arguments of a call -> whether the call may be sent."""


class CallRefused(LocalError):
    """The application's `confirm` refused a call, which was not sent."""


class ToolError(McpError):
    """A tool reported that it failed. `Result.raise_for_error` raises it, as does a call with `check=True`.

    A tool may raise one itself: as with any exception, its message is what the client gets.
    """

    def __init__(self, message: str, content: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.message = message
        """The text of its content, exact. In the text of an exception that a client raises, U+FFFD stands for
        control characters.
        """
        self.content = list(content)
        """The content blocks of the result, as they came."""


class KnownTools:
    """The tools that a client knows from the server's list.

    Any thread may use it, without a lock: a change either replaces a whole dict, or sets a single entry.
    """

    def __init__(self) -> None:
        self._by_name: dict[Any, Json] = {}
        self._paths: dict[Any, tuple[Json, Paths]] = {}  # name -> the definition, and what goes into headers
        self._fresh_until = 0.0

    def find(self, name: Any) -> Json | None:
        """The definition of a tool, if it is known."""
        return self._by_name.get(name)

    def find_fresh(self, name: Any, at: Revision) -> Json | None:
        """The same, but None if the list is stale: the tool may have changed (server/utilities/caching)."""
        return None if at.caches and time.monotonic() >= self._fresh_until else self.find(name)

    def known(self, client: CallsTools, name: Any) -> Json:
        """The definition of a tool, fetched if it is not known."""
        return self.find(name) or self.fetch(client, name)

    def store(self, tools: list[Json], seconds: float) -> None:
        """Replace all tools by those of a whole list, which is fresh for so many seconds."""
        self._by_name = {tool["name"]: tool for tool in tools}
        self._paths = {}
        self._fresh_until = time.monotonic() + seconds

    def forget(self) -> None:
        """Forget all tools: they may have changed."""
        self._by_name = {}

    def fetch(self, client: CallsTools, name: Any, **limits: Any) -> Json:
        """Fetch the list, and return the definition of a tool; only its name if the list does not have it.

        If the list cannot be fetched, the definition that was known before is returned, if there was one.
        """
        try:
            list_tools(client, **limits)
        except McpError as problem:  # no reason for the call itself to fail
            _log.warning("the list of tools, to check a call against, cannot be had: %s", problem)
        # A tool that was not found is stored too: otherwise each call of it would fetch the list again.
        return self._by_name.setdefault(name, {"name": name})

    def paths(self, client: CallsTools, name: Any, deadline: Deadline | None) -> Paths:
        """The arguments of a tool that go into headers; its definition is fetched if it is not known."""
        tool = self.find(name)
        if tool is None:
            tool = self.fetch(client, name, deadline=deadline)
        kept = self._paths.get(name)
        if kept is None or kept[0] is not tool:
            kept = self._paths[name] = tool, schema_extension.annotated(tool.get("inputSchema", {}))
        return kept[1]


class CallsTools(Asks, KnowsServer, Protocol):
    """What this page needs of a client."""

    @property
    def tools(self) -> KnownTools:
        """The tools that it knows."""

    @property
    def repeats_arguments(self) -> bool:
        """Whether arguments go into HTTP headers, where the tools say so."""

    @property
    def confirm(self) -> Confirm | None:
        """The application's function that is asked before each call, if it has one."""

    @property
    def audit_arguments(self) -> bool:
        """Whether the audit includes the arguments of calls."""


def list_tools(client: CallsTools, **limits: Any) -> list[Tool]:
    """All tools, from all pages; the client knows them afterwards. `limits` are those of pagination.pages."""
    pages = pagination.all_pages(client, "tools/list", **limits)
    tools = [tool for page in pages for tool in page["tools"]]
    client.tools.store(tools, min(map(fresh_for, pages)))
    return tools


def call_params(name: str, arguments: Json | None = None, meta: Json | None = None) -> Json:
    """The params of tools/call; `Client.call_tool` sends them.  # spec: server/tools/call-timeouts"""
    params: Json = {"name": name, "arguments": arguments or {}}
    if meta is not None:
        params["_meta"] = meta
    return params


def review(client: CallsTools, params: Json) -> None:
    """Before a call is sent, ask the application to confirm it. Raises CallRefused.

    # spec: server/tools/confirm-sensitive, server/tools/show-inputs
    """
    if client.confirm is not None:
        name = params.get("name")
        tool = client.tools.find_fresh(name, client.negotiated.revision) or client.tools.fetch(client, name)
        if not client.confirm(tool, hints(tool), params.get("arguments", {})):
            ended(client, params, "refused and not sent")
            raise CallRefused(f"the call of {params.get('name')} was not confirmed, and not sent")


def hints(tool: Any) -> ToolAnnotations:
    """A tool's annotations with the defaults filled in. They are only what the server claims.

    A tool that only reads counts as idempotent and not destructive, whatever else it claims.
    # spec: schema/annotation-defaults, schema/annotations-conditional, schema/annotations-no-decisions
    """
    given = tool.get("annotations")
    said: Json = {"readOnlyHint": False, "openWorldHint": True}
    if isinstance(given, dict):
        # Booleans only: the string "false" would count as true in `if hints["readOnlyHint"]`.
        # spec: server/tools/annotations-untrusted
        said.update({name: value for name, value in given.items() if _is_hint(name, value)})
    if said["readOnlyHint"]:
        return typing.cast(ToolAnnotations, {**said, "destructiveHint": False, "idempotentHint": True})
    return typing.cast(ToolAnnotations, {"destructiveHint": True, "idempotentHint": False, **said})


def _is_hint(name: str, value: Any) -> bool:
    """Whether a member of annotations has its type: any `...Hint` is a boolean, and `title` a string."""
    return type(value) is bool if name.endswith("Hint") else name != "title" or type(value) is str


def check_result(client: CallsTools, params: Json, result: Json, timeout: float | None) -> None:
    """Check the shape of a result, and its structured content by the tool's output schema.

    Raises InvalidResponse.
    # spec: server/tools/validate-results, server/tools/output-schema-validated
    """
    if result.get("resultType", "complete") != "complete" or "task" in params:
        return  # a question, or a task: its result is still to come
    name = params.get("name")
    try:
        checker(CallToolResult, LATEST.date, ("_meta", "resultType", "structuredContent"))(result)
    except Mismatch as problem:
        raise InvalidResponse(f"tools/call {name}: {problem}") from None
    if name is not None and not result.get("isError"):  # a task that was begun elsewhere has no name
        _check_data(client, name, result, timeout)


def _check_data(client: CallsTools, name: str, result: Json, timeout: float | None) -> None:
    """Check structured content by the output schema of its tool. Raises InvalidResponse."""
    known = client.tools.find(name)
    if known is None and "structuredContent" not in result:
        return
    fault = _fault(known, result) if known is not None else "the tool is not known"
    if fault is not None:  # the tool may have changed: a modern client is told only if it subscribed
        fault = _fault(client.tools.fetch(client, name, timeout=timeout), result)
    if fault is not None:
        raise InvalidResponse(f"tools/call {name}: {fault}")


def _fault(tool: Any, result: Json) -> str | None:
    """What is wrong with the structured content of a result, by the definition of its tool; or None."""
    schema = tool.get("outputSchema")
    if schema is None:
        return None
    if "structuredContent" not in result:
        return "the tool has an output schema, the result no structuredContent"
    try:
        validator(schema).check(result["structuredContent"])  # spec: server/tools/ref-requirements
    except (Mismatch, BadSchema) as problem:
        return f"structuredContent: {problem}"
    return None


def check_list(client: CallsTools, params: Json, result: Json, timeout: float | None) -> None:
    """Drop malformed definitions and, where arguments go into headers, those with a bad `x-mcp-header`."""
    tools = pagination.definitions_of("tools/list", result, "tools", "name", Tool)
    result["tools"] = schema_extension.usable(tools, over_http=client.repeats_arguments)


def ended(
    client: CallsTools, params: Json, outcome: Json | BaseException | str, task_id: str | None = None
) -> None:
    """Write a line to the audit: this call is over, with this result, this exception, or in these words.

    `task_id` is the id of its task. Only its beginning is logged, since the whole may be a key to the task.
    """
    if audit.log.isEnabledFor(logging.INFO):
        if isinstance(outcome, dict):
            outcome = "error" if outcome.get("isError") else "done"
        elif isinstance(outcome, BaseException):
            outcome = f"{type(outcome).__name__}: {outcome!s:.200}"
        if task_id is not None:
            outcome = f"task {task_id[:8]}: {outcome}"
        server = client.negotiated.server_info.get("name", "-")
        audit.record("made", params, outcome, server, client.audit_arguments)
