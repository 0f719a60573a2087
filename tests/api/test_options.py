"""api/options: what few servers and clients need to say, and how it is refused."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

from mcp_ref import ClientOptions, HttpOptions, Server, ServerOptions, connect
from mcp_ref.api.http_server import serve
from mcp_ref.api.options import FEATURES, AppOptions, RunOptions
from mcp_ref.basic.transports.streamable_http.endpoint import Application


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"description": 5}, TypeError),
        ({"icons": [{"src": "/x"}]}, ValueError),
        ({"identify": "no"}, TypeError),
        ({"logging": 1}, TypeError),
        ({"offers": ["telepathy"]}, ValueError),
        ({"experimental": [1]}, TypeError),
        ({"caching": {"tools/call": None}}, ValueError),
        ({"workers": 0}, ValueError),
        ({"queue": "long"}, TypeError),
        ({"notices": "10/s"}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"state_seconds": "x"}, TypeError),
        ({"ping_every": -1}, ValueError),
        ({"audit_arguments": None}, TypeError),
        ({"wrokers": 5}, TypeError),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_refused_by_its_name(given, error):
    (name,) = given
    with pytest.raises(error, match="icon" if name == "icons" else "cached" if name == "caching" else name):
        ServerOptions(**given)


def test_a_server_may_offer_all_features_at_once():
    server = Server("x", options=ServerOptions(offers=FEATURES))
    assert all(map(server.offers, FEATURES))


def test_options_serve_several_servers_and_never_change():
    options = ServerOptions(offers=iter(["tools"]))
    assert [Server(name, options=options).offers("tools") for name in ("a", "b")] == [True, True]
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.workers = 5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Server("x", workers=5), r"Server.__init__\(\) got an unexpected .* 'workers'"),
        (lambda: Server("x", options={"workers": 5}), "options is a ServerOptions, not {'workers': 5}"),
        (
            lambda: Server("x").wsgi_app(rate=5),
            "Server.wsgi_app got an unexpected keyword argument 'rate'; .*",
        ),
        (
            lambda: Server("x").wsgi_app(options=ServerOptions()),
            "options is an HttpOptions, not ServerOptions",
        ),
        (
            lambda: Server("x").run("http", rate=5),
            r'Server.run\("http"\) got an unexpected .* \'rate\'; .*grace',
        ),
        (
            lambda: Server("x").run(port=5),
            r'Server.run\("stdio"\) got an unexpected keyword .* \'port\'; write run\("http", port=\.\.\.\)$',
        ),
    ],
)
def test_an_unknown_keyword_is_refused_by_the_function_that_was_called(call, says):
    with pytest.raises(TypeError, match=says):
        call()


def test_the_keywords_that_are_handed_on_are_those_of_the_functions_that_get_them():
    app = inspect.signature(Application).parameters
    own = ["auth"]  # of which `Server.wsgi_app` makes the `authenticate` of an application
    assert list(AppOptions.__annotations__) == own + [name for name in app if name not in ("server", "path")]
    run = [name for name in inspect.signature(serve).parameters if name not in ("server", "more")]
    assert set(RunOptions.__annotations__) == {*AppOptions.__annotations__, *run}


def test_no_signature_of_a_server_is_long():
    for function in (Server.__init__, Application.__init__):
        assert len(inspect.signature(function).parameters) <= 1 + 12  # and `self`


@pytest.mark.parametrize("kind", [ServerOptions, HttpOptions])
def test_every_option_says_what_it_is(kind):
    source = Path(inspect.getsourcefile(kind)).read_text()
    for field in dataclasses.fields(kind):
        assert f"    {field.name}: " in source
        after = source.partition(f"    {field.name}: ")[2].partition("\n")[2]
        assert after.lstrip().startswith('"""'), field.name


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"name": 5}, TypeError),
        ({"title": 5}, TypeError),
        ({"revisions": []}, ValueError),
        ({"revisions": ["1999-01-01"]}, ValueError),
        ({"extensions": [1]}, TypeError),
        ({"elicitation_modes": ["telepathy"]}, ValueError),
        ({"sampling_review": "yes"}, TypeError),
        ({"ask_limit": 5}, TypeError),
        *(({"ask_timeout": odd}, ValueError) for odd in (0, -1, float("inf"))),
        ({"max_rounds": 0}, ValueError),
        ({"max_timeout": "long"}, TypeError),
        ({"ping_every": 0}, ValueError),
        ({"max_message_bytes": 0}, ValueError),
        ({"eras": "now"}, TypeError),
        ({"principal": []}, TypeError),
        ({"env": {"A": 5}}, TypeError),
        ({"on_stderr": 5}, TypeError),
        ({"grace": -1}, ValueError),
    ],
    ids=str,
)
def test_an_option_of_a_client_that_cannot_be_is_refused(given, error):
    with pytest.raises(error):
        ClientOptions(**given)


def test_connect_takes_fifteen_parameters_at_most_and_no_option_by_itself():
    *names, unknown = inspect.signature(connect).parameters
    assert unknown == "unknown"  # for the error that says what to write
    assert len(names) <= 15  # what most callers need, and no more
    assert not set(names) & {field.name for field in dataclasses.fields(ClientOptions)}
    with pytest.raises(TypeError, match=r"options is a ClientOptions, not \{'name': 'x'\}"):
        connect(Server("any"), options={"name": "x"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'grace'"):
        connect(Server("any"), grace=1)
