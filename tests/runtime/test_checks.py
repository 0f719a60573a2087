"""What users pass in: a wrong value is named with its parameter."""

from __future__ import annotations

import sys

import pytest
from choices import for_connect, for_server

from mcp_ref import Limit, Server, connect
from mcp_ref.runtime import checks

WRONG = [
    (lambda: checks.check_text(title=5), "title is a string, not 5"),
    (lambda: checks.check_text(version=None), "version is a string, not None"),
    (lambda: checks.check_text_if_any(title=5), "title is a string, not 5"),
    (lambda: checks.check_object(meta=[1]), r"meta is a dict whose keys are strings, not \[1\]"),
    (lambda: checks.check_object(meta={1: 2}), "meta is a dict whose keys are strings"),
    (lambda: checks.check_callable(on_log=5), "on_log is a function, not 5"),
    (lambda: checks.check_count(1, workers="x"), "workers is a whole number, not 'x'"),
    (lambda: checks.check_count(1, workers=True), "workers is a whole number, not True"),
    (lambda: checks.check_count(1, workers=0), "workers is at least 1, not 0"),
    (lambda: checks.check_seconds("timeout", "5"), "timeout is a number of seconds, not '5'"),
    (lambda: checks.check_seconds("timeout", True), "timeout is a number of seconds, not True"),
    *[
        (lambda value=value: checks.check_seconds("timeout", value), "timeout is a number of seconds above 0")
        for value in (0, -1, float("nan"), float("-inf"))
    ],
    *[
        (lambda value=value: checks.check_seconds("ttl", value), rf"ttl .* seconds below \d+, .*, not {said}")
        for value, said in ((1e30, r"1e\+30"), (float("inf"), "inf"), (10**400, "1(0){59}$"))
    ],
    *[
        (lambda text=text: checks.check_sendable(task_id=text), "task_id holds half a surrogate pair")
        for text in ("\ud800", "é\udfff", "x" * 9 + "\udc80")
    ],
    (lambda: checks.check_sendable(uri=None), "uri is a string, not None"),
    (lambda: checks.check_sendable(name="x", uri="\ud800"), "uri holds half a surrogate pair"),
]


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_value_is_named_with_its_parameter(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        call()


def test_what_is_right_or_not_given_passes():
    checks.check_text(a="x", b="\ud800")
    checks.check_sendable(a="x", b="", c="é\0", d="\U0001f600")
    checks.check_text_if_any(a="x", b=None)
    checks.check_object(a={}, b=None)
    checks.check_callable(a=print, b=None)
    checks.check_count(0, a=0)
    assert checks.check_seconds("timeout", 0.5) == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 5},
        {"title": 5},
        {"instructions": 5},
        {"lifespan": 5},
        {"experimental": 5},
        {"extensions": 5},
        {"limit": 5},
        {"notices": 5},
        {"workers": 0},
        {"queue": -1},
        {"timeout": "x"},
        {"max_message_bytes": "x"},
        {"page_size": "x"},
        {"page_size": 0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_server_names_what_it_was_given_wrongly(wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        Server("x", **for_server(wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": "x"},
        {"timeout": float("nan")},
        {"max_timeout": 0},
        {"grace": "x"},
        {"env": {"A": 1}},
        {"env": 5},
        {"revisions": []},
        {"on_log": 5},
        {"on_notification": 5},
        {"on_stderr": 5},
        {"confirm": 5},
        {"name": 5},
        {"max_message_bytes": "x"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_connect_names_what_it_was_given_wrongly_and_starts_nothing(wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        connect(["no-such-program"], **for_connect(**wrong))


def test_connect_takes_no_class_and_no_numbers_for_a_command():
    with pytest.raises(TypeError, match=r"a command, a \.py file or a Server"):
        connect(Server)
    with pytest.raises(TypeError, match="made of strings, not of 1"):
        connect([sys.executable, 1])


def test_a_client_names_what_it_was_given_wrongly_and_sends_nothing():
    server = Server("x", limit=Limit())
    server.add_tool(lambda: None, name="t")
    with connect(server) as client:
        sent = next(client.asker.connection._ids)
        for call, says in [
            (lambda: client.request(5), "method is a string"),
            (lambda: client.request("x", [1]), "params is a dict"),
            (lambda: client.request("x", {"_meta": 5}), "_meta is a dict"),
            (lambda: client.request("x", on_progress=5), "on_progress is a function"),
            (lambda: client.submit("x", on_progress=5), "on_progress is a function"),
            (lambda: client.request("x", timeout="5"), "timeout is a number of seconds"),
            (lambda: client.request("x", timeout=-1), "timeout is a number of seconds above 0"),
            (lambda: client.notify(5), "method is a string"),
            (lambda: client.notify("x", 5), "params is a dict"),
            (lambda: client.call_tool(5), "name is a string"),
            (lambda: client.call_tool("t", meta=5), "meta is a dict"),
            (lambda: client.call_tool("t", [1]), "arguments is a dict"),
        ]:
            with pytest.raises((TypeError, ValueError), match=says):
                call()
        assert next(client.asker.connection._ids) == sent + 1


def test_only_true_and_false_are_either():
    checks.check_bool(a=True, b=False)
    for wrong in ("no", 0, 1, None):
        with pytest.raises(TypeError, match="b is True or False, not"):
            checks.check_bool(a=True, b=wrong)


def test_a_keyword_that_a_function_does_not_have_is_refused_with_those_that_it_has():
    checks.check_names("run", ["path"], ["path", "threads"])
    with pytest.raises(
        TypeError, match=r"^run got an unexpected keyword argument 'pth'; there are path, threads$"
    ):
        checks.check_names("run", ["path", "pth"], ["path", "threads"])
    with pytest.raises(TypeError, match=r"^run got an unexpected keyword argument 'x'$"):
        checks.check_names("run", ["x"], ())
    elsewhere = {"port": "serve(port=...)"}
    with pytest.raises(TypeError, match=r"argument 'port'; write serve\(port=\.\.\.\)$"):
        checks.check_names("run", ["port"], ["path"], elsewhere)
    with pytest.raises(TypeError, match=r"argument 'x'; there are path$"):
        checks.check_names("run", ["x"], ["path"], elsewhere)


def test_the_keywords_of_a_function_are_those_that_it_hands_on_and_its_own():
    def run(place, *, path=None, threads=1):
        pass

    assert checks.keywords_of(run) == ["path", "threads"]
    assert checks.keywords_of(run, "replace") == ["path", "threads", "replace"]
