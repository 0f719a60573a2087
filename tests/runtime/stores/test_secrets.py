"""runtime/stores/secrets: a file that its owner alone reads, whole at every moment."""

import os
import stat
import subprocess
import sys
import threading
import time

import pytest
from peers import ENV, PATIENCE

from mcp_ref.runtime.stores import secrets as module
from mcp_ref.runtime.stores.secrets import SecretFile
from mcp_ref.runtime.stores.store import StoreError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "tokens"


def test_what_is_put_in_is_there_until_it_is_taken_out(path):
    kept = SecretFile(path)
    assert kept.get("a") is None
    assert not path.exists()
    kept.set("a", {"x": "\u20ac"})
    kept.set("b", {})
    assert SecretFile(str(path)).get("a") == {"x": "\u20ac"}
    assert kept.keys() == ["a", "b"]
    kept.delete("a")
    kept.delete("a")
    assert kept.get("a") is None
    assert kept.get("b") == {}


def test_the_home_of_the_user_is_known(path, monkeypatch):
    monkeypatch.setenv("HOME", str(path.parent))
    assert SecretFile("~/tokens").path == path


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_read_what_is_made(path):
    before = os.umask(0)
    try:
        kept = SecretFile(path)
        kept.set("a", {})
        with kept.lock("a"):
            pass
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    assert {mode(file) for file in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize("others", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_of_another_mode(path, others):
    kept = SecretFile(path)
    kept.set("a", {"token": "hush"})
    path.chmod(others)
    for step in (lambda: kept.get("a"), lambda: kept.set("b", {}), lambda: kept.delete("a")):
        with pytest.raises(
            StoreError, match=rf"{path} has mode {others:04o}: other users may .* chmod 600"
        ) as told:
            step()
        assert "hush" not in str(told.value)
    path.chmod(0o600)
    assert kept.get("a") == {"token": "hush"}


def test_a_file_of_another_user_is_not_used(path, monkeypatch):
    kept = SecretFile(path)
    kept.set("a", {})
    monkeypatch.setattr(module.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StoreError, match="belongs to another user"):
        kept.get("a")


def test_what_is_no_file_is_not_used(path):
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"is no file|cannot be read"):
        SecretFile(path).get("a")
    os.mkfifo(path.with_name("pipe"), 0o600)
    with pytest.raises(StoreError, match="is no file"):
        SecretFile(path.with_name("pipe")).get("a")


@pytest.mark.parametrize("text", [b"", b'{"a": {"x"', b"\0" * 50, b"[]", b"5", b'{"a": 1, "a": 2}', b"\xff"])
def test_files_truncated_and_corrupted_are_begun_anew_with_a_warning(path, text, caplog):
    kept = SecretFile(path)
    kept.set("a", {"x": "hush"})
    path.write_bytes(text)
    assert kept.get("a") is None
    assert f"{path} is damaged, and begun anew" in caplog.text
    assert "hush" not in caplog.text
    kept.set("b", {"y": 1})
    assert (kept.get("a"), kept.get("b")) == (None, {"y": 1})


def test_a_file_that_is_too_long_is_begun_anew(path, monkeypatch, caplog):
    monkeypatch.setattr(module, "MAX_SECRET_BYTES", 20)
    kept = SecretFile(path)
    kept.set("a", {"x": "y" * 100})
    assert kept.get("a") is None
    assert "longer than 20 bytes" in caplog.text


def test_a_value_of_another_type_is_none(path):
    SecretFile(path).set("a", {})
    path.write_text('{"a": 5}')
    assert SecretFile(path).get("a") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_told(path):
    kept = SecretFile(path)
    kept.set("a", {})
    path.chmod(0o000)
    with pytest.raises(StoreError, match="cannot be read: Permission denied"):
        kept.get("a")


def test_a_place_that_cannot_be_used_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be locked: Not a directory|cannot be locked: File exists"):
        SecretFile(tmp_path / "file" / "tokens").set("a", {})
    with pytest.raises(StoreError, match="cannot be read: Not a directory"):
        SecretFile(tmp_path / "file" / "tokens").get("a")


def test_what_cannot_be_written_leaves_what_was_there(path, monkeypatch):
    kept = SecretFile(path)
    kept.set("a", {"x": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        kept.set("a", {"x": 2})
    assert kept.get("a") == {"x": 1}
    assert sorted(file.name for file in path.parent.iterdir()) == ["tokens", "tokens.lock"]


def test_what_another_process_left_half_written_is_of_no_account(path):
    kept = SecretFile(path)
    kept.set("a", {"x": 1})
    path.with_name(f"tokens.{os.getpid()}.new").write_text("{half")
    kept.set("b", {})
    assert kept.keys() == ["a", "b"]


def test_threads_that_write_at_once_lose_nothing(path):
    kept = SecretFile(path)
    threads = [threading.Thread(target=kept.set, args=[str(n), {"n": n}]) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(int, kept.keys())) == list(range(20))


def test_a_lock_keeps_others_out_of_the_same_key_alone(path, monkeypatch):
    kept, other = SecretFile(path), SecretFile(path)
    with kept.lock("a"):
        with other.lock("b", 0.1):
            other.set("b", {})
        begun = time.monotonic()
        with (
            pytest.raises(StoreError, match=r"another process has held its lock for 0\.05 s"),
            other.lock("a", 0.05),
        ):
            pass
        assert time.monotonic() - begun < PATIENCE / 2
    with other.lock("a", 0.1):
        pass


HOLDS = """
import sys
from mcp_ref.runtime.stores.secrets import SecretFile
with SecretFile(sys.argv[1]).lock("a"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_keeps_other_processes_out_and_ends_with_its_process(path):
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(
        command, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="another process"), SecretFile(path).lock("a", 0.05):
            pass
        child.kill()
        with SecretFile(path).lock("a", PATIENCE):
            pass


def test_it_shows_no_more_than_its_place(path):
    kept = SecretFile(path)
    kept.set("a", {"x": "hush"})
    assert repr(kept) == f"SecretFile({str(path)!r})"
