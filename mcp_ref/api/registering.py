"""How an author registers tools, resources and prompts, handlers and hooks (page: server/index).

    @server.tool                               def add(a: int, b: int) -> int: ...
    @server.resource("config://app")           def config() -> str: ...
    @server.resource("file:///{+path}")        def read(path: str) -> bytes: ...
    @server.prompt                             def review(code: str) -> str: ...

Each function becomes an item of a list (server/utilities/pagination). Clients are told when a list changes.

Revisions   all; fields that a revision does not have are left out for its clients.
Threads     any thread may register, at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from mcp_ref.api.from_function.prompt import prompt_from
from mcp_ref.api.from_function.resource import resource_from
from mcp_ref.api.from_function.tool import tool_from
from mcp_ref.api.options import ServerOptions
from mcp_ref.api.tool_handles import ToolHandle, register
from mcp_ref.basic.index.general_fields import Icon
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.utilities.tasks.behavior_requirements import Receiver, TaskOptions
from mcp_ref.basic.utilities.tasks.protocol_messages import TaskSupport
from mcp_ref.basic.versioning import Method, methods, revision
from mcp_ref.runtime.checks import check_callable, check_names, check_text, keywords_of
from mcp_ref.runtime.hooks import Hook, handler_of
from mcp_ref.runtime.uri.uris import BadUri, check_uri
from mcp_ref.schema import REVISIONS, pruner
from mcp_ref.server.content import Annotations
from mcp_ref.server.prompts import Prompt, RegisteredPrompt
from mcp_ref.server.resources import (
    RegisteredResource,
    RegisteredTemplate,
    Resource,
    ResourceNotFound,
    ResourceSource,
    ResourceTemplate,
    find,
)
from mcp_ref.server.tools import RegisteredTool, ToolAnnotations, listed
from mcp_ref.server.utilities.caching import CacheScope
from mcp_ref.server.utilities.pagination import PagedList

if TYPE_CHECKING:
    from mcp_ref.api.mounting import Mount

__all__ = ["Handlers", "Registry"]

F = TypeVar("F", bound=Callable[..., Any])


class ResourceOptions(TypedDict, total=False):
    """The options of a resource or a template, besides its URI and its function."""

    name: str
    title: str
    description: str
    mime_type: str
    size: int
    annotations: Annotations
    icons: list[Icon]
    meta: Json
    ttl_ms: int
    cache_scope: CacheScope
    allow_traversal: bool
    complete: Mapping[str, Any]
    scopes: Sequence[str]
    replace: bool


class Handlers:
    """The handler of each method, by revision; and what an author adds around them: hooks, handlers of
    notifications, mounts.
    """

    def __init__(self, rows: tuple[Method, ...], offers: Iterable[str]) -> None:
        self.tables = {date: methods(rows, date) for date in REVISIONS}
        self.offered: set[str | None] = {None, *offers}
        """Capabilities that something was registered for, or will be (`ServerOptions.offers`).

        None is among them for the methods that belong to no capability.
        """
        self.own_methods: set[str] = set()
        """Methods that the author's own functions answer (`on_request`)."""
        self.by_notification: dict[str, Callable[..., Any]] = {}
        self.hooks: tuple[Hook[Any], ...] = ()
        self.mounts: tuple[Mount, ...] = ()
        self.may_hide = False
        """Whether a client may see less than the lists have; then errors do not name what there is.

        True with a hook, with a handler of the author's for a method of the specification, and where
        tools/list has only the tools that a token allows (api/resource_server).
        """
        self.scoped: str | None = None
        """Something that needs scopes, if there is any: no application may be made without `auth`."""
        self.is_unprotected = False
        """Whether an application was made without `auth`: nothing may be added that needs scopes."""

    def note_scopes(self, name: str, scopes: tuple[str, ...]) -> None:
        """Note the scopes of a feature that is about to be added.

        Raises ValueError if it needs some, and an application without `auth` would serve it to everyone.
        """
        if scopes and self.is_unprotected:
            raise ValueError(
                f"{name} needs scopes, which no request has without auth=; this server has an application "
                "without it already"
            )
        if scopes and self.scoped is None:
            self.scoped = name


class Registry:
    """The part of `Server` that registers: its lists, and the handlers and hooks of its author."""

    def __init__(
        self,
        page_size: int,
        changed: Callable[[str], None],
        rows: tuple[Method, ...],
        options: ServerOptions,
        tasks: TaskOptions,
    ) -> None:
        """`changed("tools")` is called after each change of that list; `rows` has the methods there are."""

        def new_list(
            method: str, member: str, key: str, listed: Callable[[Any, str], Json]
        ) -> PagedList[Any]:
            kind = method.partition("/")[0]
            return PagedList(
                method,
                member,
                lambda item: item.definition[key],
                lambda item, date: listed(item.definition, date),
                page_size,
                lambda: changed(kind),
            )

        self.tools: PagedList[RegisteredTool] = new_list("tools/list", "tools", "name", listed)
        self.resources: PagedList[RegisteredResource] = new_list(
            "resources/list", "resources", "uri", partial(_listed, Resource)
        )
        self.templates: PagedList[RegisteredTemplate] = new_list(
            "resources/templates/list", "resourceTemplates", "uriTemplate", partial(_listed, ResourceTemplate)
        )
        self.prompts: PagedList[RegisteredPrompt] = new_list(
            "prompts/list", "prompts", "name", partial(_listed, Prompt)
        )
        self.options, self.tasks = options, Receiver(tasks)
        self.directories: tuple[ResourceSource, ...] = ()
        self.handlers = Handlers(rows, options.offers)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        annotations: ToolAnnotations | None = None,
        meta: Json | None = None,
        input_schema: Json | None = None,
        output_schema: Json | bool | None = None,
        task: TaskSupport = "forbidden",
        immediate_response: str | None = None,
        scopes: Sequence[str] = (),
        replace: bool = False,
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Decorator: the function becomes a tool (api/from_function/tool) and stays a function."""
        check_callable(tool=function)
        check_names("Server.tool", options, keywords_of(tool_from, "replace"))
        return _decorator(partial(self.add_tool, **options), function)

    def add_tool(self, function: Callable[..., Any], *, replace: bool = False, **options: Any) -> ToolHandle:
        """Add a tool, also while clients are connected: they are told that the list changed.

        The ToolHandle that is returned can change it later (api/tool_handles).
        """
        check_names("Server.add_tool", options, keywords_of(tool_from, "replace"))
        made = tool_from(function, **options)
        register(self, made, replace=replace)
        return ToolHandle(self, made.definition["name"])

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises KeyError for an unknown name."""
        self.tools.remove(name)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Decorator: the function returns the contents of a resource (api/from_function/resource).

        A URI with `{variables}` makes it a template; the variables are the parameters of the function.
        """
        check_text(uri=uri)
        check_names("Server.resource", options, keywords_of(resource_from, "replace"))
        add: Callable[..., None] = partial(self.add_resource, uri=uri, **options)
        decorate: Callable[[F], F] = _decorator(add, None)
        return decorate

    def add_resource(
        self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
    ) -> None:
        """Add a resource or a template; clients are told that the list changed."""
        check_names("Server.add_resource", options, keywords_of(resource_from, "replace"))
        given: Json = {**options}
        replace = given.pop("replace", False)
        made = resource_from(function, uri, **given)
        self.handlers.note_scopes(f"the resource {uri}", made.scopes)
        if isinstance(made, RegisteredTemplate):
            self.templates.add(made, replace=replace)
        else:
            self.resources.add(made, replace=replace)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template, by its URI. Raises KeyError for an unknown one."""
        check_text(uri=uri)
        (self.templates if "{" in uri else self.resources).remove(uri)

    def add_directory(self, path: str | PathLike[str], **options: Any) -> ResourceSource:
        """Offer the files of a directory as resources (extras/directories), as long as it exists."""
        # Imported here for start-up time: most servers have no directory, and the module is large.
        from mcp_ref.extras.directories import Directory

        check_names("Server.add_directory", options, keywords_of(Directory.__init__))
        directory = Directory(path, **options)
        if any(other.prefix == directory.prefix for other in self.directories):
            raise ValueError(f"there is a directory at {directory.prefix} already")
        self.directories = (*self.directories, directory)
        self.resources.used = True
        return directory

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        meta: Json | None = None,
        complete: Mapping[str, Any] | None = None,
        scopes: Sequence[str] = (),
        replace: bool = False,
    ) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Decorator: the function becomes a prompt (api/from_function/prompt) and stays a function."""
        check_callable(prompt=function)
        check_names("Server.prompt", options, keywords_of(prompt_from, "replace"))
        return _decorator(partial(self.add_prompt, **options), function)

    def add_prompt(self, function: Callable[..., Any], *, replace: bool = False, **options: Any) -> None:
        """Add a prompt; clients are told that the list changed."""
        check_names("Server.add_prompt", options, keywords_of(prompt_from, "replace"))
        made = prompt_from(function, **options)
        self.handlers.note_scopes(f"the prompt {made.definition['name']}", made.scopes)
        self.prompts.add(made, replace=replace)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Raises KeyError for an unknown name."""
        self.prompts.remove(name)

    def on_request(
        self, method: str, *, since: str = REVISIONS[0], until: str = REVISIONS[-1]
    ) -> Callable[[F], F]:
        """Decorator: `fn(params)` or `fn(params, ctx)` answers a method of your own, with a dict.

        A method of the specification keeps what its page says of its results: those of tools/call,
        prompts/get and resources/read may ask the client, and those that may be cached get their hints.
        """
        check_text(method=method)
        for date in (since, until):
            revision(date)  # an unknown one is an error

        def decorate(function: F) -> F:
            call = handler_of(function)
            self.handlers.own_methods.add(method)
            row = Method(method, lambda server, params, context: call(params, context), since, until)
            for date, table in self.handlers.tables.items():
                if row.holds(date):
                    known = table.get(method, row)
                    self.handlers.may_hide = self.handlers.may_hide or known is not row
                    if known.capability is not None:
                        self.handlers.offered.add(known.capability)
                    table[method] = replace(row, asks=known.asks, cacheable=known.cacheable)
            return function

        return decorate

    def on_notification(self, method: str) -> Callable[[F], F]:
        """Decorator: `fn(params)` is called with each notification of this method that a client sends."""
        check_text(method=method)

        def decorate(function: F) -> F:
            check_callable(function=function)
            self.handlers.by_notification[method] = function
            return function

        return decorate

    def around(self, hook: Hook[Any]) -> Hook[Any]:
        """Decorator: `fn(ctx, params, proceed)` wraps every request; the first added is outermost.

        It returns `proceed(params)`, or a result of its own, or raises a ProtocolError. Hooks do not see
        `ping` and `initialize`: these belong to the connection.
        """
        check_callable(hook=hook)
        self.handlers.hooks = (*self.handlers.hooks, hook)
        self.handlers.may_hide = True
        return hook

    # -- what there is -----------------------------------------------------------------------------

    def offers(self, capability: str) -> bool:
        """Whether the server has a capability: something was registered for it, or will be."""
        if capability == "completions" and capability not in self.handlers.offered:
            completable: list[Any] = [*self.prompts.values(), *self.templates.values()]
            return any(item.complete for item in completable)
        used = {
            "tools": self.tools.used,
            "resources": self.resources.used or self.templates.used,
            "prompts": self.prompts.used,
            "logging": self.options.logging,
            "tasks": self.tasks.is_offered,
        }
        if used.get(capability):
            self.handlers.offered.add(capability)  # for good: a list that is empty again is still offered
        return capability in self.handlers.offered

    def known(self, names: Iterable[str]) -> str:
        """The end of an error about an unknown name: the names there are; "" if some may be hidden."""
        if self.handlers.may_hide:
            return ""
        return f"; known: {', '.join(islice(names, MAX_NAMES_KNOWN)) or 'none'}"

    def has_resource(self, uri: str) -> bool:
        """Whether this URI can be read: as a resource, or by a template."""
        try:
            find(self, check_uri(uri))
        except (BadUri, ResourceNotFound):
            return False
        return True


MAX_NAMES_KNOWN = 20
"""How many names the error about an unknown one lists at most."""


def _decorator(add: Callable[..., object], function: Callable[..., Any] | None) -> Any:
    """Serve both forms: `@server.tool`, where `function` is given, and `@server.tool(name="x")`, where it is
    None. The function is returned unchanged.
    """

    def decorate(function: F) -> F:
        add(function)
        return function

    return decorate if function is None else decorate(function)


def _listed(shape: Any, definition: Any, date: str) -> Json:
    """A definition as the list of a revision has it: without the fields that the revision does not have."""
    listed = pruner(shape, date)(definition)
    if listed.get("annotations") == {}:  # all its members came with later revisions
        listed = {name: value for name, value in listed.items() if name != "annotations"}
    return listed
