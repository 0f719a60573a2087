"""A client of ours against the official Python SDK's servers over HTTP: all but tools, as over pipes.

The tests of test_official_server_features run here once more: against servers that answer with event
streams, and against ones that keep their events for clients that were cut off. 2024-11-05 goes over
HTTP+SSE. What is HTTP's own is in test_official_http_server, and so is how the SDK differs there.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest
from interop import test_official_server_features as features
from interop.http_children import serving
from interop.test_official_server_features import Person, Sessions
from peers import REVISIONS, nothing_left

from mcp_ref import Limit, connect

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
def fresh(options: str) -> Iterator[tuple[str, str]]:
    """One of each, for the tests that open a session of their own."""
    with (
        serving_official("official_features_server", options) as official,
        serving_official("official_lowlevel_features_server", options) as lowlevel,
    ):
        yield official, lowlevel


@pytest.fixture(autouse=True)
def over_http(fresh: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "OFFICIAL", fresh[0])
    monkeypatch.setattr(features, "LOWLEVEL", fresh[1])


@pytest.fixture(scope="module", params=REVISIONS)
def opened(
    request: pytest.FixtureRequest, options: str, tmp_path_factory: pytest.TempPathFactory
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
        serving_official("official_features_server", options) as one,
        serving_official("official_lowlevel_features_server", options) as other,
        connect(url_for(one, revision), **said) as official,
        connect(url_for(other, revision), **said) as lowlevel,
    ):
        yield Sessions(revision, official, lowlevel, person, notifications, directory)
