"""docs/deployment.rst, nginx: gunicorn behind it, by the site of docs/examples/deploy and by defaults."""

from functools import partial

from deploy.checks import Checks, Ends, call, text
from deploy.places import nginx
from deploy.wire import get


class TestNginx(Checks):
    start = staticmethod(nginx)


class TestDefaults(Checks):
    """Nothing but `proxy_pass`: HTTP/1.0 to the server, and buffering."""

    start = staticmethod(partial(nginx, defaults=True))


class TestItsEnd(Ends):
    start = staticmethod(nginx)
    patience = 15.0  # graceful_timeout, then SIGKILL


# The proxy's patience is 60 seconds, unless somebody says otherwise.


def test_a_silence_longer_than_that_of_the_proxy_is_filled_with_comments(tmp_path):
    with (
        nginx(tmp_path, more="proxy_read_timeout 4s;", MCP_KEEP_ALIVE="0.2") as place,
        call(place, "silent", {"name": "one"}) as answer,
    ):
        assert all(answer.piece().startswith(b":") for _ in range(10))  # each half a second at least
        place.go("one")
        assert text(answer.result()) == "one is done"


def test_without_comments_the_proxy_gives_up_and_the_call_is_cancelled(tmp_path):
    """Why keep_alive must be less than the proxy's patience."""
    with nginx(tmp_path, more="proxy_read_timeout 1s;", MCP_KEEP_ALIVE="60") as place:
        with call(place, "silent", {"name": "one"}) as answer:
            assert answer.status == 504
        place.wait("one.cancelled")


def test_the_host_that_the_client_named_is_checked(tmp_path):
    with nginx(tmp_path, MCP_HOSTS="mcp.example 127.0.0.1") as place:
        for host, strange in {"mcp.example": False, "127.0.0.1": False, "stranger.example": True}.items():
            with get(place, "/mcp", Host=host) as answer:
                assert (answer.status == 403) == strange, (host, answer.status)
