"""The Model Context Protocol in Python, to be read beside its specification.

    from mcp_ref import Server, Context, connect

The tree of this package is the tree of the specification: the page server/tools is the module
mcp_ref/server/tools.py, with both sides of the wire in it; a long page is a package of its headings.
`server` and `client` are the sections *Server Features* and *Client Features*, not roles: both peers'
halves of a page live together. What authors and callers use is in `api`, what no page describes in
`runtime`, the command line in `cli`, and what is built with the package in `extras`.

`mcp_ref.basic.versioning` is a good place to start reading, and docs/architecture.rst a map.
"""

import typing

from mcp_ref.api.client import Client
from mcp_ref.api.connect import connect
from mcp_ref.api.context import Context
from mcp_ref.api.options import ClientOptions, ServerOptions
from mcp_ref.api.results import Result
from mcp_ref.api.server import Server
from mcp_ref.basic.index.error_responses import (
    ErrorResponse,
    HttpError,
    HttpFailure,
    ProtocolError,
    RefusedByStatus,
)
from mcp_ref.basic.patterns.mrtr.basic_workflow import InputRefused
from mcp_ref.basic.patterns.subscriptions.server import Change
from mcp_ref.client.elicitation.requests import Answer, Elicit
from mcp_ref.client.elicitation.url_mode import ElicitUrl, UrlElicitationNeeded, UrlElicitationRequired
from mcp_ref.client.roots import ListRoots
from mcp_ref.client.sampling.creating_messages import Sample, SamplingRefused
from mcp_ref.runtime.errors import (
    ConnectionClosed,
    InvalidResponse,
    LocalError,
    McpError,
    RequestCancelled,
    RequestTimeout,
)
from mcp_ref.runtime.limits import Limit
from mcp_ref.runtime.typing.bounds import Bounds
from mcp_ref.server.resources import ResourceNotFound
from mcp_ref.server.tools import CallRefused
from mcp_ref.server.utilities.caching import Cache, Caching

if typing.TYPE_CHECKING:
    from mcp_ref.basic.transports.streamable_http.options import HttpOptions
    from mcp_ref.basic.transports.streamable_http.security import Denied

__all__ = [
    "Answer",
    "Bounds",
    "Cache",
    "Caching",
    "CallRefused",
    "Change",
    "Client",
    "ClientOptions",
    "ConnectionClosed",
    "Context",
    "Denied",
    "Elicit",
    "ElicitUrl",
    "ErrorResponse",
    "HttpError",
    "HttpFailure",
    "HttpOptions",
    "InputRefused",
    "InvalidResponse",
    "Limit",
    "ListRoots",
    "LocalError",
    "McpError",
    "ProtocolError",
    "RefusedByStatus",
    "RequestCancelled",
    "RequestTimeout",
    "ResourceNotFound",
    "Result",
    "Sample",
    "SamplingRefused",
    "Server",
    "ServerOptions",
    "UrlElicitationNeeded",
    "UrlElicitationRequired",
    "connect",
]
__version__ = "0.1.0"

_LATE = {"Denied": "security", "HttpOptions": "options"}
"""What servers over HTTP alone have a use for, and the module that has it: loaded when it is asked for, since
that takes 3 ms, which is much for a server that a client starts.
"""


def __getattr__(name: str) -> typing.Any:
    """A name of _LATE. Raises AttributeError for any other."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # start-up time

    return getattr(importlib.import_module(f"mcp_ref.basic.transports.streamable_http.{_LATE[name]}"), name)
