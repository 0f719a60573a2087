"""What a client offers, feature by feature (pages: server/tools, server/resources, server/prompts and
their utilities).

Each method here is one line of its page's client half; they share what `Client.request` takes:

    timeout       the silence to put up with, in seconds: progress restarts it
    on_progress   called with (progress, total, message), on the thread that waits
    rounds        how often the client answers by itself what the server asks before it can go on
                  (basic/patterns/mrtr); 0 gives the first question to the caller

Revisions   all.
Threads     the caller's; see api/client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mcp_ref.api.requests import Asking
from mcp_ref.api.results import Result
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.progress import OnProgress
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.basic.utilities import ping
from mcp_ref.client import roots as roots_page
from mcp_ref.client.elicitation import url_mode as url_elicitation
from mcp_ref.client.elicitation.url_mode import UrlElicitationNeeded
from mcp_ref.runtime.checks import check_object, check_seconds, check_text
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.server import prompts, resources, tools
from mcp_ref.server.utilities import completion, pagination
from mcp_ref.server.utilities import logging as log_page

__all__ = ["Features"]


class Features(Asking):
    """The features of a server, for `Client`."""

    def ping(self, timeout: float | None = None) -> None:
        """Return if the server is there. In 2026-07-28, which has no ping, server/discover tells."""
        if self.revision.modern:
            # Not by way of `request`: what the cache has says nothing of the server.
            self.alive().request("server/discover", self.with_meta({}), timeout=timeout)
        else:
            ping.ping(self.connection, timeout)

    def pages(self, method: str, params: Json | None = None) -> Iterator[Result]:
        """The pages of a list, one after another: `client.pages("tools/list")`."""
        return pagination.pages(self, method, params)

    def list_tools(self) -> list[Any]:
        """All tools of the server, from all pages (server/tools)."""
        return tools.list_tools(self)

    def call_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        meta: Json | None = None,
    ) -> Result:
        """Call a tool and wait (server/tools). A tool that failed is a result with `is_error`."""
        check_text(name=name)
        check_object(arguments=arguments, meta=meta)
        options: Json = {"timeout": timeout, "on_progress": on_progress, "rounds": rounds}
        result: Result = tools.call_tool(self, name, arguments, meta=meta, **options)
        return result

    def list_resources(self) -> list[Any]:
        """All resources of the server, from all pages (server/resources)."""
        return resources.list_resources(self)

    def list_resource_templates(self) -> list[Any]:
        """All templates for URIs of resources, from all pages (server/resources)."""
        return resources.list_templates(self)

    def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        meta: Json | None = None,
    ) -> Result:
        """Read a resource (server/resources): see `result.text`, `result.blobs` and `result["contents"]`."""
        check_text(uri=uri)
        check_object(meta=meta)
        options: Json = {"timeout": timeout, "on_progress": on_progress, "rounds": rounds}
        result: Result = resources.read_resource(self, uri, meta=meta, **options)
        return result

    def list_prompts(self) -> list[Any]:
        """All prompts of the server, from all pages (server/prompts)."""
        return prompts.list_prompts(self)

    def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        rounds: int | None = None,
        meta: Json | None = None,
    ) -> Result:
        """A prompt, filled in (server/prompts): see `result["messages"]`."""
        check_text(name=name)
        check_object(arguments=arguments, meta=meta)
        options: Json = {"timeout": timeout, "on_progress": on_progress, "rounds": rounds}
        result: Result = prompts.get_prompt(self, name, arguments, meta=meta, **options)
        return result

    def complete(
        self,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str,
        value: str = "",
        arguments: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """What an argument of a prompt, or a variable of a template, could be: `result["completion"]`.

        `arguments` are those that are chosen already (server/utilities/completion).
        """
        result: Result = completion.complete(
            self,
            prompt=prompt,
            resource=resource,
            argument=argument,
            value=value,
            arguments=arguments,
            timeout=timeout,
        )
        return result

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool | Iterable[str] = False,
        resource_list: bool = False,
    ) -> Changes:
        """Hear of changes (basic/patterns/subscriptions/client): of lists, and of the resources with
        these URIs.

        `resources=True` is the list of resources; with URIs, `resource_list=True` adds it.
        """
        if isinstance(resources, str):
            raise TypeError("resources is True, or a list of URIs, not one string")
        wanted = {"tools": tools, "prompts": prompts, "resources": resource_list or resources is True}
        uris = [] if isinstance(resources, bool) else list(resources)
        check_text(**{f"resources[{number}]": uri for number, uri in enumerate(uris)})
        return Changes(self, [kind for kind, given in wanted.items() if given], uris).open()

    def visit(self, problem: UrlElicitationNeeded, timeout: float = FOR_PEOPLE) -> bool:
        """Have the person go where an error -32042 of 2025-11-25 wants them; then the request may be
        sent again. False if they would not, or the server did not say in time that they are done.
        """
        return url_elicitation.visit(self, problem, check_seconds("timeout", timeout))

    def set_roots(self, roots: Any) -> None:
        """Other directories than before; the server is told, where the revision has that (client/roots)."""
        if self.callbacks.roots is None:
            raise ValueError("this client was connected without roots, and so declared none")
        self.callbacks.roots = roots if callable(roots) else roots_page.as_roots(roots)
        roots_page.notify_changed(self)

    def set_log_level(self, level: log_page.LoggingLevel) -> None:
        """From now on, have log messages of this level and above sent to `on_log`."""
        log_page.set_level(self, level)
