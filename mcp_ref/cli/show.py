"""What `mcp-ref` prints: results to stdout, everything that goes on meanwhile to stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcp_ref.client.calls import Result

__all__ = ["as_json", "log_message", "progress_line", "result", "server", "tools"]


def as_json(value: Any) -> None:
    """For scripts."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def server(facts: Any) -> None:
    """What a server says of itself."""
    info = facts["serverInfo"]
    name = info.get("title") or info.get("name", "a server that does not say its name")
    print(f"{plain(name)} {plain(info.get('version', ''))}".rstrip())
    if info.get("description"):
        print(f"  {plain(info['description'])}")
    print(f"  revision      {facts['revision']}")
    print(f"  capabilities  {', '.join(map(_capability, (facts['capabilities'] or {}).items())) or 'none'}")
    if facts["instructions"]:
        print(f"  instructions  {plain(facts['instructions'])}")


def _capability(item: tuple[str, Any]) -> str:
    name, settings = item
    details = ", ".join(settings) if isinstance(settings, dict) else ""
    return plain(f"{name} ({details})" if details else name)


def tools(found: list[Any]) -> None:
    """The tools of a server, each with its arguments."""
    if not found:
        print("no tools")
    for tool in found:
        required = tool["inputSchema"].get("required", [])
        properties = tool["inputSchema"].get("properties", {})
        arguments = [
            f"{name}: {_kind(schema)}" if name in required else f"[{name}: {_kind(schema)}]"
            for name, schema in properties.items()
        ]
        print(plain(f"{tool['name']}({', '.join(arguments)})"))
        for line in (tool.get("title"), tool.get("description")):
            if line:
                print(f"    {plain(line.strip().splitlines()[0])}")


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type", "any")
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


def result(value: Result) -> None:
    """A tool's content: text as it is, a line for anything else."""
    for block in value.get("content", []):
        kind = block.get("type")
        if kind == "text":
            print(plain(block["text"]))
        elif kind in ("image", "audio"):
            print(plain(f"[{kind}: {block['mimeType']}, {len(block['data']) * 3 // 4} bytes]"))
        elif kind == "resource_link":
            print(plain(f"[{block['name']}: {block['uri']}]"))
        else:
            print(plain(f"[{kind}: {block.get('resource', {}).get('uri', '')}]"))


def log_message(level: str, data: Any, logger: str | None) -> None:
    """A message that the server logged."""
    said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    print(plain(f"{level}: {logger + ': ' if logger else ''}{said}"), file=sys.stderr)


@contextmanager
def progress_line() -> Iterator[Callable[[float, float | None, str | None], None] | None]:
    """A line on the terminal while a call reports progress; nothing where there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = False

    def on_progress(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown
        shown = True
        width = shutil.get_terminal_size().columns - 1
        how_far = f"{progress:g}"
        if total:
            filled = round(20 * min(1.0, max(0.0, progress / total)))
            how_far = f"[{'#' * filled}{'.' * (20 - filled)}] {progress:g} of {total:g}"
        line = plain(f"{how_far} {message or ''}".replace("\n", " "))[:width]
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    try:
        yield on_progress
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def plain(text: Any) -> str:
    """Text of a stranger's, without what would steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in str(text))
