"""docs/deployment.rst, Flask: the server below /mcp, beside ordinary views."""

from deploy.checks import Checks, Ends
from deploy.places import Place, flask, flask_in_gunicorn
from deploy.wire import get


class Beside(Checks):
    def test_the_views_are_there(self, place: Place) -> None:
        with get(place, "/") as answer:
            assert (answer.status, answer.read()) == (200, b"deployed: the tools are at /mcp\n")
        with get(place, "/elsewhere") as answer:
            assert answer.status == 404


class TestFlask(Beside):
    start = staticmethod(flask_in_gunicorn)


class TestItsEnd(Ends):
    start = staticmethod(flask_in_gunicorn)
    patience = 15.0  # graceful_timeout, then SIGKILL


class TestForDevelopment(Beside):
    """Under the server that comes with Flask; SIGTERM kills it, so there is nothing to prove of its end."""

    start = staticmethod(flask)
