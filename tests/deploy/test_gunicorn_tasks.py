"""Tasks under gunicorn: four processes and one SqliteStore, each request at whichever process takes it."""

import collections
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deploy.places import Place, gunicorn
from peers import MODERN, PATIENCE

TASKS = 2_000
CLIENTS = 8
KINDS = ("plain", "plain", "ask", "plain", "wait", "ask", "plain", "plain", "plain", "ask")

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "many", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}


class Asker:
    """Sends each request over a connection of its own, and counts what could not be answered."""

    def __init__(self, place: Place) -> None:
        self.port = place.port
        self.refused: list[str] = []
        self._lock, self._count = threading.Lock(), 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result; what is no result is kept in `refused`, and is empty here."""
        with self._lock:
            self._count += 1
            number = self._count
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            "Mcp-Name": params.get("name") or params["taskId"],
            "Connection": "close",
        }
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", "/mcp", json.dumps(body), headers)
            response = connection.getresponse()
            said = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200 or "result" not in said:
            self.refused.append(f"{method} {params.get('taskId')}: {response.status} {said}")
            return {}
        result: dict[str, Any] = said["result"]
        return result


def see_to(asker: Asker, number: int) -> tuple[str, dict[str, Any]]:
    """Begin one task, answer or cancel it, and look at it until it is over."""
    kind, answered = KINDS[number % len(KINDS)], False
    task = asker.ask("tools/call", name="work", arguments={"number": number, "kind": kind})
    assert task, asker.refused
    task_id = task["taskId"]
    if kind == "wait":
        asker.ask("tasks/cancel", taskId=task_id)
    for _ in range(1_000):
        task = asker.ask("tasks/get", taskId=task_id)
        if task.get("status") == "input_required" and not answered:
            answers = {key: {"action": "accept", "content": {}} for key in task["inputRequests"]}
            asker.ask("tasks/update", taskId=task_id, inputResponses=answers)
            answered = True
        elif task.get("status") not in ("working", "input_required"):
            break
    return kind, task


def test_each_of_2000_tasks_has_its_result_once_whichever_process_is_asked(tmp_path):
    with (
        gunicorn(tmp_path, "--workers", "4", app="served_tasks:app", MCP_THREADS="32") as place,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        asker = Asker(place)
        seen = list(clients.map(lambda number: see_to(asker, number), range(TASKS)))
        again = list(
            clients.map(
                lambda task: asker.ask("tasks/get", taskId=task["taskId"]), [task for _, task in seen]
            )
        )
    assert asker.refused == []
    ended = collections.Counter((kind, task["status"]) for kind, task in seen)
    kinds = collections.Counter(KINDS[number % len(KINDS)] for number in range(TASKS))
    assert ended == {
        ("plain", "completed"): kinds["plain"],
        ("ask", "completed"): kinds["ask"],
        ("wait", "cancelled"): kinds["wait"],
    }
    results = [task["result"]["structuredContent"] for kind, task in seen if kind != "wait"]
    assert results == [{"square": n * n} for n in range(TASKS) if KINDS[n % len(KINDS)] != "wait"]
    assert again == [task for _, task in seen]
    runs = collections.Counter((tmp_path / "runs").read_text().split())
    once = [str(n) for n in range(TASKS) if KINDS[n % len(KINDS)] != "wait"]
    assert {number: runs[number] for number in once} == dict.fromkeys(once, 1)
