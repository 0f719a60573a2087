"""A result as a notebook shows it: its text, its pictures and its sounds, as HTML.

    client.call_tool("plot", {"table": "rain"})     the last line of a cell

Text from a server is escaped, never used as HTML, since a notebook runs the scripts in HTML. Pictures and
sounds are in the page itself (`data:`), and only of the types below, which run no script; nothing is fetched,
and there are no links. A picture that is too large, or of another type, is replaced by its type and size.

Revisions   all.
Errors      none: a malformed part of a result is shown as text.
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
"""Media types of pictures that are shown: those that every browser shows. Not SVG, which is a document."""
SOUNDS = frozenset(
    {"audio/wav", "audio/x-wav", "audio/mpeg", "audio/ogg", "audio/mp4", "audio/webm", "audio/flac"}
)
"""Media types of sounds that are played."""

MAX_BLOCKS = 100
"""Content blocks of a result that are shown; the others are left out."""
MAX_TEXT_CHARACTERS = 100_000
"""Characters of one text that are shown; the rest becomes "..."."""
MAX_MEDIA_CHARACTERS = 20 << 20
"""Characters of Base64 that one picture or sound may have."""


def as_html(result: Json) -> str:
    """A result as HTML. From the server come only escaped text and the bytes of pictures and sounds."""
    return "".join(_parts(result)) or _text(brief(result))


def _parts(result: Json) -> Iterator[str]:
    if result.get("isError") is True:
        yield "<p><b>the tool failed</b></p>"
    for role, block in islice(_blocks(result), MAX_BLOCKS):
        yield (_label(role) if role else "") + _block(block)
    if not result.get("content") and "structuredContent" in result:
        yield _text(brief(result["structuredContent"]))


def _blocks(result: Json) -> Iterator[tuple[Any, Any]]:
    """The content blocks of a result (of a tool, a prompt or a resource), each after its role, if any."""
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
    """A picture or a sound; if it cannot be shown, its type and size as text."""
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
    """Text with its own line breaks, and with long lines wrapped."""
    shown = text[:MAX_TEXT_CHARACTERS] + ("..." if len(text) > MAX_TEXT_CHARACTERS else "")
    return f'<pre style="white-space: pre-wrap">{_escaped(shown)}</pre>'


def _label(text: Any) -> str:
    """A line about what follows, such as a role or a URI."""
    return f"<p><i>{_escaped(str(text)[:1000])}</i></p>"


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=True)
