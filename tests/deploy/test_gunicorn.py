"""docs/deployment.rst, gunicorn: the application in a worker of type gthread."""

from deploy.checks import Checks, Ends, ask, call, text
from deploy.places import gunicorn
from deploy.wire import Session
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


def process(place):
    with call(place, "process") as answer:
        return text(answer.result())
