"""A client of ours against the official Python SDK's servers over HTTP: all but tools, as over pipes.

The tests of test_official_server_features run here once more: against servers that answer with event
streams, and against ones that keep their events for clients that were cut off. 2024-11-05 goes over
HTTP+SSE. What is HTTP's own is in test_official_http_server, and so is how the SDK differs there.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from interop import test_official_server_features as features
from interop.http_children import connect_and_hear, serving
from interop.test_official_server_features import Person, Sessions
from peers import REVISIONS, nothing_left

from mcp_ref import Limit

KEPT = {"plain": "{}", "kept": json.dumps({"events": True, "retry_interval": 20})}

globals().update({name: it for name, it in vars(features).items() if name.startswith("test_")})
sessions, official, lowlevel = features.sessions, features.official, features.lowlevel


def url_for(url: str, revision: str) -> str:
    """2024-11-05 has a transport of its own."""
    return url.replace("/mcp", "/sse") if revision == "2024-11-05" else url


def serving_official(name: str, options: str) -> Any:
    """The SDK leaves it to uvicorn to end, which says so with the signal that ended it."""
    return serving("official_http_server.py", name, options, ends=-15)


@pytest.fixture(scope="module", params=KEPT)
def options(request: pytest.FixtureRequest) -> str:
    return KEPT[request.param]


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[str], tuple[str, str]]]:
    """The URLs of the two servers with these options, for all revisions: the SDK is slow to start."""
    started: dict[str, tuple[str, str]] = {}
    with nothing_left(), ExitStack() as children:

        def urls_of(options: str) -> tuple[str, str]:
            if options not in started:
                official, lowlevel = (
                    children.enter_context(serving_official(f"official_{kind}features_server", options))
                    for kind in ("", "lowlevel_")
                )
                started[options] = official, lowlevel
            return started[options]

        yield urls_of


@pytest.fixture(scope="module")
def urls(serve: Callable[[str], tuple[str, str]], options: str) -> tuple[str, str]:
    return serve(options)


@pytest.fixture(autouse=True)
def over_http(urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "OFFICIAL", urls[0])
    monkeypatch.setattr(features, "LOWLEVEL", urls[1])
    monkeypatch.setattr(features, "connect", connect_and_hear)


@pytest.fixture(scope="module", params=REVISIONS)
def opened(
    request: pytest.FixtureRequest, urls: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sessions]:
    notifications: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    person, revision = Person(), request.param
    directory = tmp_path_factory.mktemp("a root")
    said: dict[str, Any] = {
        "revision": revision,
        "elicitation": person.elicitation,
        "sampling": person.sampling,
        "sampling_tools": True,
        "sampling_context": True,
        "roots": [{"uri": directory.as_uri(), "name": "work"}],
        "ask_limit": Limit(),
        "on_notification": lambda method, params: notifications.put((method, params)),
    }
    with (
        nothing_left(),
        connect_and_hear(url_for(urls[0], revision), **said) as official,
        connect_and_hear(url_for(urls[1], revision), **said) as lowlevel,
    ):
        yield Sessions(revision, official, lowlevel, person, notifications, directory)
