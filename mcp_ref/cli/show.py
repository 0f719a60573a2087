"""What `mcp-ref` prints: results to stdout, logs and progress to stderr."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mcp_ref.api.results import Result
from mcp_ref.basic.patterns.progress import progress_text
from mcp_ref.basic.patterns.subscriptions.server import AnyChange
from mcp_ref.basic.utilities.tasks.data_types import FINAL
from mcp_ref.runtime.untrusted_text import plain

__all__ = [
    "ProgressLine",
    "TaskLine",
    "as_bytes",
    "as_json",
    "change",
    "contents",
    "log_message",
    "messages",
    "prompts",
    "resources",
    "result",
    "server",
    "suggestions",
    "task",
    "tasks",
    "tools",
]


def as_json(value: Any) -> None:
    """Print a value as JSON for scripts, with no character in it that steers a terminal."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print("\n".join(map(_escape, text.split("\n"))))


def in_a_line(text: Any) -> str:
    """A server's text on one line: line breaks are escaped, so that it cannot begin another line."""
    return _escape(plain(text))


def _escape(text: str) -> str:
    """Text with JSON escapes in place of unprintable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def server(facts: Any) -> None:
    """Print the name, description, revision, capabilities and instructions of a server."""
    info = facts["serverInfo"]
    name = info.get("title") or info.get("name", "a server that does not say its name")
    print(f"{in_a_line(name)} {in_a_line(info.get('version', ''))}".rstrip())
    if info.get("description"):
        print(f"  {plain(info['description'])}")
    print(f"  revision      {facts['revision']}")
    capabilities = ", ".join(_capability(*item) for item in (facts["capabilities"] or {}).items())
    print(f"  capabilities  {capabilities or 'none'}")
    if facts["instructions"]:
        print(f"  instructions  {plain(facts['instructions'])}")


def _capability(name: str, settings: Any) -> str:
    details = ", ".join(settings) if isinstance(settings, dict) else ""
    return in_a_line(f"{name} ({details})" if details else name)


def tools(found: list[Any]) -> None:
    if not found:
        print("no tools")
    for tool in found:
        print(in_a_line(f"{tool['name']}({', '.join(_arguments(tool['inputSchema']))})"))
        annotations = tool.get("annotations")
        title = annotations.get("title") if isinstance(annotations, dict) else None
        _about({**tool, "title": tool.get("title") or title})  # spec: schema/title-fallback


def _arguments(schema: Any) -> Iterator[str]:
    """Name and type of each argument, as far as the schema is valid."""
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


def resources(found: list[Any], templates: list[Any]) -> None:
    if not found and not templates:
        print("no resources")
    for resource in (*found, *templates):
        facts = [str(resource["mimeType"])] if "mimeType" in resource else []
        facts += [f"{resource['size']} bytes"] if "size" in resource else []
        print(in_a_line(f"{resource.get('uri') or resource['uriTemplate']}  {', '.join(facts)}".rstrip()))
        _about({"title": resource.get("title", resource["name"]), **resource})


def prompts(found: list[Any]) -> None:
    if not found:
        print("no prompts")
    for prompt in found:
        arguments = prompt.get("arguments", ())
        names = [a["name"] if a.get("required") else f"[{a['name']}]" for a in arguments]
        print(in_a_line(f"{prompt['name']}({', '.join(names)})"))
        _about(prompt)


def _about(definition: Any) -> None:
    """Print the title and the description, a line each."""
    for line in (definition.get("title"), definition.get("description")):
        if isinstance(line, str) and line.strip():
            print(f"    {in_a_line(line.strip().splitlines()[0])}")


def result(value: Result) -> None:
    """Print a tool's content: text as it is, a line for anything else."""
    content = value.get("content")
    for block in content if isinstance(content, list) else ():
        print(_block_text(block))


def _block_text(block: Any) -> str:
    """A block of content: its text, or a line about it."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind is None:
        return in_a_line(f"[{block!r:.200}]")
    if kind == "text":
        return plain(block["text"])
    if kind in ("image", "audio"):
        return in_a_line(f"[{kind}: {block['mimeType']}, {_size(block['data'])} bytes]")
    if kind == "resource_link":
        return in_a_line(f"[{block['name']}: {block['uri']}]")
    return in_a_line(f"[{kind}: {block.get('resource', {}).get('uri', '')}]")


def _size(data: str) -> int:
    """Bytes that a text in base64 stands for."""
    return len(data.rstrip("=")) * 3 // 4


def contents(value: Result) -> None:
    """Print the contents of a resource for people: text as it is, a line about a blob."""
    several = len(value["contents"]) > 1
    for item in value["contents"]:
        if several:
            print(in_a_line(f"[{item['uri']}]"))
        if "blob" in item:
            kind = item.get("mimeType", "unknown type")
            print(in_a_line(f"[blob: {kind}, {_size(item['blob'])} bytes; --output FILE saves it]"))
        else:
            print(plain(item["text"]), end="" if item["text"].endswith("\n") else "\n")


def as_bytes(value: Result) -> bytes:
    """The contents of a resource as bytes, one after another, with nothing between them."""
    found = value["contents"]
    return b"".join(base64.b64decode(c["blob"]) if "blob" in c else c["text"].encode() for c in found)


def tasks(found: list[Any]) -> None:
    """Print the id and the status of each task, and what the server says of it."""
    if not found:
        print("no tasks")
    for state in found:
        print(in_a_line(f"{state['taskId']}  {state['status']}"))
        if state.get("statusMessage"):
            print(f"    {in_a_line(state['statusMessage'])}")


def task(state: Any) -> None:
    """Print one task, with its times."""
    tasks([state])
    print(in_a_line(f"    created {state['createdAt']}, last changed {state['lastUpdatedAt']}"))
    ttl = state.get("ttl", state.get("ttlMs"))
    print(f"    kept {'for ever' if ttl is None else f'for {ttl / 1000:g} s from its creation'}")


def messages(value: Result) -> None:
    """Print the messages of a prompt, each below the name of its role."""
    for message in value["messages"]:
        print(f"{in_a_line(message['role'])}:")
        for line in _block_text(message["content"]).splitlines() or [""]:
            print(f"    {line}")


def suggestions(value: Result) -> None:
    """Print the values that an argument could have, a line each."""
    completion = value["completion"]
    for text in completion["values"]:
        print(in_a_line(text))
    if completion.get("hasMore"):
        of = f" of {completion['total']}" if "total" in completion else ""
        print(f"the first {len(completion['values'])}{of}", file=sys.stderr)


def change(value: AnyChange, in_json: bool) -> None:
    """Print the URI of the resource that changed, or the name of the list, on a line of its own, at once."""
    if in_json:
        about = {"kind": value.kind} if value.uri is None else {"kind": value.kind, "uri": value.uri}
        print(_escape(json.dumps(about, ensure_ascii=False)), flush=True)
    else:
        print(in_a_line(value.uri or value.kind), flush=True)


def log_message(level: str, data: Any, logger: str | None) -> None:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    line = plain(f"{level}: {logger + ': ' if logger else ''}{text}")
    print(line.replace("\n", "\n  "), file=sys.stderr)


def stderr_line(line: str) -> None:
    """Print a line that the server wrote to its stderr, without what would steer the terminal."""
    print(plain(line), file=sys.stderr, flush=True)


def _bar(progress: float, total: float | None) -> str:
    """How far something is, as text: a bar, or only a number if the total is not known."""
    if not total:
        return f"{progress:g}"
    filled = round(20 * min(1.0, max(0.0, progress / total)))
    return f"[{'#' * filled}{'.' * (20 - filled)}] {progress:g} of {total:g}"


class ProgressLine:
    """A line on the terminal while a request reports progress; nothing where there is no terminal."""

    def __init__(self) -> None:
        self.on_progress = self._report if sys.stderr.isatty() else None
        self._writing = threading.Lock()
        # Guarded by _writing.
        self._is_shown = False
        self._line = ""
        self._hidden = 0  # how many callers want the line hidden

    def _report(self, progress: float, total: float | None, message: str | None) -> None:
        self._draw(f"{_bar(progress, total)} {message or ''}")

    def _draw(self, text: str) -> None:
        line = plain(text.replace("\n", " "))[: shutil.get_terminal_size().columns - 1]
        with self._writing:
            self._line = line
            self._show()

    def _show(self) -> None:
        """Write the line, unless it is hidden. With _writing held."""
        if self._line and not self._hidden:
            self._is_shown = True
            self._write(f"\r\x1b[K{self._line}")

    def hidden_during(self, ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same callback, with this line hidden while it runs."""

        def ask_alone(question: Any) -> Any:
            self._hide(1)
            try:
                return ask(question)
            finally:
                self._hide(-1)

        return ask_alone

    def _hide(self, more: int) -> None:
        with self._writing:
            self._hidden += more
            self._erase()
            self._show()

    def _erase(self) -> None:
        """Remove the line from the terminal. With _writing held."""
        if self._is_shown:
            self._is_shown = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        """Write to stderr. The error of a terminal that was closed is ignored: SIGHUP ends the program."""
        with contextlib.suppress(OSError):
            print(text, end="", file=sys.stderr, flush=True)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *exception: object) -> None:
        self._hide(1)


NUMBER = r"(\d{1,15}(?:\.\d{1,15})?(?:e\+\d\d)?)"
HOW_FAR = re.compile(rf"\s{{0,2}}\(?\b{NUMBER} of {NUMBER}\)?$")
"""How far a task is, such as "3 of 10", at the end of its status message: a task of 2026-07-28 sends no
progress."""

MAX_TAIL = 100
"""Characters at the end of a status message in which HOW_FAR is searched for."""

PLAIN_SECONDS = 1.0
"""Seconds, at least, between two lines on the progress of a task, where there is no terminal."""


class TaskLine(ProgressLine):
    """A line on how far a task is; without a terminal, a new line for each status, and some in between."""

    def __init__(self) -> None:
        super().__init__()
        self._is_terminal = self.on_progress is not None
        self.on_progress = self._on_progress
        self._how_far = ""
        # Guarded by _writing.
        self._status = ""
        self._next = 0.0  # when the next line may be printed that is about the same status

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self._writing:
            self._erase()
            print(f"mcp-ref: {in_a_line(text)}", file=sys.stderr, flush=True)
            self._show()

    def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._is_terminal:
            self._how_far = _bar(progress, total)
            self._draw(f"{self._how_far} {message or ''}")
        else:
            self._print("working", progress_text(progress, total, message))

    def on_status(self, status: str, message: str | None) -> None:
        """Show the status of the task, and what the server says of it."""
        said = message or ""
        found = HOW_FAR.search(said, max(0, len(said) - MAX_TAIL))
        if not self._is_terminal:
            self._print(status, said)
        elif found:
            self._on_progress(float(found[1]), float(found[2]), said[: found.start()])
        elif status != "working" or not self._how_far:
            self._draw(f"{status}: {said}" if said else status)
        elif said:
            self._draw(f"{self._how_far} {said}")

    def _print(self, status: str, said: str) -> None:
        """Print a new status at once, a new message on the same status after PLAIN_SECONDS.

        After a final status nothing more is printed.
        """
        now = time.monotonic()
        with self._writing:
            if self._status in FINAL or (status == self._status and (now < self._next or not said)):
                return
            if said:
                self._next = now + PLAIN_SECONDS
            self._status = status
            line = f"{status}: {said}" if said else status
            print(f"mcp-ref: {in_a_line(line)}", file=sys.stderr, flush=True)
