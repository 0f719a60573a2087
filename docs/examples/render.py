"""A call that takes long: a film is rendered as a task, which asks for approval and gives several things."""

from mcp_ref import Context, Server, TaskOptions, connect
from mcp_ref.server.content import ContentBlock, image, resource_link, text

server = Server("studio", tasks=TaskOptions(poll_interval=0.05))


@server.tool(task="required")
def render(film: str, frames: int, ctx: Context) -> list[ContentBlock]:
    """Render a film."""
    for number in range(1, frames + 1):
        ctx.sleep(0.02)  # the work; it ends at once when the task is cancelled
        ctx.progress(number, frames, "rendered")
        if number == 2 and not ctx.confirm(f"This is {film} so far. Go on?"):
            return [text(f"{film} is left at frame {number}.")]
    return [
        text(f"{film} is done: {frames} frames."),
        resource_link(f"file:///films/{film}.mp4", f"{film}.mp4", mime_type="video/mp4"),
        image(b"\x89PNG the last frame", "image/png"),
    ]


def approve(question):
    """Stands where a person would be asked: see mcp_ref.cli.terminal."""
    print("  asked:", question.message)
    return True


def session(revision):
    """Render a film, in one era."""
    reports = []
    with connect(server, revision=revision, elicitation=approve) as client:
        # This returns at once. Another process can go on from here: client.task(task.id).
        task = client.start_tool(
            "render",
            {"film": "rain", "frames": 5},
            ttl=60,
            on_progress=lambda number, of, said: reports.append(f"{said} ({number} of {of})"),
        )
        print(revision, task.status)

        # What the task asks is answered by the callback meanwhile.
        seen = {}
        for state in task.updates():
            seen.setdefault(state.status, state.message)
        print("  became:", ", ".join(seen))

        for block in task.result(timeout=60)["content"]:
            print("  gives:", block["type"], block.get("text") or block.get("uri") or block["mimeType"])
    # In 2025-11-25 a task sends progress. In 2026-07-28 what it reports is its message.
    print("  reported:", reports[-1] if reports else f"{seen['input_required']}, when it asked")


for revision in ("2025-11-25", "2026-07-28"):
    session(revision)
