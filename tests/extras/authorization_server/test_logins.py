"""extras/authorization_server/logins: passwords, and how often one may be tried."""

import threading

import pytest

from mcp_ref.extras.authorization_server import logins
from mcp_ref.extras.authorization_server.logins import Logins
from mcp_ref.extras.authorization_server.messages import PageError

HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def users():
    return Logins({"ada": "correct horse", "bob": "pass wörd"})


def test_name_and_password(users):
    assert users.log_in("ada", "correct horse", HERE) == "ada"
    assert users.log_in("bob", "pass wörd", HERE) == "bob"
    for name, password in ("ada", "wrong"), ("bob", "correct horse"), ("nemo", "correct horse"), ("", ""):
        assert users.log_in(name, password, HERE) is None


def test_passwords_are_not_kept(users):
    assert "correct horse" not in repr(vars(users._login))
    assert len({salt for salt, _ in users._login._hashes.values()}) == 2


def test_a_huge_password_is_wrong_without_being_hashed(users):
    assert users.log_in("ada", "a" * 1001, HERE) is None


@pytest.mark.parametrize("given", [{"ada": ""}, {"": "secret"}])
def test_a_user_has_a_name_and_a_password(given):
    with pytest.raises(ValueError):
        Logins(given)


@pytest.mark.parametrize("given", [{"ada": 7}, {7: "secret"}, 7])
def test_users_are_a_dict_or_a_function(given):
    with pytest.raises(TypeError):
        Logins(given)


def test_a_function_may_say_who_it_is():
    given = Logins(lambda name, password: f"user {name}" if password == "right" else None)
    assert given.log_in("ada", "right", HERE) == "user ada"
    assert given.log_in("ada", "wrong", HERE) is None


def test_after_too_many_wrong_passwords_an_address_waits_and_another_does_not():
    given = Logins(lambda name, password: name if password == "right" else None)
    for n in range(logins.ATTEMPTS_PER_ADDRESS):
        assert given.log_in(f"user{n}", "wrong", HERE) is None
    with pytest.raises(PageError, match="Too many attempts") as caught:
        given.log_in("ada", "right", HERE)
    assert caught.value.status == 429
    assert given.log_in("ada", "right", "10.0.0.1") == "ada"


def test_after_too_many_wrong_passwords_a_name_waits_wherever_they_come_from():
    given = Logins(lambda name, password: name if password == "right" else None)
    for n in range(logins.ATTEMPTS_PER_USER):
        assert given.log_in("ada", "wrong", f"10.0.0.{n}") is None
    with pytest.raises(PageError):
        given.log_in("ada", "right", HERE)
    assert given.log_in("bob", "right", HERE) == "bob"


def test_right_passwords_may_be_many():
    given = Logins(lambda name, password: name)
    assert {given.log_in("ada", "", HERE) for _ in range(100)} == {"ada"}


def test_few_passwords_are_hashed_at_once(monkeypatch):
    monkeypatch.setattr(logins, "SCRYPT_PARALLEL", 1)
    monkeypatch.setattr(logins, "HASH_WAIT_SECONDS", 0.01)
    given = Logins({"ada": "secret"})
    busy, done = threading.Barrier(logins.MAX_HASHES_AT_ONCE + 1), threading.Event()

    def hash_slowly(*_, **__):
        busy.wait()
        done.wait()
        return b""

    monkeypatch.setattr(logins.hashlib, "scrypt", hash_slowly)
    threads = [threading.Thread(target=given.log_in, args=("ada", "x", HERE)) for _ in range(2)]
    for thread in threads:
        thread.start()
    busy.wait()
    try:
        with pytest.raises(PageError, match="Too many people"):
            given.log_in("ada", "x", HERE)
    finally:
        done.set()
        for thread in threads:
            thread.join()
