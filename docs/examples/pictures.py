"""Content: a tool may return text, pictures, sound, links to resources, and resources themselves."""

from mcp_ref import Server, connect
from mcp_ref.server.content import ContentBlock, audio, embedded, image, resource_link, text

server = Server("camera")


@server.tool
def look() -> list[ContentBlock]:
    """What the camera sees."""
    return [
        text("A quiet street.", annotations={"audience": ["user"], "priority": 1.0}),
        image(b"\x89PNG ...", "image/png"),
        audio(b"RIFF ...", "audio/wav"),
        resource_link("file:///street/today.mp4", "today.mp4", mime_type="video/mp4"),
        embedded("file:///street/notes.txt", "Nothing moved.", "text/plain"),
    ]


for revision in ("2024-11-05", "2026-07-28"):
    with connect(server, revision=revision) as client:
        print(revision, [block["type"] for block in client.call_tool("look")["content"]])

# An old client has no sound and no links: it gets text that says what is missing.
with connect(server, revision="2024-11-05") as client:
    print(client.call_tool("look").text)
