"""A result as a notebook shows it: its text, its pictures and its sounds, as HTML.

    client.call_tool("plot", {"table": "rain"})     the last line of a cell

Whatever a server sent is shown as text, never as HTML: a notebook runs what it is given. Pictures and sounds
are in the page itself (`data:`), of the types below alone, which run no script; nothing is fetched, and no
link can be followed. A picture that is too large, or of another type, is named.

Revisions   all.
Errors      none: a malformed part of a result is shown as what it is.
Threads     plain functions.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from itertools import islice
from typing import Any

from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.brief import brief
from mcp_ref.runtime.untrusted_text import plain

__all__ = ["as_html"]

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Those that every browser shows. SVG is not among them, since it is a document."""
SOUNDS = frozenset(
    {"audio/wav", "audio/x-wav", "audio/mpeg", "audio/ogg", "audio/mp4", "audio/webm", "audio/flac"}
)

MAX_BLOCKS = 100
MAX_TEXT_CHARACTERS = 100_000
MAX_MEDIA_CHARACTERS = 20 << 20
"""Of one picture or sound, as Base64."""


def as_html(result: Json) -> str:
    """A result as HTML, in which nothing is the server's but escaped text, and the bytes of its pictures."""
    return "".join(_parts(result)) or _text(brief(result))


def _parts(result: Json) -> Iterator[str]:
    if result.get("isError") is True:
        yield "<p><b>the tool failed</b></p>"
    for role, block in islice(_blocks(result), MAX_BLOCKS):
        yield (_label(role) if role else "") + _block(block)
    if not result.get("content") and "structuredContent" in result:
        yield _text(brief(result["structuredContent"]))


def _blocks(result: Json) -> Iterator[tuple[Any, Any]]:
    """The content of a tool's result, of the messages of a prompt and of a resource, each with its role."""
    for block in _list(result.get("content")):
        yield None, block
    for message in _list(result.get("messages")):
        if isinstance(message, dict):
            yield message.get("role"), message.get("content")
    for contents in _list(result.get("contents")):
        yield None, {"type": "resource", "resource": contents}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _block(block: Any) -> str:
    """One content block (server/content)."""
    if not isinstance(block, dict):
        return _text(brief(block))
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return _text(block["text"])
        case "image" | "audio":
            return _media(block.get("mimeType"), block.get("data"))
        case "resource" if isinstance(block.get("resource"), dict):
            return _resource(block["resource"])
        case "resource_link":
            return _label(f"{block.get('name', '')} {block.get('uri', '')}")
    return _text(brief(block))


def _resource(contents: Json) -> str:
    """The contents of a resource, under its URI."""
    uri = _label(contents.get("uri", ""))
    if isinstance(contents.get("text"), str):
        return uri + _text(contents["text"])
    return uri + _media(contents.get("mimeType"), contents.get("blob"))


def _media(kind: Any, data: Any) -> str:
    """A picture or a sound; in words, if it cannot be shown."""
    size = len(data) if isinstance(data, str) else 0
    if isinstance(data, str) and size <= MAX_MEDIA_CHARACTERS and isinstance(kind, str):
        try:
            again = base64.b64encode(base64.b64decode(data, validate=True)).decode("ascii")
        except ValueError:
            return _label(f"{kind}: no Base64")
        if kind in PICTURES:
            return f'<p><img alt="" style="max-width: 100%" src="data:{kind};base64,{again}"></p>'
        if kind in SOUNDS:
            return f'<p><audio controls src="data:{kind};base64,{again}"></audio></p>'
    return _label(f"{kind}: about {size * 3 // 4} bytes")


def _text(text: str) -> str:
    """Text as it is, in lines that fit."""
    shown = text[:MAX_TEXT_CHARACTERS] + ("..." if len(text) > MAX_TEXT_CHARACTERS else "")
    return f'<pre style="white-space: pre-wrap">{_escaped(shown)}</pre>'


def _label(text: Any) -> str:
    """A line about what comes."""
    return f"<p><i>{_escaped(str(text)[:1000])}</i></p>"


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=True)
