"""runtime/threads/forks: what is told in a forked child, and how such a child ends.

What follows for servers and clients is in tests/test_forks.py.
"""

import os
import subprocess
import sys
import textwrap

import pytest
from peers import ENV

from mcp_ref.runtime.threads import forks

OPENING = """
import os, sys
from mcp_ref.runtime.threads import forks

def waited(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(script):
    """What a program says."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OPENING + textwrap.dedent(script)],
        env={**os.environ, **ENV},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_what_has_said_so_is_told_in_the_child_and_only_there():
    said, _ = run(
        """
        class Thing:
            def forked(self):
                print("told", forks.count, flush=True)

        thing, gone = Thing(), Thing()
        forks.register(thing)
        forks.register(gone)
        forks.on_fork(lambda: print("called", forks.count, flush=True))
        del gone
        pid = os.fork()
        if not pid:
            os._exit(forks.count)
        print("child", waited(pid), "parent", forks.count, flush=True)
        """
    )
    assert said == ["called 1", "told 1", "child 1 parent 0"]


def test_one_that_fails_does_not_keep_the_others_from_being_told():
    said, errors = run(
        """
        def fails():
            raise LookupError("of its own")

        forks.on_fork(fails)
        forks.on_fork(lambda: print("called", flush=True))
        pid = os.fork()
        if not pid:
            os._exit(0)
        print("child", waited(pid))
        """
    )
    assert said == ["called", "child 0"]
    assert errors.endswith("LookupError: of its own\n")


@pytest.mark.parametrize(
    ("problem", "status", "told"),
    [
        ("None", 0, ""),
        ("SystemExit()", 0, ""),
        ("SystemExit(0)", 0, ""),
        ("SystemExit(7)", 7, ""),
        ("SystemExit('why')", 1, "why\n"),
        ("SystemExit(-1)", 255, ""),
        ("ValueError('why')", 1, "ValueError: why\n"),
        ("KeyboardInterrupt()", 1, "KeyboardInterrupt\n"),
    ],
)
def test_a_child_ends_as_a_program_would(problem, status, told):
    """At once: functions of `atexit` are the parent's. What it printed is not lost."""
    said, errors = run(
        f"""
        import atexit
        atexit.register(print, "at exit")
        pid = os.fork()
        if not pid:
            print("said by the child")
            try:
                forks.end_child({problem})
            finally:
                print("it goes on")
        print("child", waited(pid), flush=True)
        """
    )
    assert said == ["said by the child", f"child {status}", "at exit"]
    assert errors == told


# -- the same in this process, which is not forked: what the hook and the end do ------------------


class Ended(BaseException):
    """Instead of the end of this process."""


def test_each_thing_that_is_still_there_is_told_and_the_fork_is_counted(monkeypatch, capsys):
    monkeypatch.setattr(forks, "count", 5)
    monkeypatch.setattr(forks, "_functions", [])
    monkeypatch.setattr(forks, "_told", forks.WeakSet())
    told = []

    class Thing:
        def forked(self):
            told.append(forks.count)

    def fails():
        raise LookupError("of its own")

    thing, gone = Thing(), Thing()
    forks.on_fork(fails)
    forks.on_fork(lambda: told.append("called"))
    forks.register(thing)
    forks.register(gone)
    del gone
    forks._in_child()
    assert told == ["called", 6]
    assert capsys.readouterr().err.endswith("LookupError: of its own\n")


@pytest.mark.parametrize(
    ("problem", "status", "told"),
    [
        (None, 0, ""),
        (SystemExit(7), 7, ""),
        (SystemExit(-1), 255, ""),
        (SystemExit("why"), 1, "why\n"),
        (ValueError("why"), 1, "ValueError: why\n"),
    ],
)
def test_the_status_of_a_child_is_the_one_that_a_program_would_have(
    problem, status, told, monkeypatch, capsys
):
    statuses = []

    def end(status):
        statuses.append(status)
        raise Ended

    monkeypatch.setattr(forks.os, "_exit", end)
    with pytest.raises(Ended):
        forks.end_child(problem)
    assert statuses == [status]
    assert capsys.readouterr().err == told
