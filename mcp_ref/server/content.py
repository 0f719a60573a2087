"""Content (page: schema, "Content"; shown on server/tools, server/prompts and server/resources).

The result of a tool or a prompt is a list of content blocks: plain dicts with a `type`. The functions here
make them from Python values:

    text("hello")    image(png_bytes, "image/png")    audio(wav_bytes, "audio/wav")
    resource_link("file:///a.txt", "a.txt")    embedded("file:///a.txt", "its text")

Revisions   2024-11-05  text, image, embedded resource
            2025-03-26  + audio
            2025-06-18  + resource_link; + `_meta`; + annotations.lastModified
            2025-11-25  + icons on resource links

A client whose revision does not have a kind of block gets text that describes the block instead.
"""

from __future__ import annotations

import base64
import functools
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict, TypeVar

from mcp_ref.basic.index.general_fields import Icon, check_icons, check_meta
from mcp_ref.basic.index.messages import Json
from mcp_ref.schema import REVISIONS, Bounds, Mismatch, checker, pruner, since, until

if TYPE_CHECKING:
    from mcp_ref.basic.versioning import Revision

__all__ = ["ContentBlock", "audio", "embedded", "image", "resource_link", "text"]

# ---------------------------------------------------------------------------- shapes

Role: TypeAlias = Literal["user", "assistant"]
Base64 = Annotated[str, {"format": "byte"}]
Uri = Annotated[str, {"format": "uri"}]
Meta = Annotated[Json, since("2025-06-18")]


class Annotations(TypedDict, total=False):
    """Hints about content: its audience, its importance, its age."""

    audience: list[Role]
    priority: Annotated[float, Bounds(ge=0, le=1)]
    lastModified: Annotated[str, since("2025-06-18")]


class OldAnnotated(TypedDict, total=False):
    annotations: Annotations


class TextContent(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]
    annotations: Annotations
    _meta: Meta


class ImageContent(TypedDict, total=False):
    type: Required[Literal["image"]]
    data: Required[Base64]
    mimeType: Required[str]
    annotations: Annotations
    _meta: Meta


class AudioContent(TypedDict, total=False):
    type: Required[Literal["audio"]]
    data: Required[Base64]
    mimeType: Required[str]
    annotations: Annotations
    _meta: Meta


class ResourceLink(TypedDict, total=False):
    type: Required[Literal["resource_link"]]
    uri: Required[Uri]
    name: Required[str]
    title: str
    description: str
    mimeType: str
    size: int
    annotations: Annotations
    icons: Annotated[list[Icon], since("2025-11-25")]
    _meta: Meta


class ResourceContents(TypedDict, total=False):
    uri: Required[Uri]
    mimeType: str
    _meta: Meta


class TextResourceContents(TypedDict, total=False):
    uri: Required[Uri]
    mimeType: str
    text: Required[str]
    _meta: Meta


class BlobResourceContents(TypedDict, total=False):
    uri: Required[Uri]
    mimeType: str
    blob: Required[Base64]
    _meta: Meta


class EmbeddedResource(TypedDict, total=False):
    type: Required[Literal["resource"]]
    resource: Required[TextResourceContents | BlobResourceContents]
    annotations: Annotations
    _meta: Meta


ContentBlock: TypeAlias = (
    TextContent
    | ImageContent
    | Annotated[AudioContent, since("2025-03-26")]
    | Annotated[ResourceLink, since("2025-06-18")]
    | EmbeddedResource
)

DEFINITIONS: dict[str, Any] = {
    "Annotated": Annotated[OldAnnotated, until("2024-11-05")],
    "Annotations": Annotated[Annotations, since("2025-03-26")],
    "AudioContent": Annotated[AudioContent, since("2025-03-26")],
    "BlobResourceContents": BlobResourceContents,
    "ContentBlock": Annotated[ContentBlock, since("2025-06-18")],
    "EmbeddedResource": EmbeddedResource,
    "ImageContent": ImageContent,
    "ResourceContents": ResourceContents,
    "ResourceLink": Annotated[ResourceLink, since("2025-06-18")],
    "Role": Role,
    "TextContent": TextContent,
    "TextResourceContents": TextResourceContents,
}

BLOCKS: dict[str, Any] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}
BLOCKS_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""The first revision of each kind of block that the oldest revision does not have."""

# ------------------------------------------------------------------------ making blocks


def text(value: str, *, annotations: Annotations | None = None, meta: Json | None = None) -> TextContent:
    """A block of text."""
    block: TextContent = {"type": "text", "text": value}
    return _with(block, annotations, meta)


def image(
    data: bytes, mime_type: str, *, annotations: Annotations | None = None, meta: Json | None = None
) -> ImageContent:
    """A block with an image, from its bytes."""
    block: ImageContent = {"type": "image", "data": _base64(data), "mimeType": mime_type}
    return _with(block, annotations, meta)


def audio(
    data: bytes, mime_type: str, *, annotations: Annotations | None = None, meta: Json | None = None
) -> AudioContent:
    """A block with audio, from its bytes."""
    block: AudioContent = {"type": "audio", "data": _base64(data), "mimeType": mime_type}
    return _with(block, annotations, meta)


def resource_link(
    uri: str,
    name: str,
    *,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    icons: list[Icon] | None = None,
    annotations: Annotations | None = None,
    meta: Json | None = None,
) -> ResourceLink:
    """A block that refers to a resource. The client may read it, even if resources/list does not have it.

    # spec: server/tools/resource-links, server/tools/resource-link-unlisted
    """
    optional = {
        "title": title,
        "description": description,
        "mimeType": mime_type,
        "size": size,
        "icons": check_icons(icons) if icons is not None else None,
    }
    present = {name: value for name, value in optional.items() if value is not None}
    link = typing.cast(ResourceLink, {"type": "resource_link", "uri": uri, "name": name, **present})
    return _with(link, annotations, meta)


def embedded(
    uri: str,
    contents: str | bytes,
    mime_type: str | None = None,
    *,
    annotations: Annotations | None = None,
    meta: Json | None = None,
) -> EmbeddedResource:
    """A block with the contents of a resource, text or bytes.  # spec: server/tools/embedded-resources"""
    resource: Json = {"uri": uri}
    if mime_type is not None:
        resource["mimeType"] = mime_type
    if isinstance(contents, str):  # spec: schema/text-only-if-text
        resource["text"] = contents
    else:
        resource["blob"] = _base64(contents)
    block = typing.cast(EmbeddedResource, {"type": "resource", "resource": resource})
    return _with(block, annotations, meta)


def _base64(data: bytes) -> str:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"images, audio and blobs are made from bytes, not from {type(data).__name__}")
    return base64.b64encode(data).decode("ascii")


Block = TypeVar("Block", TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)


def _with(block: Block, annotations: Annotations | None, meta: Json | None) -> Block:
    if annotations is not None:
        block["annotations"] = annotations
    if meta is not None:
        block["_meta"] = check_meta(meta)
    return block


# ---------------------------------------------------------------------- checking blocks


def is_block(value: Any) -> bool:
    """Whether a value looks like a content block: an object with the `type` of one."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind in BLOCKS


def check_block(block: Any) -> None:
    """Check a content block by the shapes of the newest revision. Raises Mismatch.

    # spec: server/tools/content-block-types
    """
    if not is_block(block):
        raise Mismatch(f"must be a content block with a type of {', '.join(BLOCKS)}")
    checker(BLOCKS[block["type"]], REVISIONS[-1])(block)


def check_base64(blob: str, path: tuple[str | int, ...] = ("blob",)) -> None:
    """Check that a blob is base64. Raises Mismatch."""
    try:
        base64.b64decode(blob.encode("ascii"), validate=True)
    except (ValueError, AttributeError):  # not base64, or not a string
        raise Mismatch("must be base64", path) from None


def block_for(block: Any, date: str) -> Any:
    """A block as a revision has it: without newer members, or as text if the whole block is newer."""
    return _converter(block["type"], date)(block)


@functools.cache
def _converter(kind: str, date: str) -> Callable[[Any], Any]:
    """What `block_for` does with one kind of block in one revision.

    Made when it is first needed: to make all at once took a third of the time of a server's first call.
    """
    if REVISIONS.index(date) < REVISIONS.index(BLOCKS_SINCE.get(kind, REVISIONS[0])):
        return _as_text
    return pruner(BLOCKS[kind], date)


def downgrade(blocks: list[Any], revision: Revision) -> list[Any]:
    """Content blocks as an older revision has them."""
    return [block_for(block, revision.date) for block in blocks]


def _as_text(block: Any) -> TextContent:
    """A text block that describes audio or a resource link to a client that has no such block."""
    if block["type"] == "audio":
        size = len(block["data"]) * 3 // 4
        return text(f"[audio, {block['mimeType']}, about {size} bytes: this client's revision has no audio]")
    description = f": {block['description']}" if "description" in block else ""
    return text(f"{block['name']}{description} <{block['uri']}>")


def texts(blocks: Any) -> str:
    """The text of all text blocks in some content, joined by line breaks."""
    if not isinstance(blocks, list):
        return ""
    found = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return "\n".join(t for t in found if isinstance(t, str))
