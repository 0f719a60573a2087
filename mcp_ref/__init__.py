"""The Model Context Protocol in Python, to be read beside its specification.

    from mcp_ref import Server, Context, connect

The tree of this package is the tree of the specification: the page server/tools is the module
mcp_ref/server/tools.py, with both sides of the wire in it; a long page is a package with a module for each
of its headings. `server` and `client` are the sections *Server Features* and *Client Features*, not roles:
the server's and the client's half of a page are in one place. The classes and functions that authors and
callers use are in `api`, code that no page describes is in `runtime`, the command line is in `cli`, and
what is built with the package is in `extras`.

`mcp_ref.basic.versioning` is a good place to start reading, and docs/architecture.rst a map.
"""

import typing

from mcp_ref.api.context import Context
from mcp_ref.api.options import ClientOptions, ServerOptions
from mcp_ref.api.server import Server
from mcp_ref.api.tool_handles import ToolHandle
from mcp_ref.basic.index.error_responses import (
    ErrorResponse,
    HttpError,
    HttpFailure,
    ProtocolError,
    RefusedByStatus,
)
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.patterns.subscriptions.server import Change
from mcp_ref.basic.transports.index import ClientTransport, MessageStream, serve_stream
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.client.elicitation.requests import Answer, Elicit
from mcp_ref.client.elicitation.url_mode import ElicitUrl, UrlElicitationNeeded, UrlElicitationRequired
from mcp_ref.client.roots import ListRoots
from mcp_ref.client.sampling.creating_messages import Sample, SamplingRefused
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    NotReached,
    RequestCancelled,
    RequestTimeout,
    StreamBroken,
)
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.stores.store import StoreError
from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.server.resources import ResourceNotFound
from mcp_ref.server.tools import CallRefused, Tool, ToolError
from mcp_ref.server.utilities.caching import Cache, Caching

if typing.TYPE_CHECKING:
    from mcp_ref.api.authorization import OAuth
    from mcp_ref.api.client import Client
    from mcp_ref.api.connect import connect
    from mcp_ref.api.hosts import Host, connect_all
    from mcp_ref.api.resource_server import ResourceServer
    from mcp_ref.api.results import Result
    from mcp_ref.api.retrying import MayHaveRun, Retry
    from mcp_ref.api.tasks import Task
    from mcp_ref.api.token_stores import FileTokens, MemoryTokens
    from mcp_ref.api.token_verifiers import Introspection, JwtVerifier
    from mcp_ref.api.user_agents import Browser, PasteUrl
    from mcp_ref.basic.authorization.index.access_tokens import AccessToken, CannotVerify, InvalidToken
    from mcp_ref.basic.authorization.index.error_handling import AuthorizationError
    from mcp_ref.basic.authorization.token_requests import TokenClient
    from mcp_ref.basic.transports.streamable_http.options import HttpOptions
    from mcp_ref.basic.transports.streamable_http.security import Denied
    from mcp_ref.extensions.client_credentials import ClientCredentials
    from mcp_ref.extensions.dpop import Nonces
    from mcp_ref.extensions.enterprise_managed_authorization import EnterpriseManaged
    from mcp_ref.extensions.workload_identity import WorkloadIdentity
    from mcp_ref.runtime.stores.memory import MemoryStore
    from mcp_ref.runtime.stores.sqlite import SqliteStore

__all__ = [
    "AccessToken",
    "Answer",
    "AuthorizationError",
    "Bounds",
    "Browser",
    "Cache",
    "Caching",
    "CallRefused",
    "CannotVerify",
    "Change",
    "Client",
    "ClientCredentials",
    "ClientOptions",
    "ClientTransport",
    "ConnectionClosed",
    "Context",
    "Denied",
    "Elicit",
    "ElicitUrl",
    "EnterpriseManaged",
    "ErrorResponse",
    "FileTokens",
    "Host",
    "HttpError",
    "HttpFailure",
    "HttpOptions",
    "InputRefused",
    "Introspection",
    "InvalidResponse",
    "InvalidToken",
    "JwtVerifier",
    "Limit",
    "ListRoots",
    "LocalError",
    "MayHaveRun",
    "McpError",
    "MemoryStore",
    "MemoryTokens",
    "MessageStream",
    "Nonces",
    "NotReached",
    "OAuth",
    "PasteUrl",
    "ProtocolError",
    "RefusedByStatus",
    "RequestCancelled",
    "RequestTimeout",
    "ResourceNotFound",
    "ResourceServer",
    "Result",
    "Retry",
    "Sample",
    "SamplingRefused",
    "Server",
    "ServerOptions",
    "SqliteStore",
    "StoreError",
    "StreamBroken",
    "Task",
    "TaskOptions",
    "TokenClient",
    "Tool",
    "ToolError",
    "ToolHandle",
    "UrlElicitationNeeded",
    "UrlElicitationRequired",
    "WorkloadIdentity",
    "connect",
    "connect_all",
    "serve_stream",
]
__version__ = "0.1.0"

_LATE = {
    "AccessToken": "basic.authorization.index.access_tokens",
    "AuthorizationError": "basic.authorization.index.error_handling",
    "Browser": "api.user_agents",
    "CannotVerify": "basic.authorization.index.access_tokens",
    "Client": "api.client",
    "ClientCredentials": "extensions.client_credentials",
    "Denied": "basic.transports.streamable_http.security",
    "EnterpriseManaged": "extensions.enterprise_managed_authorization",
    "FileTokens": "api.token_stores",
    "Host": "api.hosts",
    "HttpOptions": "basic.transports.streamable_http.options",
    "Introspection": "api.token_verifiers",
    "InvalidToken": "basic.authorization.index.access_tokens",
    "JwtVerifier": "api.token_verifiers",
    "MayHaveRun": "api.retrying",
    "MemoryStore": "runtime.stores.memory",
    "MemoryTokens": "api.token_stores",
    "Nonces": "extensions.dpop",
    "OAuth": "api.authorization",
    "PasteUrl": "api.user_agents",
    "ResourceServer": "api.resource_server",
    "Result": "api.results",
    "Retry": "api.retrying",
    "SqliteStore": "runtime.stores.sqlite",
    "Task": "api.tasks",
    "TokenClient": "basic.authorization.token_requests",
    "WorkloadIdentity": "extensions.workload_identity",
    "connect": "api.connect",
    "connect_all": "api.hosts",
}
"""Exported names that a server does not need -> the module of each, imported at the first use of the name.

A host that starts a server waits until the server has imported this package; without the client's modules
that takes 8 % less time.
"""


def __dir__() -> list[str]:
    """All names of the module, with those of _LATE that are not imported yet."""
    return sorted({*globals(), *_LATE})


def __getattr__(name: str) -> typing.Any:
    """Import a name of _LATE at its first use. Raises AttributeError for any other name."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # start-up time

    found = globals()[name] = getattr(importlib.import_module(f"mcp_ref.{_LATE[name]}"), name)
    return found
