"""What the tests of HTTP http share."""

import os

import pytest


@pytest.fixture
def own_environment(monkeypatch, tmp_path):
    """No proxies and no netrc but those of the test."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def at(own_environment):
    """A function that gives the http with a server; they are closed afterwards."""
    from mcp_ref.runtime.http_client.client import HttpClient

    made = []

    def make(site, **options):
        made.append(HttpClient(site if isinstance(site, str) else site.url, **options))
        return made[-1]

    yield make
    for http in made:
        http.close()
