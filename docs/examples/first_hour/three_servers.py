"""Three servers at work at the same time, with a bar for each."""

from concurrent.futures import wait
from functools import partial
from pathlib import Path

from mcp_ref import connect_all

files = {"photos": 3, "letters": 8, "music": 5}
bars = dict.fromkeys(files, "")


def show(name: str, progress: float, total: float | None, message: str | None) -> None:
    bars[name] = "#" * round(10 * progress / (total or progress))


servers = dict.fromkeys(files, Path(__file__).with_name("slow_server.py"))
with connect_all(servers) as host:  # or connect_all("mcp.json")
    print(*(f"{name} is not there: {problem}\n" for name, problem in host.problems.items()), end="")
    calls = {  # all are sent before the first is waited for
        name: client.submit_tool("copy", {"files": files[name]}, on_progress=partial(show, name))
        for name, client in host.clients.items()
    }
    left = set(calls.values())
    while left:
        left = wait(left, timeout=0.1).not_done
        bars |= {name: "#" * 10 for name, call in calls.items() if call not in left}
        print("\r", *(f"{name} [{bar:<10}]" for name, bar in bars.items()), end="", flush=True)
    print("", *(f"{name}: {call.result().text}" for name, call in calls.items()), sep="\n")
