"""How far a `tools/call` walks through the package on a server, measured on a warm call in a real process.

A reader follows a call from file to file. What each transport may ask of them is in `MOST`, and what it asks
of them is in docs/architecture.rst; the numbers there are those that are measured here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from peers import ENV, MODERN, PATIENCE, RawClient

from mcp_ref import connect

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
CALLS = 20
"""The shortest walk counts: the first calls import what is imported late."""


class Walk(NamedTuple):
    """How far one call goes."""

    functions: int
    modules: int
    changes_of_file: int


MOST = {"stdio": Walk(43, 14, 26), "http": Walk(71, 20, 44)}


Functions = list[list[tuple[str, str]]]
"""Of each thread that takes part, those it calls, one after another: (module, name)."""


def walk_over_stdio(file: Path) -> None:
    command = [sys.executable, str(HERE / "walked_server.py"), "stdio", str(file)]
    with RawClient(command, revision=MODERN) as raw:
        for _ in range(CALLS):
            answer = raw.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            assert answer["result"]["structuredContent"] == {"result": 3}
        assert raw.is_alive()  # the last call is over
        raw.end_input()
        assert raw.wait() == 0


def walk_over_http(file: Path) -> None:
    command = [sys.executable, str(HERE / "walked_server.py"), "http", str(file)]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        with connect(child.stdout.readline().strip(), revision=MODERN) as client:
            for _ in range(CALLS):
                assert client.call_tool("add", {"a": 1, "b": 2}).structured == {"result": 3}
            client.ping()
        child.terminate()
        assert child.wait(PATIENCE) == 0


def measure(threads: Functions) -> Walk:
    functions = {function for thread in threads for function in thread}
    modules = [[module for module, name in thread] for thread in threads]
    changes = sum(before != after for thread in modules for before, after in pairwise(thread))
    return Walk(len(functions), len(set(chain.from_iterable(modules))), changes)


@pytest.fixture(scope="module", params=["stdio", "http"])
def walked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Walk]:
    transport: str = request.param
    file = tmp_path_factory.mktemp("walk") / "walk.json"
    {"stdio": walk_over_stdio, "http": walk_over_http}[transport](file)
    walks = json.loads(file.read_text())
    assert len(walks) == CALLS
    return transport, min(
        measure([[(module, name) for module, name in thread] for thread in walk]) for walk in walks
    )


def test_a_call_does_not_walk_further_than_a_reader_follows(walked: tuple[str, Walk]) -> None:
    transport, walk = walked
    assert all(length <= most for length, most in zip(walk, MOST[transport], strict=True)), walk


def test_the_book_says_how_far_a_call_walks(walked: tuple[str, Walk]) -> None:
    transport, walk = walked
    text = (DOCS / "architecture.rst").read_text()
    row = re.search(rf"^{transport} +(\d+) +(\d+) +(\d+)$", text, re.M)
    assert row is not None
    assert Walk(*map(int, row.groups())) == walk
