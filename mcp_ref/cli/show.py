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
        print(plain(f"{tool['name']}({', '.join(_arguments(tool['inputSchema']))})"))
        for line in (tool.get("title"), tool.get("description")):
            if isinstance(line, str) and line.strip():
                print(f"    {plain(line.strip().splitlines()[0])}")


def _arguments(schema: Any) -> Iterator[str]:
    """Name and kind of each argument, as far as the schema makes sense."""
    required, properties = schema.get("required"), schema.get("properties")
    for name, about in properties.items() if isinstance(properties, dict) else ():
        argument = f"{name}: {_kind(about)}"
        yield argument if isinstance(required, list) and name in required else f"[{argument}]"


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    for words in (schema.get("enum"), schema.get("type")):
        if isinstance(words, list):
            return " | ".join(map(str, words))
    return str(schema.get("type", "any"))


def result(value: Result) -> None:
    """A tool's content: text as it is, a line for anything else."""
    content = value.get("content")
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind is None:
            print(plain(f"[{block!r:.200}]"))
            continue
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
