"""Resources (page: server/resources).

A server offers data to read, each with a URI; a client lists these resources, and reads those it wants. A
resource template is a pattern for URIs, for more resources than a list could hold.

    client -> server   resources/list {cursor?}             -> {resources: [Resource], nextCursor?}
    client -> server   resources/templates/list {cursor?}   -> {resourceTemplates: [...], nextCursor?}
    client -> server   resources/read {uri}                 -> {contents: [{uri, mimeType?, text | blob}]}
    client -> server   resources/subscribe {uri}            -> {}      and resources/unsubscribe
    server -> client   notifications/resources/updated {uri}
    server -> client   notifications/resources/list_changed

Server half   `on_list_resources`, `on_list_templates`, `on_read_resource`, `on_subscribe`,
              `on_unsubscribe` (and api/from_function/resource: how a function becomes a resource)
Client half   `list_resources`, `list_templates`, `read_params`, `is_not_found`

Revisions   2024-11-05  all of it
            2025-06-18  + title, `_meta`; + annotations.lastModified
            2025-11-25  + icons
            2026-07-28  reading may ask for input first; subscriptions are basic/patterns/subscriptions

Errors      no such resource: -32002 until 2025-11-25, then -32602, with data.uri; a malformed URI:
            -32602; a resource that cannot be read: -32603 with the exception's message, never a traceback.
Threads     `on_read_resource` runs the resource's function on the thread of the request (a worker, or over
            Streamable HTTP the thread that took the POST), where it may block; the client half runs on the
            caller's thread.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Required, TypedDict

from mcp_ref.basic.index.error_responses import ErrorResponse, InternalError, InvalidParams, ProtocolError
from mcp_ref.basic.index.general_fields import Icon, NotificationMeta, RequestMeta, ResultMeta
from mcp_ref.basic.index.messages import Json, encode
from mcp_ref.basic.patterns.index.requester import Asks
from mcp_ref.basic.versioning import LATEST, Method, Notification, Revision
from mcp_ref.runtime.checks import check_text
from mcp_ref.runtime.errors import InvalidResponse, RequestCancelled
from mcp_ref.runtime.json_text import Encoded, to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.mismatch import message_of
from mcp_ref.runtime.uri.templates import Template
from mcp_ref.runtime.uri.uris import BadUri, check_uri, leads_out
from mcp_ref.schema import REVISIONS, Mismatch, checker, pruner, required, since
from mcp_ref.server.content import (
    Annotations,
    BlobResourceContents,
    Meta,
    TextResourceContents,
    Uri,
    check_base64,
)
from mcp_ref.server.utilities import pagination
from mcp_ref.server.utilities.caching import CacheScope, TtlMs
from mcp_ref.server.utilities.pagination import ListParams, PagedList

if TYPE_CHECKING:
    from mcp_ref.basic.patterns.index.context import RequestContext
    from mcp_ref.basic.patterns.mrtr.basic_workflow import InputResponses
    from mcp_ref.basic.patterns.subscriptions.server import Listeners
    from mcp_ref.server.utilities.completion import Completer

__all__ = [
    "Resource",
    "ResourceNotFound",
    "ResourceTemplate",
    "is_not_found",
    "list_resources",
    "list_templates",
    "read_params",
]

_log = logger("mcp_ref.resources")

# ---------------------------------------------------------------------------- shapes


class Resource(TypedDict, total=False):
    uri: Required[Uri]
    name: Required[str]
    title: Annotated[str, since("2025-06-18")]
    description: str
    icons: Annotated[list[Icon], since("2025-11-25")]
    mimeType: str  # spec: server/resources/file-xdg-mime
    size: int
    annotations: Annotations
    _meta: Meta


class ResourceTemplate(TypedDict, total=False):
    uriTemplate: Required[Annotated[str, {"format": "uri-template"}]]
    name: Required[str]
    title: Annotated[str, since("2025-06-18")]
    description: str
    icons: Annotated[list[Icon], since("2025-11-25")]
    mimeType: str
    annotations: Annotations
    _meta: Meta


class ListResourcesResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    resources: Required[list[Resource]]
    nextCursor: str
    ttlMs: Required[Annotated[TtlMs, since("2026-07-28")]]
    cacheScope: Required[Annotated[CacheScope, since("2026-07-28")]]


class ListResourceTemplatesResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    resourceTemplates: Required[list[ResourceTemplate]]
    nextCursor: str
    ttlMs: Required[Annotated[TtlMs, since("2026-07-28")]]
    cacheScope: Required[Annotated[CacheScope, since("2026-07-28")]]


class ResourceRequestParams(TypedDict, total=False):
    _meta: Annotated[RequestMeta, since("2025-11-25"), required(since="2026-07-28")]
    uri: Required[Uri]


class ReadResourceRequestParams(ResourceRequestParams, total=False):
    inputResponses: Annotated[InputResponses, since("2026-07-28")]
    requestState: Annotated[str, since("2026-07-28")]


class ReadResourceResult(TypedDict, total=False):
    _meta: ResultMeta
    resultType: Required[Annotated[str, since("2026-07-28")]]
    contents: Required[list[TextResourceContents | BlobResourceContents]]
    ttlMs: Required[Annotated[TtlMs, since("2026-07-28")]]
    cacheScope: Required[Annotated[CacheScope, since("2026-07-28")]]


class SubscribeRequestParams(ResourceRequestParams):
    pass


class UnsubscribeRequestParams(ResourceRequestParams):
    pass


class ResourceUpdatedNotificationParams(TypedDict, total=False):
    _meta: Annotated[NotificationMeta, since("2025-11-25")]
    uri: Required[Uri]


DEFINITIONS: dict[str, Any] = {
    "Resource": Resource,
    "ResourceRequestParams": Annotated[ResourceRequestParams, since("2025-11-25")],
    "ResourceTemplate": ResourceTemplate,
}

# ----------------------------------------------------------------------- server half


def check_definition(shape: Any, definition: Json) -> Any:
    """Check the definition of a resource or a template, and return it. Raises ValueError, TypeError.

    # spec: server/resources/https-only-if-fetchable, server/resources/https-otherwise-other-scheme
    """
    if "uri" in definition:
        check_uri(definition["uri"])  # spec: server/resources/custom-scheme-rfc3986
    uri = definition.get("uri") or definition["uriTemplate"]
    if not definition["name"]:
        raise ValueError(f"{uri}: a resource has a name; its function has none, so pass name=...")
    if uri.lower().startswith("https:"):
        _log.info("%s: clients may fetch https: URIs themselves; use another scheme if they cannot", uri)
    checker(shape, REVISIONS[-1])(definition)
    encode(definition)  # one that has no JSON form fails here, not when the first client lists it
    return definition


_TIME = re.compile(r"[0-9-]+(T[0-9:.,]+(Z|[+-][0-9:]+)?)?")


def check_annotations(annotations: Annotations) -> Annotations:
    """Check annotations, and return them. Raises ValueError.  # spec: server/resources/annotation-values"""
    checker(Annotations, REVISIONS[-1])(annotations)
    modified = annotations.get("lastModified")
    if modified is not None:
        try:
            if _TIME.fullmatch(modified) is None:
                raise ValueError
            datetime.fromisoformat(modified)
        except ValueError:
            raise ValueError(
                f"lastModified is a time like 2026-07-28T12:00:00Z, not {modified!r:.60}"
            ) from None
    return annotations


Variables = Mapping[str, str]
"""The variables of a template, by name, with their values in the URI that it matched."""


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredResource:
    """One resource, ready to be read."""

    definition: Resource
    """As the newest revision has it."""
    read: Callable[[RequestContext], list[Json] | Json]
    """Returns its contents, as the newest revision has them; or an InputRequiredResult, to ask first."""
    hints: Json | None = None
    """Its own ttlMs and cacheScope; None for those that the server has for resources/read."""
    scopes: tuple[str, ...] = ()
    """The scopes that a token needs to read it, where the server is protected (basic/authorization)."""


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredTemplate:
    """One template, ready to be matched."""

    definition: ResourceTemplate
    template: Template
    read: Callable[[str, Variables, RequestContext], list[Json] | Json]
    hints: Json | None
    complete: Mapping[str, Completer]
    """The completers of its variables, by name."""
    allow_traversal: bool = False
    """Whether variables may have values such as `../x` or an absolute path; see `leads_out`."""
    scopes: tuple[str, ...] = ()
    """The scopes that a token needs to read one of its resources."""

    def find(self, uri: str) -> RegisteredResource | None:
        """The resource with this URI, or None if the template does not match.

        Raises ResourceNotFound if a variable has a value that leads out of a directory.
        # spec: server/resources/sanitize-file-paths
        """
        variables = self.template.match(uri)  # spec: server/resources/uri-template-rfc6570
        if variables is None:
            return None
        if not self.allow_traversal:
            out = next((name for name, value in variables.items() if leads_out(value)), None)
            if out is not None:
                _log.warning("refused %s: %s leads out of %s", short(uri), out, self.template.text)
                raise ResourceNotFound(uri)
        about = {k: v for k, v in self.definition.items() if k != "uriTemplate"}
        definition = typing.cast(Resource, {"uri": uri, **about})
        return RegisteredResource(definition, partial(self.read, uri, variables), self.hints, self.scopes)


class ResourceNotFound(ProtocolError):
    """There is no such resource. The function of a template raises it for a URI that has no resource.

    # spec: server/resources/not-found-32602
    """

    code = -32602

    def __init__(self, uri: str) -> None:
        check_text(uri=uri)
        uri = uri.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate could not be sent
        # spec: server/resources/not-found-data-uri
        super().__init__(f"Resource not found: {short(uri)}", data={"uri": uri})
        self.uri = uri

    def to(self, revision: Revision) -> ResourceNotFound:
        """Set the error code that a revision has for this, and return the error itself.

        # spec: server/resources/not-found-32002, basic/index/no-emit-32002
        """
        self.code = revision.resource_not_found
        return self


def short(uri: str) -> str:
    """A URI as error messages and logs show it: of a long one, the beginning and the end."""
    return uri if len(uri) <= 100 else f"{uri[:70]}...{uri[-20:]}"


class ResourceSource(Protocol):
    """Resources that are looked up when they are requested: the files of a directory."""

    prefix: str
    """The beginning of all their URIs."""

    def find(self, uri: str) -> RegisteredResource | None:
        """The resource with exactly this URI, or None. Raises OSError or InternalError if it cannot look."""

    def refresh(self, server: ResourceHost, /) -> None:
        """Bring the list up to date before it is sent."""

    def watch(self, server: ResourceHost, /) -> AbstractContextManager[None]:
        """A context manager: while the server serves, it brings the list up to date from time to time."""


class ResourceLists(Protocol):
    """The places where a URI is looked up, in this order."""

    @property
    def resources(self) -> PagedList[RegisteredResource]: ...

    @property
    def templates(self) -> PagedList[RegisteredTemplate]: ...

    @property
    def directories(self) -> Sequence[ResourceSource]: ...


class ResourceHost(ResourceLists, Protocol):
    """What this page needs of the server."""

    @property
    def listeners(self) -> Listeners:
        """The clients that hear of changes."""

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource: its contents have changed."""


def on_list_resources(server: ResourceHost, params: Json, context: RequestContext) -> Json:
    """Answer resources/list: one page, with directories as they are now. Templates are listed separately.

    # spec: server/resources/list-answered, server/resources/list-paginated
    # spec: server/resources/list-may-change, server/resources/list-empty-or-changing
    # spec: server/resources/list-not-per-connection
    # A hook (`@server.around`) takes out the resources that a caller must not see.
    # spec: server/resources/list-by-authorization
    """
    for directory in server.directories:
        directory.refresh(server)
    return server.resources.page(context.revision, params.get("cursor"))


def on_list_templates(server: ResourceHost, params: Json, context: RequestContext) -> Json:
    """Answer resources/templates/list with one page.  # spec: server/resources/templates-paginated"""
    return server.templates.page(context.revision, params.get("cursor"))


def on_read_resource(server: ResourceHost, params: Json, context: RequestContext) -> Json:
    """Answer resources/read: find the resource, and run its function."""
    uri = _checked(params["uri"])
    try:
        resource = find(server, uri)
        found = resource.read(context)
    except ResourceNotFound as problem:
        raise problem.to(context.revision) from None
    except (ProtocolError, RequestCancelled):
        raise
    except Exception as problem:  # spec: server/resources/errors
        _log.warning("%s could not be read", short(uri), exc_info=problem)
        raise InternalError(f"{short(uri)} could not be read: {message_of(problem)}") from None
    if isinstance(found, dict):  # spec: server/resources/input-required
        return found
    if resource.hints is not None:
        context.handling.hints = resource.hints
    # spec: server/resources/multiple-contents
    return {"contents": [_pruned(item, context.revision.date) for item in found]}


def write(result: Json) -> Encoded:
    """Encode a result as JSON. Raises InternalError if it has no JSON form."""
    try:
        return Encoded([to_json(result).encode("utf-8")])
    except (ValueError, TypeError, RecursionError) as problem:
        raise InternalError(f"what was read is no JSON: {problem}") from None


def on_subscribe(server: ResourceHost, params: Json, context: RequestContext) -> Json:
    """Answer resources/subscribe: from now on, the client is notified of changes of one resource.

    # spec: server/resources/subscribe-method, server/resources/subscribe-empty-result
    """
    uri = _checked(params["uri"])
    try:
        find(server, uri)
    except ResourceNotFound as problem:
        raise problem.to(context.revision) from None
    server.listeners.subscribe(context.connection, uri)
    return {}


def on_unsubscribe(server: ResourceHost, params: Json, context: RequestContext) -> Json:
    """Answer resources/unsubscribe. It is no error if the resource is gone, or was not subscribed to."""
    server.listeners.unsubscribe(context.connection, _checked(params["uri"]))
    return {}


def find(server: ResourceLists, uri: str) -> RegisteredResource:
    """The resource with this URI: a registered one, else one of a template, else a file of a directory.

    Raises ResourceNotFound.
    """
    found = server.resources.get(uri)
    if found is not None:
        return found
    sources: list[RegisteredTemplate | ResourceSource] = [*server.templates.values(), *server.directories]
    for source in sources:
        found = source.find(uri)
        if found is not None:
            return found
    raise ResourceNotFound(uri)  # spec: server/resources/no-empty-contents


def _checked(uri: str) -> str:
    """Check a URI that a client sent, and return it. Raises InvalidParams if it breaks RFC 3986.

    # spec: server/resources/validate-uris
    """
    try:
        return check_uri(uri)
    except BadUri as problem:
        raise InvalidParams(f"uri: {problem}") from None


def _pruned(item: Json, date: str) -> Json:
    """Contents, text or blob, without the members that a revision does not have.

    # spec: server/resources/contents-text-or-blob
    """
    return pruner(BlobResourceContents if "blob" in item else TextResourceContents, date)(item)


# spec: server/resources/capability-declared
_LIST: Json = {"params": ListParams, "capability": "resources", "cacheable": True}
_SUBSCRIPTION: Json = {"until": "2025-11-25", "capability": "resources"}
METHODS = (
    Method("resources/list", on_list_resources, result=ListResourcesResult, **_LIST),
    Method("resources/templates/list", on_list_templates, result=ListResourceTemplatesResult, **_LIST),
    Method(
        "resources/read",
        on_read_resource,
        params=ReadResourceRequestParams,
        result=ReadResourceResult,
        capability="resources",
        cacheable=True,
        asks=True,
        encode=write,
    ),
    Method("resources/subscribe", on_subscribe, params=SubscribeRequestParams, **_SUBSCRIPTION),
    Method("resources/unsubscribe", on_unsubscribe, params=UnsubscribeRequestParams, **_SUBSCRIPTION),
)
NOTIFICATIONS = (
    # spec: server/resources/list-changed
    Notification("notifications/resources/list_changed", "ResourceListChanged", "server"),
    # To a client that subscribed (basic/patterns/subscriptions/server).
    # spec: server/resources/updated-notification, server/resources/updated-on-listen
    Notification(
        "notifications/resources/updated",
        "ResourceUpdated",
        "server",
        params=ResourceUpdatedNotificationParams,
    ),
)

# ----------------------------------------------------------------------- client half


def list_resources(client: Asks, timeout: float | None = None) -> list[Resource]:
    """All resources, from all pages."""
    return pagination.everything(client, "resources/list", "resources", timeout=timeout)


def list_templates(client: Asks, timeout: float | None = None) -> list[ResourceTemplate]:
    """All resource templates, from all pages."""
    return pagination.everything(client, "resources/templates/list", "resourceTemplates", timeout=timeout)


def read_params(uri: str, meta: Json | None = None) -> Json:
    """The params of resources/read."""
    return {"uri": uri} if meta is None else {"uri": uri, "_meta": meta}


def is_not_found(problem: BaseException) -> bool:
    """Whether this is a server's answer that there is no such resource, in any revision.

    # spec: server/resources/not-found-32002-accepted
    """
    if not isinstance(problem, ErrorResponse):
        return False
    # -32602 stands for many errors; only this one has a URI in its data.
    return problem.code == -32002 or (
        problem.code == -32602 and isinstance(problem.data, dict) and "uri" in problem.data
    )


def check_resources(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Drop the malformed definitions from a list of resources, and keep the others."""
    found = pagination.definitions_of("resources/list", result, "resources", "uri", Resource)
    result["resources"] = found


def check_templates(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Drop the malformed definitions from a list of templates, and keep the others."""
    method, member = "resources/templates/list", "resourceTemplates"
    result[member] = pagination.definitions_of(method, result, member, "uriTemplate", ResourceTemplate)


def check_read(client: object, params: Json, result: Json, timeout: float | None) -> None:
    """Check what was read: each item has its URI, and text or valid base64. Raises InvalidResponse."""
    if result.get("resultType", "complete") != "complete":
        return
    try:
        checker(ReadResourceResult, LATEST.date, ("_meta", "resultType", "ttlMs", "cacheScope"))(result)
        for index, item in enumerate(result["contents"]):
            if "blob" in item:
                check_base64(
                    item["blob"], ("contents", index, "blob")
                )  # spec: server/resources/binary-encoded
    except Mismatch as problem:
        raise InvalidResponse(f"resources/read {params.get('uri')!s:.100}: {problem}") from None
