"""Roots (page: client/roots): the shapes.

A client tells a server which directories it may work in.

Revisions   2024-11-05  roots/list, asked by the server; notifications/roots/list_changed
            2025-06-18  + `_meta` on a root
            2026-07-28  asked by way of basic/patterns/mrtr; deprecated
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypedDict

from mcp_ref.basic.messages import AnyNotificationParams, AnyParams, Json, RequestId
from mcp_ref.basic.meta import NotificationParams, RequestParams
from mcp_ref.schema import Bounds, since, until, was

__all__ = ["Root"]


class BareParams(TypedDict, total=False):
    """Of a request inside an InputRequiredResult: no protocol version, no capabilities."""

    _meta: Json


class Root(TypedDict, total=False):
    uri: Required[Annotated[str, Bounds(format="uri")]]
    name: str
    _meta: Annotated[Json, since("2025-06-18")]


class ListRootsRequest(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25"), until("2025-11-25")]]
    id: Required[Annotated[RequestId, since("2025-11-25"), until("2025-11-25")]]
    method: Required[Literal["roots/list"]]
    params: Annotated[BareParams, was(AnyParams, until="2025-06-18"), was(RequestParams, until="2025-11-25")]


class ListRootsResult(TypedDict, total=False):
    _meta: Annotated[Json, until("2025-11-25")]
    roots: Required[list[Root]]


class RootsListChangedNotification(TypedDict, total=False):
    jsonrpc: Required[Annotated[Literal["2.0"], since("2025-11-25")]]
    method: Required[Literal["notifications/roots/list_changed"]]
    params: Annotated[NotificationParams, was(AnyNotificationParams, until="2025-06-18")]


DEFINITIONS: dict[str, Any] = {
    "ListRootsRequest": ListRootsRequest,
    "ListRootsResult": ListRootsResult,
    "Root": Root,
    "RootsListChangedNotification": Annotated[RootsListChangedNotification, until("2025-11-25")],
}
