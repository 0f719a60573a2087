"""What each command of cli/main does, given the parsed options. Only `call` has an exit code to return."""

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
from mcp_ref.api.options import ClientOptions
from mcp_ref.api.results import Result
from mcp_ref.api.server import Server
from mcp_ref.basic.index.error_responses import ErrorResponse, MethodNotFound
from mcp_ref.basic.index.messages import Json
from mcp_ref.basic.patterns.subscriptions.client import Changes
from mcp_ref.cli import show, terminal
from mcp_ref.client.elicitation.url_mode import UrlElicitationNeeded
from mcp_ref.runtime.errors import LocalError, RequestTimeout

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

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def serve(options: Namespace) -> None:
    """Serve a Server that is a variable of a module."""
    path, _, name = options.target.rpartition(":")
    if not path:
        path, name = name, "server"
    try:
        module = _import_module(path)
    except Exception as problem:
        raise ValueError(f"{path} cannot be served: {type(problem).__name__}: {problem}") from problem
    server = getattr(module, name, None)
    if not isinstance(server, Server):
        raise ValueError(f"{path} has no Server called {name!r}")
    if options.http is None:
        server.run()
        return
    host, port = options.http
    server.run("http", host=host, port=port, on_ready=_announce)


def _announce(url: str) -> None:
    print(f"serving at {url}; Ctrl-C ends it", file=sys.stderr, flush=True)


def _import_module(name: str) -> Any:
    if not name.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(name)
    path = Path(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {name}")
    sys.path.insert(0, str(path.resolve().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _shown(options: Namespace, value: Any, show_it: Callable[[Any], None]) -> None:
    """Print a value for scripts, or for people."""
    if options.json:
        show.as_json(value)
    else:
        show_it(value)


def discover(options: Namespace) -> None:
    with _connect(options) as client:
        facts = {
            "revision": client.revision.date,
            "serverInfo": client.server_info,
            "capabilities": client.server_capabilities,
            "instructions": client.instructions,
        }
        _shown(options, facts, show.server)


def tools(options: Namespace) -> None:
    with _connect(options) as client:
        _shown(options, client.list_tools(), show.tools)


def ping(options: Namespace) -> None:
    with _connect(options) as client:
        start = time.perf_counter()
        client.ping()
        milliseconds = (time.perf_counter() - start) * 1000
        value = {"milliseconds": round(milliseconds, 3)}
        _shown(options, value, lambda _: print(f"answered in {milliseconds:.2f} ms"))


def resources(options: Namespace) -> None:
    with _connect(options) as client:
        try:
            templates = client.list_resource_templates()
        except ErrorResponse as problem:
            if problem.code != MethodNotFound.code:
                raise
            templates = []  # a server with resources only
        resources = client.list_resources()
        found = {"resources": resources, "resourceTemplates": templates}
        _shown(options, found, lambda _: show.resources(resources, templates))


def prompts(options: Namespace) -> None:
    with _connect(options) as client:
        _shown(options, client.list_prompts(), show.prompts)


def call(options: Namespace) -> int:
    """Call a tool and print its result. Returns 1 if the tool says that it failed."""
    line = show.ProgressLine()
    with _connect(options, line) as client:
        arguments = _arguments(options, client)
        result = _run(client, line, client.call_tool, options.tool, arguments)
        _shown(options, result, show.result)
    return 1 if result.is_error else 0


def read(options: Namespace) -> None:
    """Read a resource, and print its contents or write them to a file."""
    line = show.ProgressLine()
    with _connect(options, line) as client:
        result = _run(client, line, client.read_resource, options.uri)
        _write_contents(result, options)


def _write_contents(result: Result, options: Namespace) -> None:
    """Print contents on a terminal for people; write them byte for byte anywhere else."""
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


def prompt(options: Namespace) -> None:
    arguments = _pairs("an argument is", options.arguments)
    line = show.ProgressLine()
    with _connect(options, line) as client:
        result = _run(client, line, client.get_prompt, options.name, arguments)
        _shown(options, result, show.messages)


def complete(options: Namespace) -> None:
    chosen = _pairs("--with takes", options.chosen)
    with _connect(options) as client:
        result = client.complete(
            prompt=options.prompt,
            resource=options.resource,
            argument=options.argument,
            value=options.value,
            arguments=chosen,
        )
    _shown(options, result, show.suggestions)


def listen(options: Namespace) -> None:
    """Print what changes, until interrupted or for as many changes or seconds as the options say."""
    lists = {"tools": options.tools, "prompts": options.prompts, "resource_list": options.resources}
    if not options.uris and not any(lists.values()):
        lists = dict.fromkeys(lists, True)
    with _connect(options) as client, client.listen(resources=options.uris, **lists) as changes:
        if changes.refused == {*changes.kinds, *changes.uris}:
            raise LocalError("the server notifies of none of these changes")
        print("mcp-ref: listening", file=sys.stderr, flush=True)
        _print_changes(changes, options)


def _print_changes(changes: Changes, options: Namespace) -> None:
    end = time.monotonic() + (options.seconds or float("inf"))
    count = 0
    while count != options.count:
        left = None if options.seconds is None else max(0.0, end - time.monotonic())
        change = changes.next(left)
        if change is not None:
            show.change(change, options.json)
            count += 1
        elif time.monotonic() < end:
            raise LocalError("the server ended the subscription: there will be no more changes")
        elif options.count is None:
            return
        else:
            raise RequestTimeout(f"{count} of {options.count} changes within {options.seconds:g} s")


def _connect(options: Namespace, line: show.ProgressLine | None = None) -> Client:
    """A client. With a `line`, the server may ask at the terminal, where that line is then hidden."""
    level = getattr(options, "log_level", None)
    client = connect(
        **_target(options),
        revision=options.revision,
        timeout=options.timeout,
        on_log=show.log_message if level else None,
        elicitation=line.hidden_during(terminal.ask) if line is not None and _has_terminal() else None,
        roots=getattr(options, "root", None),
    )
    if level is not None:
        try:
            client.set_log_level(level)
        except BaseException:
            client.close()
            raise
    return client


def _target(options: Namespace) -> dict[str, Any]:
    """Where the server is: at a URL, or behind a command."""
    if options.server[0].lower().startswith(("http:", "https:")):
        if len(options.server) > 1:
            raise ValueError(f"nothing may follow the URL of a server: remove {options.server[1]!r:.80}")
        if options.env:
            raise ValueError("--env is for a server that is started here, not for one at a URL")
        more = ClientOptions(name="mcp-ref")
        return {"target": options.server[0], "headers": _headers(options.header), "options": more}
    if options.header:
        raise ValueError("--header is for a server at a URL")
    on_stderr = (lambda line: None) if options.quiet else show.stderr_line
    env = _pairs("--env takes", options.env)
    return {
        "target": options.server,
        "options": ClientOptions(name="mcp-ref", env=env, on_stderr=on_stderr),
    }


def _headers(given: list[str]) -> dict[str, str]:
    """Headers, each given as `NAME: VALUE`. Raises ValueError, whose text has no part of a value."""
    found: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or _HEADER_NAME.fullmatch(name) is None:
            raise ValueError("--header takes NAME: VALUE")
        if name.lower() in map(str.lower, found):
            raise ValueError(f"--header has {name} twice")
        found[name] = value.strip()
    return found


def _run(client: Client, line: show.ProgressLine, send: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a request. If the person must visit a page first, ask for that, and send it once more."""
    with line:
        try:
            return send(*arguments, on_progress=line.on_progress)
        except UrlElicitationNeeded as problem:
            if client.asker.answering.callbacks.elicitation is None or not client.visit(problem):
                raise
            return send(*arguments, on_progress=line.on_progress)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _pairs(what: str, pairs: Sequence[str]) -> dict[str, str]:
    """Values by name, each given as NAME=VALUE. Raises ValueError, which begins with `what`."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"{what} NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def _arguments(options: Namespace, client: Client) -> Json:
    """The arguments of the call: those of `--arguments`, and single ones in place of them."""
    whole = _from_json("--arguments", options.whole) if options.whole is not None else {}
    if not isinstance(whole, dict):
        raise ValueError("--arguments takes a JSON object")
    if not options.arguments:
        return whole
    single = _pairs("an argument is", options.arguments)
    schemas = [tool["inputSchema"] for tool in client.list_tools() if tool["name"] == options.tool]
    properties = schemas[0].get("properties") if schemas else None
    known = properties if isinstance(properties, dict) else {}
    return {**whole, **{name: _value(name, text, known.get(name)) for name, text in single.items()}}


def _value(name: str, text: str, schema: Any) -> Any:
    """An argument: the text itself where the tool takes a string, and else the JSON that it is."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return text
    try:
        return _from_json(name, text)
    except ValueError:
        if kind is not None:
            raise
        return text


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise ValueError(f"{name}: not JSON: {problem}") from None
