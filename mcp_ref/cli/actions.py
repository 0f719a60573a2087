"""What each command of `mcp-ref` does. Each gets the parsed options and returns the exit code."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mcp_ref.api.client import Client
from mcp_ref.api.connect import connect
from mcp_ref.api.results import Result
from mcp_ref.api.server import Server
from mcp_ref.basic.index.error_responses import (
    ErrorResponse,
    MethodNotFound,
)
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.cli import show, terminal
from mcp_ref.client.elicitation.url_mode import UrlElicitationNeeded
from mcp_ref.runtime.errors import (
    LocalError,
    RequestTimeout,
)

__all__ = [
    "call",
    "complete",
    "discover",
    "listen",
    "ping",
    "prompt",
    "prompts",
    "read",
    "resources",
    "serve",
    "tools",
]

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def serve(options: Namespace) -> int:
    """Serve a Server that some module defines."""
    place, _, name = options.target.rpartition(":")
    if not place:
        place, name = name, "server"
    try:
        module = _module(place)
    except Exception as problem:
        raise ValueError(f"{place} cannot be served: {type(problem).__name__}: {problem}") from problem
    found = getattr(module, name, None)
    if not isinstance(found, Server):
        raise ValueError(f"{place} has no Server called {name!r}")
    if options.http is None:
        found.run()
        return 0
    host, port = options.http

    def on_ready(url: str) -> None:
        print(f"serving at {url}; Ctrl-C ends it", file=sys.stderr, flush=True)

    found.run("http", host=host, port=port, on_ready=on_ready)
    return 0


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(place)
    path = Path(place)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {place}")
    sys.path.insert(0, str(path.resolve().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def discover(options: Namespace) -> int:
    """Print what a server says of itself."""
    with _connected(options) as client:
        facts = {
            "revision": client.revision.date,
            "serverInfo": client.server_info,
            "capabilities": client.server_capabilities,
            "instructions": client.instructions,
        }
        show.as_json(facts) if options.json else show.server(facts)
    return 0


def tools(options: Namespace) -> int:
    """Print the tools of a server."""
    with _connected(options) as client:
        found = client.list_tools()
        show.as_json(found) if options.json else show.tools(found)
    return 0


def ping(options: Namespace) -> int:
    """Print how long one answer takes."""
    with _connected(options) as client:
        start = time.perf_counter()
        client.ping()
        milliseconds = (time.perf_counter() - start) * 1000
        if options.json:
            show.as_json({"milliseconds": round(milliseconds, 3)})
        else:
            print(f"answered in {milliseconds:.2f} ms")
    return 0


def resources(options: Namespace) -> int:
    """Print the resources of a server, and the templates for more."""
    with _connected(options) as client:
        found = {"resources": client.list_resources(), "resourceTemplates": _templates(client)}
        show.as_json(found) if options.json else show.resources(*found.values())
    return 0


def _templates(client: Client) -> list[Any]:
    try:
        return client.list_resource_templates()
    except ErrorResponse as problem:
        if problem.code == MethodNotFound.code:  # a server with resources only
            return []
        raise


def prompts(options: Namespace) -> int:
    """Print the prompts of a server."""
    with _connected(options) as client:
        found = client.list_prompts()
        show.as_json(found) if options.json else show.prompts(found)
    return 0


def call(options: Namespace) -> int:
    """Call a tool and print its result."""
    line = show.ProgressLine()
    with _connected(options, line) as client:
        arguments = _arguments(options, client)
        result = _done(client, line, client.call_tool, options.tool, arguments)
        show.as_json(result) if options.json else show.result(result)
    return 1 if result.is_error else 0


def read(options: Namespace) -> int:
    """Read a resource, and put its contents where they are wanted."""
    line = show.ProgressLine()
    with _connected(options, line) as client:
        result = _done(client, line, client.read_resource, options.uri)
        _put(result, options)
    return 0


def _put(result: Result, options: Namespace) -> None:
    """For people on a terminal, byte for byte anywhere else."""
    if options.output not in (None, "-"):
        try:
            Path(options.output).write_bytes(show.as_bytes(result))
        except OSError as problem:
            raise ValueError(f"--output: {problem}") from None
    elif options.json:
        show.as_json(result)
    elif sys.stdout.isatty() and options.output is None:
        show.contents(result)
    else:
        sys.stdout.buffer.write(show.as_bytes(result))


def prompt(options: Namespace) -> int:
    """Get a prompt and print its messages."""
    arguments = _pairs("an argument is", options.arguments)
    line = show.ProgressLine()
    with _connected(options, line) as client:
        result = _done(client, line, client.get_prompt, options.name, arguments)
        show.as_json(result) if options.json else show.messages(result)
    return 0


def complete(options: Namespace) -> int:
    """Print what an argument could be."""
    chosen = _pairs("--with takes", options.chosen)
    with _connected(options) as client:
        result = client.complete(
            prompt=options.prompt,
            resource=options.resource,
            argument=options.argument,
            value=options.value,
            arguments=chosen,
        )
    show.as_json(result) if options.json else show.suggestions(result)
    return 0


def listen(options: Namespace) -> int:
    """Print what changes, until it was enough."""
    wanted = {"tools": options.tools, "prompts": options.prompts, "resources": options.resources}
    if not options.uris and not any(wanted.values()):
        wanted = dict.fromkeys(wanted, True)
    lists = {"tools": wanted["tools"], "prompts": wanted["prompts"], "resource_list": wanted["resources"]}
    with _connected(options) as client, client.listen(resources=options.uris, **lists) as changes:
        if changes.refused == {*changes.kinds, *changes.uris}:
            raise LocalError("the server tells of nothing of this")
        print("mcp-ref: listening", file=sys.stderr, flush=True)
        return _tell(changes, options)


def _tell(changes: Changes, options: Namespace) -> int:
    """A line for each change, as it comes."""
    end = time.monotonic() + (options.seconds or float("inf"))
    told = 0
    while told != options.count:
        left = None if options.seconds is None else max(0.0, end - time.monotonic())
        change = changes.next(left)
        if change is not None:
            show.change(change, options.json)
            told += 1
        elif time.monotonic() < end:
            raise LocalError("the server tells of no more changes")
        elif options.count is None:
            break
        else:
            raise RequestTimeout(f"{told} of {options.count} changes within {options.seconds:g} s")
    return 0


def _connected(options: Namespace, line: show.ProgressLine | None = None) -> Client:
    """A client; one that may be asked something has a `line` to take back while it is."""
    level = getattr(options, "log_level", None)
    client = connect(
        **_place(options),
        revision=options.revision,
        timeout=options.timeout,
        name="mcp-ref",
        on_log=show.log_message if level else None,
        elicitation=line.aside(terminal.ask) if line is not None and _somebody_is_there() else None,
        roots=getattr(options, "root", None),
    )
    if level is not None:
        try:
            client.set_log_level(level)
        except BaseException:
            client.close()
            raise
    return client


def _place(options: Namespace) -> dict[str, Any]:
    """Where the server is: at a URL, or behind a command."""
    if options.server[0].lower().startswith(("http:", "https:")):
        if len(options.server) > 1:
            raise ValueError(
                f"after the URL of a server there is nothing more, not {options.server[1]!r:.80}"
            )
        if options.env:
            raise ValueError("--env is for a server that is started here, not for one at a URL")
        return {"target": options.server[0], "headers": _headers(options.header)}
    if options.header:
        raise ValueError("--header is for a server at a URL")
    on_stderr = (lambda line: None) if options.quiet else show.stderr_line
    return {"target": options.server, "env": _pairs("--env takes", options.env), "on_stderr": on_stderr}


def _headers(given: list[str]) -> dict[str, str]:
    """`NAME: VALUE`, as curl has it. Raises ValueError, which tells no text that may be a secret."""
    found: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or _HEADER.fullmatch(name) is None:
            raise ValueError("--header takes NAME: VALUE")
        if name.lower() in map(str.lower, found):
            raise ValueError(f"--header names {name} twice")
        found[name] = value.strip()
    return found


def _done(client: Client, line: show.ProgressLine, run: Callable[..., Result], *arguments: Any) -> Result:
    """A request's result. Where a page has to be visited first, the person is asked to, once."""
    with line:
        try:
            return run(*arguments, on_progress=line.on_progress)
        except UrlElicitationNeeded as problem:
            if client.callbacks.elicitation is None or not client.visit(problem):
                raise
            return run(*arguments, on_progress=line.on_progress)


def _somebody_is_there() -> bool:
    """Whether there is a terminal on which a person can be asked."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _pairs(what: str, pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, several. Raises ValueError."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"{what} NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def _arguments(options: Namespace, client: Client) -> Json:
    """The arguments of the call: a whole object, and single ones over it."""
    whole = _from_json("--arguments", options.whole) if options.whole is not None else {}
    if not isinstance(whole, dict):
        raise ValueError("--arguments takes a JSON object")
    if not options.arguments:
        return whole
    single = _pairs("an argument is", options.arguments)
    properties = _properties(client, options.tool)
    return {**whole, **{name: _value(name, text, properties.get(name)) for name, text in single.items()}}


def _properties(client: Client, name: str) -> Json:
    for tool in client.list_tools():
        if tool["name"] == name:
            found = tool["inputSchema"].get("properties")
            return found if isinstance(found, dict) else {}
    return {}


def _value(name: str, text: str, schema: Any) -> Any:
    """Text as it is where the tool wants a string; JSON where it wants something else."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return text
    if kind is not None:
        return _from_json(name, text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise ValueError(f"{name}: not JSON: {problem}") from None
