"""Progress and cancellation: a tool that reports how far it is and stops when its request is cancelled."""

import threading

from mcp_ref import Context, RequestTimeout, Server, connect

server = Server("copier")
stopped = threading.Event()


@server.tool
def copy(files: int, seconds: float, ctx: Context) -> str:
    """Copy some files."""
    try:
        for number in range(1, files + 1):
            ctx.sleep(seconds)  # like time.sleep, but ends at once when the call is cancelled
            ctx.progress(number, files, message=f"file {number}")
    finally:
        if ctx.cancelled:
            stopped.set()
    return f"{files} files copied"


with connect(server) as client:
    # Reports arrive on the thread that called, before the result.
    result = client.call_tool("copy", {"files": 3, "seconds": 0}, on_progress=print)
    print(result.text)

    # A time-out cancels the call on the wire, so that the tool learns of it.
    try:
        client.call_tool("copy", {"files": 1, "seconds": 60}, timeout=2)
    except RequestTimeout as problem:
        print(problem)
    print("the tool stopped:", stopped.wait(10))

    # So does giving up a call that was submitted.
    stopped.clear()
    call = client.submit("tools/call", {"name": "copy", "arguments": {"files": 1, "seconds": 60}})
    print("cancelled:", call.cancel())
    client.ping()
