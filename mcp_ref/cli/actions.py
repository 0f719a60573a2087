"""What each command of `mcp-ref` does. Each gets the parsed options and returns the exit code."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from mcp_ref.basic.messages import Json
from mcp_ref.cli import show
from mcp_ref.client.client import Client
from mcp_ref.client.connecting import connect
from mcp_ref.server.server import Server

__all__ = ["call", "discover", "ping", "serve", "tools"]


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
    found.run()
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


def call(options: Namespace) -> int:
    """Call a tool and print its result."""
    with _connected(options) as client:
        if options.log_level is not None:
            client.set_log_level(options.log_level)
        arguments = _arguments(options, client)
        with show.progress_line() as on_progress:
            result = client.call_tool(options.tool, arguments, on_progress=on_progress)
        show.as_json(result) if options.json else show.result(result)
    return 1 if result.is_error else 0


def _connected(options: Namespace) -> Client:
    env = {}
    for pair in options.env:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--env takes NAME=VALUE, not {pair!r}")
        env[name] = value
    return connect(
        options.server,
        revision=options.revision,
        timeout=options.timeout,
        name="mcp-ref",
        env=env,
        on_stderr=(lambda line: None) if options.quiet else None,
        on_log=show.log_message if getattr(options, "log_level", None) else None,
    )


def _arguments(options: Namespace, client: Client) -> Json:
    """The arguments of the call: a whole object, and single ones over it."""
    whole = _from_json("--arguments", options.whole) if options.whole is not None else {}
    if not isinstance(whole, dict):
        raise ValueError("--arguments takes a JSON object")
    if not options.arguments:
        return whole
    properties = _properties(client, options.tool)
    single = {}
    for pair in options.arguments:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"an argument is NAME=VALUE, not {pair!r}")
        single[name] = _value(name, value, properties.get(name))
    return {**whole, **single}


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
