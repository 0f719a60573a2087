"""docs/deployment.rst, gunicorn: the application in a worker of type gthread."""

import signal

from deploy.checks import Checks, Ends, ask, call, text
from deploy.places import gunicorn
from deploy.wire import Session, modern
from peers import eventually


class TestGunicorn(Checks):
    start = staticmethod(gunicorn)


class TestItsEnd(Ends):
    start = staticmethod(gunicorn)
    patience = 15.0  # graceful_timeout, then SIGKILL


# -- more than one process -----------------------------------------------------------------------------


def test_processes_that_share_a_secret_go_on_with_each_others_questions(tmp_path):
    with gunicorn(tmp_path, "--workers", "2", MCP_SECRET="a secret that both processes know") as place:
        assert eventually(lambda: len({process(place) for _ in range(10)}) == 2)
        assert {ask(place) for _ in range(20)} == {"a table for 2"}


def test_a_session_of_the_legacy_era_is_not_known_to_another_process(tmp_path):
    """The limit that the page names: it is told, and nothing hangs."""
    with gunicorn(tmp_path, "--workers", "2") as place:
        assert eventually(lambda: Session(place).opening == 404)


# -- other ends, other beginnings ------------------------------------------------------------------------


def test_a_worker_that_is_replaced_ends_its_streams(tmp_path):
    """SIGHUP: the new worker answers, the old one is not waited for until its patience is over."""
    with (
        gunicorn(tmp_path) as place,
        modern(place, "subscriptions/listen", {"notifications": {}}, "s") as stream,
    ):
        assert stream.message() is not None
        before = process(place)
        place.process.send_signal(signal.SIGHUP)
        assert stream.rest()[-1]["id"] == "s"
        assert eventually(lambda: process(place) not in (before, None))
        assert eventually(lambda: int(before) not in place.left())


def test_a_worker_that_has_served_its_number_ends_its_streams(tmp_path):
    with gunicorn(tmp_path, "--max-requests", "5") as place, Session(place).listen() as stream:
        assert stream.status == 200
        first = process(place)
        assert eventually(lambda: process(place) not in (first, None))
        assert stream.rest() == []


def test_an_application_that_is_made_before_the_fork_works_and_ends(tmp_path):
    with gunicorn(tmp_path, "--preload") as place:
        assert ask(place) == "a table for 2"
        with call(place, "silent", {"name": "one"}):
            place.wait("one.began")
        place.wait("one.cancelled")
        place.terminate()
        assert place.exit(5.0) == 0


def test_what_was_used_before_the_fork_hears_of_changes_after_it(tmp_path):
    """The process that imported it had threads, timers and a client: none of them is in the worker."""
    with (
        gunicorn(tmp_path, "--preload", app="warm:app") as place,
        modern(place, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "s") as stream,
    ):
        assert stream.message()["method"] == "notifications/subscriptions/acknowledged"
        with call(place, "grow", {"name": "another"}) as answer:
            assert text(answer.result()) == "another"
        assert stream.message()["method"] == "notifications/tools/list_changed"
        assert ask(place) == "a table for 2"


def test_with_one_thread_calls_work_and_what_needs_two_is_refused(tmp_path):
    with gunicorn(tmp_path, MCP_THREADS="1") as place:
        session = Session(place, elicitation={})
        with session.call("book") as answer:
            assert answer.result()["isError"]
        with session.listen() as answer:
            assert answer.status == 503
        with modern(place, "subscriptions/listen", {"notifications": {}}) as answer:
            assert answer.status == 503
        with session.call("add", {"a": 2, "b": 3}) as answer:
            assert text(answer.result()) == "5"
        assert ask(place) == "a table for 2"


def process(place):
    """Which one answers; none, while the one that has accepted the connection is about to go."""
    with call(place, "process") as answer:
        return None if answer.status == 503 else text(answer.result())
