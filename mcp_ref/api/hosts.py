"""Several servers at once (page: architecture/index, "Hosts"): a host and its clients, one for each server.

    with connect_all("mcp.json") as host:
        host.list_tools()                                    # of all servers, as "server.tool"
        host.call_tool("files.read", {"path": "notes.txt"})  # by the server "files"
        host.problems                                        # name -> why the server is not there
        host["files"].list_resources()                       # the client of that server alone

A configuration has the form that other hosts use, as a dict or as a JSON file:

    {"mcpServers": {"files": {"command": "npx", "args": [...]}, "web": {"url": ...}}}

or is a dict of servers by name. Each server is anything that `connect` takes (api/targets); an entry with
`"disabled": true` is left out. Relative paths are relative to the current folder of this process.

The servers are started side by side, and one that does not start does not prevent the others. No server
learns of another: each has a client of its own, and only the host knows them all.

Errors      TypeError, ValueError, OSError for a configuration that cannot be read. A server that cannot be
            connected to, or that fails when it is asked for a list, is in `problems`, and in the log. A call
            to a server that is not connected raises LocalError with the reason; everything else is as in
            api/client.
Threads     any number may use a host. Threads named `mcp_ref host`, up to AT_ONCE for each operation, start
            servers, ask them for lists and close them; each ends when no job is left.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, Unpack, overload

from mcp_ref.api.client import CallOptions, Client
from mcp_ref.api.connect import begun, check_keywords, connect
from mcp_ref.api.options import ClientOptions
from mcp_ref.api.results import Result
from mcp_ref.api.targets import CONFIGURATIONS, URL_KEYS, PlacedEntry, is_url, place_of
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.checks import check_callable, check_names, check_seconds, check_text, keywords_of
from mcp_ref.runtime.errors import LocalError, McpError
from mcp_ref.runtime.json_text import NotJson, from_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.suggestions import call_for_url, local_url
from mcp_ref.runtime.untrusted_text import plain
from mcp_ref.server.prompts import Prompt
from mcp_ref.server.resources import Resource
from mcp_ref.server.tools import Tool

__all__ = ["Host", "connect_all", "servers_of"]

_log = logger("mcp_ref.host")

T = TypeVar("T")
Each = Callable[[str], Mapping[str, Any]]

AT_ONCE = 16
"""How many servers are started, asked or closed at the same time."""


def connect_all(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    each: Each | None = None,
    separator: str = ".",
    timeout: float = 30.0,
    options: ClientOptions | None = None,
    **common: Any,
) -> Host:
    """Connect to all servers of a configuration: a JSON file, or a dict with the same contents.

    `separator` stands between the names of server and tool; some models accept no dot in the name of a tool:
    use "__" for them. `timeout`, `options` and any other keyword of `connect` apply to each server, and
    `each(name)` returns further keywords for the server of that name, such as `auth`. `headers` and `auth`
    cannot be given for all servers, since they may be secret. In a callback, `question.server` is the name of
    the server in the configuration, not the name that the server gives itself.
    """
    servers = servers_of(config)
    _check(servers, separator, common)
    check_callable(each=each)
    check_seconds("timeout", timeout)
    if not isinstance(options, ClientOptions | None):
        raise TypeError(f"options is a ClientOptions, not {options!r:.60}")
    common |= {"timeout": timeout, "options": options or ClientOptions()}
    openers = {name: partial(_open, name, target, common, each) for name, target in servers.items()}
    return Host(openers, separator)


def servers_of(config: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """The servers of a configuration, by name. Raises TypeError, ValueError, OSError."""
    place = "the configuration"
    if isinstance(config, str | os.PathLike):
        place, config = os.fspath(config), _from_file(config)
    if not isinstance(config, Mapping):
        raise TypeError(f"{place} is a dict of servers by name, or a JSON file of one, not {config!r:.60}")
    key = next((key for key in CONFIGURATIONS if key in config), None)
    servers = config if key is None else config[key]
    _check_names(servers, place, key)
    return {
        name: _placed(name, target, place) for name, target in servers.items() if not _is_disabled(target)
    }


def _placed(name: str, target: Any, place: str) -> Any:
    """The entry as a PlacedEntry, whose place errors name; one that was read from a file keeps its place."""
    if not isinstance(target, Mapping) or isinstance(target, PlacedEntry):
        return target
    return PlacedEntry(target, f"{name} in {place}")


def _check_names(servers: Any, place: str, key: str | None) -> None:
    """Check that the configuration is a dict of servers by name. Raises TypeError."""
    if not isinstance(servers, Mapping) or not all(isinstance(name, str) for name in servers):
        raise TypeError(f"{place}: {key or 'it'} is a dict of servers by name, not {servers!r:.60}")
    if any(isinstance(servers.get(key), str) for key in ("command", *URL_KEYS)):
        raise TypeError(f"{place} is one server, and not several by name; write connect(...) for that")


def _from_file(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file. Raises TypeError, ValueError, OSError."""
    _check_path(os.fspath(path))
    try:
        return from_json(Path(path).expanduser().read_bytes().removeprefix(codecs.BOM_UTF8))
    except NotJson as problem:
        raise ValueError(f"{os.fspath(path)}: {problem}") from None


def _check_path(path: Any) -> None:
    """Check that this may be the path of a JSON file, and not a URL, a script or JSON. Raises TypeError."""
    text = path.strip() if isinstance(path, str) else ""
    if is_url(text) or local_url(text) is not None or text.endswith(".py"):
        right = call_for_url(text) if is_url(text) else f"connect({text!r:.80})"  # without a password
        raise TypeError(f"this is one server, and no JSON file of several; write {right or 'connect(...)'}")
    if not text or text.startswith("{"):
        advice = "; write connect_all(json.loads(...))" if text else ""
        raise TypeError(f"the configuration is a dict, or the path of a JSON file, not {path!r:.60}{advice}")


def _is_disabled(target: Any) -> bool:
    return isinstance(target, Mapping) and target.get("disabled") is True


def _check(servers: Mapping[str, Any], separator: str, common: Mapping[str, Any]) -> None:
    """Check the names of servers and the keywords for all of them. Raises TypeError, ValueError."""
    check_text(separator=separator)
    if not separator or "" in servers:
        raise ValueError("separator and the names of servers have one character at least")
    for one, other in permutations(servers, 2):
        if other.startswith(one + separator):
            raise ValueError(
                f"the tools of {one!r} and {other!r} could not be told apart: rename one of them"
            )
    check_keywords("connect_all", common, "each", "separator")
    for given in ("headers", "auth"):
        if common.get(given) is not None:
            raise TypeError(f"{given} would go to every server: it belongs to an entry, or into each(name)")


def _open(name: str, target: Any, common: Mapping[str, Any], each: Each | None) -> Client:
    """Connect to one server, with the keywords for all and its own from `each`."""
    given = {**common, **(_own(name, each) if each is not None else {})}
    target, headers, options = place_of(target, given.pop("headers", None), given.pop("options"))
    if isinstance(target, list | tuple) and options.on_stderr is None:
        options = replace(options, on_stderr=partial(_print, name))
    for asks in ("elicitation", "sampling"):
        if callable(given.get(asks)):
            given[asks] = partial(_ask, name, given[asks])
    return connect(target, headers=headers, options=options, **given)


def _own(name: str, each: Each) -> Mapping[str, Any]:
    """The keywords that `each` returns for one server. Raises TypeError."""
    own, place = each(name), f"each({name!r})"
    if not isinstance(own, Mapping):
        raise TypeError(f"{place} returned {own!r:.60}, and not a dict of keywords of connect")
    check_keywords(f"connect, by {place},", own)
    return own


def _print(name: str, line: str) -> None:
    """Print a line of one server's stderr, after the server's name."""
    if sys.stderr is not None:
        print(f"{name}: {line}", file=sys.stderr, flush=True)


def _ask(name: str, callback: Callable[[Any], Any], question: Any) -> Any:
    """Call the application's callback with a question, which names the server as the configuration does."""
    question.server = name
    return callback(question)


class _Starting:
    """The clients that are being connected, so that an interrupted `connect_all` can close them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: list[Client] = []  # guarded by _lock
        self._is_over = False  # guarded by _lock

    def connect(self, opener: Callable[[], Client]) -> Client:
        """Connect to one server. Runs on a `mcp_ref host` thread, whose `begun` it sets."""
        begun.set(self._add)
        return opener()

    def _add(self, client: Client) -> None:
        with self._lock:
            if self._is_over:
                raise LocalError("interrupted")
            self._clients.append(client)

    def close(self) -> None:
        """Close all clients, side by side. One that begins later is refused by `_add`, and so closed."""
        with self._lock:
            self._is_over = True
        side_by_side({str(number): client.close for number, client in enumerate(self._clients)})


class Host(contextlib.AbstractContextManager["Host"]):
    """The clients of several servers, by name. `connect_all` makes it."""

    def __init__(self, openers: Mapping[str, Callable[[], Client]], separator: str) -> None:
        self.separator = separator
        self.clients: dict[str, Client] = {}
        """The connected clients, by the names of their servers."""
        self.problems: dict[str, Exception] = {}
        """Server name -> why it is not connected, or is missing from the list that was fetched last."""
        self._openers = openers
        self._homes: dict[str, list[str]] = {}
        """URI of a resource -> the servers that listed it."""
        self._reconnecting = threading.Lock()
        starting = _Starting()
        jobs = {name: partial(starting.connect, opener) for name, opener in openers.items()}
        try:
            found: dict[str, Client | Exception] = side_by_side(jobs, undo=Client.close)
        except BaseException:
            starting.close()  # at once: left alone, each would wait for its server until its time-out
            raise
        self._take(found)

    def __repr__(self) -> str:
        missing = f"; problems: {', '.join(self.problems)}" if self.problems else ""
        return f"<Host: {', '.join(self.clients) or 'no servers'}{missing}>"

    def _take(self, found: Mapping[str, Client | Exception]) -> None:
        for name, client in found.items():
            if isinstance(client, Exception):
                self._note(name, client)
            else:
                self.clients[name] = client
                self.problems.pop(name, None)

    def _note(self, name: str, problem: Exception) -> None:
        self.problems[name] = problem
        _log.warning("%s: %s", name, plain(str(problem)))

    # -- the servers -------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Client:
        """The client of a server. Raises LocalError for one that is not connected."""
        if name in self.clients:
            return self.clients[name]
        if name in self._openers:
            raise LocalError(f"the server {name!r} is not connected: {self.problems.get(name, 'closed')}")
        raise LocalError(f"there is no server {name!r:.80}; there are {', '.join(self._openers) or 'none'}")

    def reconnect(self, name: str) -> Client:
        """Close a server's client and connect again, such as after a crash. Raises what `connect` raises."""
        if name not in self._openers:
            return self[name]
        with self._reconnecting:
            if name in self.clients:
                self.clients.pop(name).close()
            try:
                self._take({name: self._openers[name]()})
            except Exception as problem:
                self._note(name, problem)
                raise
            return self.clients[name]

    def find(self, name: str) -> tuple[Client, str]:
        """The client, and the tool's or prompt's own name, for a name "server.tool". Raises LocalError."""
        check_text(name=name)
        for server in self._openers:
            if name.startswith(server + self.separator):
                return self[server], name.removeprefix(server + self.separator)
        raise LocalError(
            f"{name!r:.80} begins with the name of no server and {self.separator!r}; there are "
            f"{', '.join(self._openers) or 'none'}"
        )

    # -- what they have ----------------------------------------------------------------------------

    def list_tools(self) -> list[Tool]:
        """The tools of all servers, each as "server.tool"."""
        return self._renamed(self._lists("tools", Client.list_tools))

    @overload
    def call_tool(
        self, name: str, arguments: Json | None = ..., *, returns: None = ..., **more: Unpack[CallOptions]
    ) -> Result: ...
    @overload
    def call_tool(
        self, name: str, arguments: Json | None = ..., *, returns: type[T], **more: Unpack[CallOptions]
    ) -> T: ...
    @overload
    def call_tool(
        self, name: str, arguments: Json | None = ..., *, returns: Any, **more: Unpack[CallOptions]
    ) -> Any: ...
    def call_tool(self, name: str, arguments: Json | None = None, **more: Any) -> Any:
        """Call "server.tool". The other keywords are those of `Client.call_tool`."""
        check_names("Host.call_tool", more, keywords_of(Client.call_tool))
        client, tool = self.find(name)
        return client.call_tool(tool, arguments, **more)

    def list_prompts(self) -> list[Prompt]:
        """The prompts of all servers, each as "server.prompt"."""
        return self._renamed(self._lists("prompts", Client.list_prompts))

    def get_prompt(self, name: str, arguments: dict[str, str] | None = None, **more: Any) -> Result:
        """Get "server.prompt". The other keywords are those of `Client.get_prompt`."""
        check_names("Host.get_prompt", more, keywords_of(Client.get_prompt))
        client, prompt = self.find(name)
        return client.get_prompt(prompt, arguments, **more)

    def list_resources(self) -> list[Resource]:
        """The resources of all servers. Their names become "server.name"; their URIs do not change."""
        found = self._lists("resources", Client.list_resources)
        homes: dict[str, list[str]] = {}
        for server, resources in found.items():
            for resource in resources:
                homes.setdefault(resource["uri"], []).append(server)
        self._homes = homes
        return self._renamed(found)

    def read_resource(self, uri: str, *, server: str | None = None, **more: Any) -> Result:
        """Read a resource from the server that listed it, or from `server`.

        The other keywords are those of `Client.read_resource`. Raises LocalError if no server, or more than
        one, has the URI in its list.
        """
        check_text(uri=uri)
        check_names("Host.read_resource", more, keywords_of(Client.read_resource, "server"))
        if server is None:
            server = self._home_of(uri)
        return self[server].read_resource(uri, **more)

    def _home_of(self, uri: str) -> str:
        if uri not in self._homes:
            self.list_resources()
        homes = self._homes.get(uri, [])
        if len(homes) != 1:
            who = f"{' and '.join(homes)} have" if homes else "no server has"
            raise LocalError(f"{who} {uri[:200]!r} in a list: say which one is to be asked, server=...")
        return homes[0]

    def _renamed(self, found: Mapping[str, list[Any]]) -> list[Any]:
        """One list of all items, in which the name of each begins with that of its server."""
        return [
            {**item, "name": f"{server}{self.separator}{item['name']}"}
            for server, items in found.items()
            for item in items
        ]

    def _lists(self, feature: str, fetch: Callable[[Client], list[Any]]) -> dict[str, list[Any]]:
        """The list of each server that declares a feature. A server that fails is in `problems` instead."""
        asked = {name: c for name, c in self.clients.items() if feature in (c.server_capabilities or {})}
        found: dict[str, list[Any]] = {}
        for name, items in side_by_side({name: partial(fetch, c) for name, c in asked.items()}).items():
            if not isinstance(items, Exception):
                found[name] = items
                self.problems.pop(name, None)
            elif isinstance(items, McpError | OSError):
                self._note(name, items)
            else:
                raise items
        return found

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all clients, side by side. May be called any number of times."""
        closing = dict(self.clients)
        side_by_side({name: client.close for name, client in closing.items()})
        for name in closing:
            self.clients.pop(name, None)

    def __exit__(self, *exception: object) -> None:
        self.close()


def side_by_side(
    jobs: Mapping[str, Callable[[], T]], undo: Callable[[T], object] | None = None
) -> dict[str, T | Exception]:
    """Run jobs on threads, AT_ONCE at a time. Return what each returned or raised, in the order of the jobs.

    There is no time limit here: each job has to have its own. If this thread is interrupted while it waits,
    no further job is begun, and `undo` is called with what each job has returned, or returns later.
    """
    todo = iter(jobs.items())
    done: SimpleQueue[tuple[str, T | Exception]] = SimpleQueue()
    returned: list[T | Exception] = []
    lock, is_left = threading.Lock(), False

    def work() -> None:
        while True:
            with lock:
                item = None if is_left else next(todo, None)
            if item is None:
                return
            found = _outcome(item[1])
            with lock:
                if not is_left:
                    returned.append(found)
                    done.put((item[0], found))
                    continue
            take_back(found)

    def take_back(found: T | Exception) -> None:
        if undo is not None and not isinstance(found, Exception):
            undo(found)

    results: dict[str, T | Exception] = {}
    try:
        for _ in range(min(len(jobs), AT_ONCE)):
            threading.Thread(target=work, name="mcp_ref host", daemon=True).start()
        while len(results) < len(jobs):
            name, found = done.get()
            results[name] = found
        return {name: results[name] for name in jobs}
    except BaseException:
        with lock:
            is_left = True
        for found in returned:  # not `results`: the interrupt may have come between `get` and there
            take_back(found)
        raise


def _outcome(job: Callable[[], T]) -> T | Exception:
    """What a job returns or raises."""
    try:
        return job()
    except Exception as problem:
        return problem
    except BaseException as problem:  # such as SystemExit: it must not end a thread that others wait for
        return LocalError(f"{type(problem).__name__}: {problem}")
