"""A person at a terminal answers a form. Here the terminal is a pseudo-terminal, and the person a thread."""

import os
import pty
import threading
from dataclasses import dataclass
from typing import Annotated, Literal

from mcp_ref import Context, Server, connect
from mcp_ref.cli.terminal import Terminal


@dataclass
class Trip:
    where: Annotated[str, "A town"]
    how: Literal["train", "bike"] = "train"


server = Server("travel")


@server.tool
def plan(ctx: Context) -> str:
    """Plan a trip."""
    answer = ctx.elicit("Where do you want to go?", Trip)
    return f"{answer.action}: {answer.data}"


screen, line = pty.openpty()


def person() -> None:
    """Types a line at each prompt, and shows what there was to be seen."""
    for typed in ("Bern", "", "change", "2", "7", "2", "send"):
        seen = ""
        while not seen.endswith(" > "):
            seen += os.read(screen, 1).decode()
        print(seen.replace("\r\n", "\n"), end="")
        os.write(screen, f"{typed}\n".encode())
    print("send")


somebody = threading.Thread(target=person)
somebody.start()
terminal = Terminal(os.ttyname(line))  # without it, `elicitation=ask` takes the terminal of the process
with connect(server, elicitation=terminal.ask) as client:
    result = client.call_tool("plan").text
    somebody.join()
    print(result)
