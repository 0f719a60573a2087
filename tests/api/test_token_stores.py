"""api/token_stores: where tokens are kept, and what a client makes of it."""

import threading
import time
from dataclasses import replace

import pytest
from peers import PATIENCE

from mcp_ref.api import token_stores
from mcp_ref.api.token_stores import FileTokens, KeptTokens, MemoryTokens
from mcp_ref.basic.authorization.index.authorization_flow import Tokens
from mcp_ref.runtime.errors import LocalError


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryTokens() if request.param == "memory" else FileTokens(tmp_path / "tokens")


@pytest.mark.spec(
    "basic/authorization/security-considerations/secure-token-storage",
    "basic/authorization/security-considerations/secure-token-storage-client",
    "basic/authorization/index/refresh-confidential",
)
def test_what_is_put_in_is_there_until_it_is_taken_out(store):
    assert store.get("a") is None
    given = {"x": 1}
    store.set("a", given)
    given["x"] = 2
    assert store.get("a") == {"x": 1}
    store.get("a")["x"] = 3
    assert store.get("a") == {"x": 1}
    store.delete("a")
    store.delete("a")
    assert store.get("a") is None
    store.set("hush", {"token": "hush"})
    assert "hush" not in repr(store)


def test_a_file_outlives_its_object_and_is_its_owners(tmp_path):
    FileTokens(tmp_path / "tokens").set("a", {"x": 1})
    again = FileTokens(tmp_path / "tokens")
    assert (again.get("a"), again.keys()) == ({"x": 1}, ["a"])
    assert (tmp_path / "tokens").stat().st_mode & 0o777 == 0o600


def test_a_key_is_locked_by_one_at_a_time(store, monkeypatch):
    monkeypatch.setattr(token_stores, "MAX_WAIT_SECONDS", 0.05)
    with store.lock("a"):
        with store.lock("b"):
            pass
        with pytest.raises(LocalError, match="has held"), store.lock("a"):
            pass
    monkeypatch.setattr(token_stores, "MAX_WAIT_SECONDS", PATIENCE)
    inside, order = threading.Event(), []

    def hold():
        with store.lock("a"):
            inside.set()
            time.sleep(0.05)
            order.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(PATIENCE)
    with store.lock("a"):
        order.append("second")
    thread.join(PATIENCE)
    assert order == ["first", "second"]


TOKENS = Tokens(
    "a1", "Bearer", "https://as.example", "https://mcp.example/mcp", refresh_token="r1", scopes=("x",)
)


def kept_in(store, place="https://mcp.example/mcp", client=None, token_type="Bearer"):
    return KeptTokens(store, place, client, token_type)


def test_tokens_are_kept_by_issuer_resource_and_client(store):
    kept = kept_in(store)
    assert (kept.last(), kept.server()) == (None, {})
    kept.keep(TOKENS)
    assert kept.last() == TOKENS
    assert kept_in(store, "https://other.example").last() is None
    assert kept_in(store, client="c").last() is None
    assert kept_in(store, token_type="DPoP").last() is None
    assert store.get("tokens https://as.example https://mcp.example/mcp")["access_token"] == "a1"
    kept_in(store, client="c").keep(replace(TOKENS, access_token="a2"), {"kty": "EC"})
    assert store.get("tokens https://as.example https://mcp.example/mcp c")["access_token"] == "a2"
    assert kept.server()["dpop_key"] == {"kty": "EC"}


@pytest.mark.parametrize("damage", [{"issuer": 5}, {"issuer": "i"}, {"issuer": "i", "resource": "r"}])
def test_what_is_damaged_in_a_store_is_as_good_as_lost(store, damage, caplog):
    store.set("server https://mcp.example/mcp", damage)
    kept = kept_in(store)
    for token in (5, "a b", "a\r\nb"):
        store.set("tokens i r", {**TOKENS.to_json(), "access_token": token})
        assert kept.last() is None
    is_read = "resource" in damage
    assert caplog.text.count("https://mcp.example/mcp is damaged, and begun anew: the tokens") == is_read
    store.set("tokens i r", {**TOKENS.to_json(), "issuer": "another"})
    assert kept_in(store).last() is None


def test_what_another_process_has_got_is_found(store):
    kept = kept_in(store)
    kept.keep(TOKENS)
    assert kept.newer(TOKENS) is None
    other = replace(TOKENS, access_token="a2", refresh_token="r2")
    kept.keep(other)
    assert kept.newer(TOKENS) == kept.latest(TOKENS) == other
    kept.keep(replace(other, expires_at=1.0))
    assert kept.newer(TOKENS) is None
    assert kept.latest(TOKENS).refresh_token == "r2"
    unknown = replace(TOKENS, issuer="https://new.example")
    assert (kept.newer(unknown), kept.latest(unknown)) == (None, unknown)
    with kept.lock(TOKENS):
        pass


def test_a_refresh_token_that_is_over_is_forgotten(store):
    kept = kept_in(store)
    kept.keep(TOKENS)
    assert kept.forget_refresh(TOKENS) == kept.last() == replace(TOKENS, refresh_token=None)


def test_what_is_kept_of_a_server_can_be_forgotten_and_the_registration_stays(store):
    kept = kept_in(store)
    assert not kept.forget()
    kept.keep(TOKENS)
    store.set(f"client {TOKENS.issuer}", {"client_id": "x"})
    assert kept.forget()
    assert (kept.last(), kept.server()) == (None, {})
    assert store.get(f"client {TOKENS.issuer}") == {"client_id": "x"}
    assert not kept.forget()
