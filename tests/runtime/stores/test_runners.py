"""runtime/stores/runners: which of the processes that share a store are alive."""

import errno
import fcntl
import os
import signal

import pytest
from peers import eventually
from store_peers import in_python

from mcp_ref.runtime.stores import runners as module
from mcp_ref.runtime.stores.runners import Runners

CHILD = """
from pathlib import Path
from mcp_ref.runtime.stores.runners import Runners
runners = Runners(Path(path))
runners.begin()
say(runners.name)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runners"


@pytest.fixture
def me(folder):
    made = Runners(folder)
    made.begin()
    yield made
    made.end()


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_runner_is_alive_from_its_begin_to_its_end(folder, me):
    other = Runners(folder)
    assert not me.is_alive(other.name)
    other.begin()
    other.begin()
    assert me.is_alive(other.name)
    other.end()
    other.end()
    assert not me.is_alive(other.name)
    assert names(folder) == [me.name]


def test_who_is_killed_is_dead_at_once(folder, me):
    with in_python(CHILD + "time.sleep(60)", folder) as other:
        name = other.hear()
        assert me.is_alive(name)
        assert me.dead() == []
        other.kill()
        assert not me.is_alive(name)
        assert me.dead() == [name]
        me.forget(name)
        me.forget(name)
        assert me.dead() == []
        assert not me.is_alive(name)


@pytest.mark.parametrize(
    "name", ["", "..", "../runners", "/etc/passwd", "x" * 32, "a" * 33, "\x00", "A" * 32]
)
def test_what_is_no_name_of_a_runner_is_dead(me, name):
    assert not me.is_alive(name)


def test_two_who_ask_at_once_do_not_take_each_other_for_the_runner(folder, me):
    dead = folder / ("0" * 32)
    dead.touch()
    with dead.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as who asks does
        assert me.dead() == [dead.name]


def test_a_file_has_its_name_only_when_it_is_locked(folder, me, monkeypatch):
    named = []
    rename = module.Path.rename

    def look(unnamed, target):
        named.append((module._is_locked(unnamed), target.exists()))
        return rename(unnamed, target)

    monkeypatch.setattr(module.Path, "rename", look)
    other = Runners(folder)
    other.begin()
    assert named == [(True, False)]
    other.end()


def test_who_cannot_begin_leaves_nothing_behind(folder, me, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(module.fcntl, "flock", fail)
    other = Runners(folder)
    with pytest.raises(OSError, match="no locks"):
        other.begin()
    assert names(folder) == [me.name]


def test_one_that_cannot_be_looked_at_is_not_taken_for_dead(folder, me, monkeypatch):
    name = "0" * 32
    (folder / name).touch()

    def fail(*arguments):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "open", fail)
        assert me.is_alive(name)
    assert not me.is_alive(name)


def test_what_was_left_without_a_name_is_removed_when_it_is_old(folder, me):
    old, new, strange = folder / ".new-old", folder / ".new-new", folder / "readme"
    for file in (old, new, strange):
        file.touch()
    os.utime(old, (1, 1))
    assert me.dead() == []
    assert names(folder) == sorted([".new-new", "readme", me.name])


def test_without_the_folder_all_others_are_dead_and_there_is_no_error(tmp_path):
    me = Runners(tmp_path / "none")
    assert me.dead() == []
    assert not me.is_alive("0" * 32)


def test_only_the_owner_may_look_into_the_folder(folder, me):
    assert folder.stat().st_mode & 0o777 == 0o700


FORKS = """
from mcp_ref.runtime.threads import forks
forks.register(runners)
if not os.fork():
    runners.begin()
    say(runners.name)
    say(os.getpid())
time.sleep(60)
"""


def test_a_forked_child_is_another_runner_and_does_not_keep_its_parent_alive(folder, me):
    with in_python(CHILD + FORKS, folder) as other:
        parent, child, child_pid = other.hear(), other.hear(), int(other.hear())
        assert parent != child
        assert me.is_alive(parent)
        assert me.is_alive(child)
        other.kill()
        assert not me.is_alive(parent)
        assert me.is_alive(child)
        os.kill(child_pid, signal.SIGKILL)
        assert eventually(lambda: not me.is_alive(child))


STARTS = """
program = [sys.executable, "-c", "print('up', flush=True); input()"]
subprocess.Popen(program, close_fds=False, stdin=subprocess.PIPE)
time.sleep(60)
"""


def test_a_program_that_is_started_does_not_inherit_the_lock(folder, me):
    with in_python(CHILD + STARTS, folder) as other:
        name = other.hear()
        assert other.hear() == "up"
        other.kill()
        assert not me.is_alive(name)


def test_what_the_hook_of_forks_does_in_this_process(folder):
    me = Runners(folder)
    me.begin()
    name = me.name
    me.forked()
    assert me.name != name
    assert Runners(folder).dead() == [name]  # here the copy was the only one
