"""Processes that run tasks are killed at random moments, and a second process looks what is left.

    python tests/task_kills.py              # 500 kills, some five minutes
    python tests/task_kills.py --kills 20

Two servers share one SqliteStore. Clients begin tasks over HTTP at either, answer what they ask, cancel
some, and fetch results, from whichever server is there. Every so often one of the two gets SIGKILL, and is
started again on the same port. In the end:

    none is lost        every task whose id a client was told is in the store
    none is stuck       each is over; one whose process was killed is "failed", and says why
    none has changed    what was once said to be the result of a task is still its result, and the right one

The store is read by a process that has never run a task. Everything ends by itself: each task after 0.2 s,
each wait after PATIENCE, the whole after the kills.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mcp_ref import Context, McpError, Server, connect
from mcp_ref.api.options import ClientOptions
from mcp_ref.basic.utilities.tasks.behavior_requirements import TaskOptions
from mcp_ref.runtime.stores.sqlite import SqliteStore

PATIENCE = 30.0
CLIENTS = 4
LONGEST_TASK_SECONDS = 0.2
ENDED = "The task was interrupted"


# ------------------------------------------------------------------------------- a server


def serve(path: str, port: int) -> None:
    """A server whose tasks are in the file at `path`; it says so once it listens."""
    options = TaskOptions(store=SqliteStore(path), poll_interval=0.02, most_live=100_000)
    server = Server("mortal", tasks=options)

    @server.tool(task="required")
    def work(number: int, seconds: float, ask: bool, ctx: Context) -> dict[str, int]:
        """Take a while, say so, perhaps ask, and give the square."""
        for part in range(3):
            ctx.status(f"part {part}")
            ctx.sleep(seconds / 3)
        if ask:
            ctx.confirm(f"Go on with {number}?")
        return {"square": number * number}

    server.run("http", port=port, on_ready=lambda url: print(url, flush=True))


class Mortal:
    """One of the two servers, which is started as often as it is killed."""

    def __init__(self, path: Path) -> None:
        self.path, self.port = path, 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, __file__, "--serve", str(self.path), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("the server did not start")
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


# ------------------------------------------------------------------------------- the clients


class Told:
    """What the clients were told of each task."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.numbers: dict[str, int] = {}  # id -> what its call was about
        self.outcomes: dict[str, str] = {}  # id -> its final status, and its result if it has one
        self.changed: list[str] = []

    def began(self, task_id: str, number: int) -> None:
        with self.lock:
            self.numbers[task_id] = number

    def ended(self, task: dict[str, Any]) -> None:
        """A task was seen in a final status: it must never be seen in another one."""
        outcome = json.dumps([task["status"], task.get("result"), task.get("error")], sort_keys=True)
        with self.lock:
            before = self.outcomes.setdefault(task["taskId"], outcome)
            if before != outcome:
                self.changed.append(f"{task['taskId']}: {before} became {outcome}")


def be_client(mortals: list[Mortal], told: Told, stop: threading.Event, seed: int) -> None:
    """Begin tasks and see to them, at whichever server answers, until it is time to stop."""
    chance, mine = random.Random(seed), collections.deque[str]()
    while not stop.is_set():
        try:
            url = chance.choice(mortals).url
            options = ClientOptions(eras=False)
            with connect(
                url, revision="2026-07-28", timeout=5.0, elicitation=lambda question: True, options=options
            ) as client:
                for _ in range(20):
                    if stop.is_set():
                        return
                    step(client, mine, told, chance)
        except (McpError, OSError):
            stop.wait(0.01)  # that server is dead just now


def step(client: Any, mine: collections.deque[str], told: Told, chance: random.Random) -> None:
    """Begin a task, and look at one of those before it."""
    number = chance.randrange(1_000_000)
    arguments = {
        "number": number,
        "seconds": chance.random() * LONGEST_TASK_SECONDS,
        "ask": chance.random() < 0.3,
    }
    task = client.start_tool("work", arguments)
    told.began(task.id, number)
    mine.append(task.id)
    if len(mine) > 10:
        found = client.task(mine.popleft())
        if chance.random() < 0.1 and not found.is_over:
            found.cancel()
        elif not found.is_over:
            for _ in found.updates(timeout=2.0):
                pass
        if found.is_over:
            told.ended(found.refresh().state)


# ------------------------------------------------------------------------------- what is left


def check(path: str, told_path: str) -> int:
    """The second process: looks at every task that a client was told of. 0 if all is well."""
    told = json.loads(Path(told_path).read_text())
    server = Server("reader", tasks=TaskOptions(store=SqliteStore(path)))
    server.add_tool(_nothing, name="work", task="required")
    faults, counts = list(told["changed"]), collections.Counter[str]()
    with connect(server, revision="2026-07-28") as client:
        for task_id, number in told["numbers"].items():
            try:
                task = client.task(task_id)
            except McpError as problem:
                faults.append(f"lost: {task_id}: {problem}")
                continue
            counts[task.status] += 1
            faults += faults_of(task.state, number, told["outcomes"].get(task_id))
    print(json.dumps(counts), *faults[:20], sep="\n")
    return 1 if faults else 0


def _nothing() -> None:
    """A tool, so that there are tasks."""


def faults_of(task: dict[str, Any], number: int, before: str | None) -> list[str]:
    """What is wrong with one task in the end."""
    name, status = task["taskId"], task["status"]
    if status in ("working", "input_required"):
        return [f"stuck: {name} is {status}"]
    if status == "completed" and task["result"]["structuredContent"] != {"square": number * number}:
        return [f"wrong: {name}: {task['result']}"]
    if status == "failed" and ENDED not in task["error"]["message"]:
        return [f"failed without a reason: {name}: {task['error']}"]
    now = json.dumps([status, task.get("result"), task.get("error")], sort_keys=True)
    return [f"changed: {name}: {before} became {now}"] if before not in (None, now) else []


# ------------------------------------------------------------------------------- the loop


def run(kills: int, folder: Path, seed: int) -> int:
    """Kill so often; the number of faults that the second process finds, as its exit code."""
    path, told, stop = folder / "tasks.sqlite", Told(), threading.Event()
    mortals = [Mortal(path), Mortal(path)]
    threads = [
        threading.Thread(target=be_client, args=(mortals, told, stop, seed + number), daemon=True)
        for number in range(CLIENTS)
    ]
    chance = random.Random(seed)
    try:
        for thread in threads:
            thread.start()
        for _ in range(kills):
            time.sleep(chance.random() * 0.4)  # the random point
            mortal = chance.choice(mortals)
            mortal.kill()
            mortal.start()
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise RuntimeError("a client hangs")
    finally:
        stop.set()
        for mortal in mortals:
            mortal.kill()  # also these: what they run is to be found failed
    summary = {"numbers": told.numbers, "outcomes": told.outcomes, "changed": told.changed}
    (folder / "told.json").write_text(json.dumps(summary))
    print(f"{kills} kills, {len(told.numbers)} tasks, {len(told.outcomes)} of them seen to their end")
    command = [sys.executable, __file__, "--check", str(path), str(folder / "told.json")]
    return subprocess.run(command, timeout=300).returncode


def main() -> int:
    """Kill, and look; or be one of the processes that this needs."""
    parser = argparse.ArgumentParser(description="servers of tasks are killed, and no task is lost")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--check", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
        return 0
    if options.check:
        return check(*options.check)
    with tempfile.TemporaryDirectory() as folder:
        return run(options.kills, Path(folder), options.seed)


if __name__ == "__main__":
    sys.exit(main())
