"""What mcp-ref prints."""

from __future__ import annotations

import io
import sys

import pytest

from mcp_ref.cli import show
from mcp_ref.client.calls import Result


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_server_is_shown_with_all_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    show.server(
        {
            "serverInfo": {"name": "n", "title": "T", "version": "1", "description": "about"},
            "revision": "2026-07-28",
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "instructions": "Do.",
        }
    )
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        "T 1",
        "  about",
        "  revision      2026-07-28",
        "  capabilities  tools (listChanged), logging",
        "  instructions  Do.",
    ]


def test_a_server_that_says_nothing_is_shown_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show.server({"serverInfo": {}, "revision": "2024-11-05", "capabilities": None, "instructions": None})
    assert "a server that does not say its name" in capsys.readouterr().out


def test_tools_show_kinds_and_what_is_optional(capsys: pytest.CaptureFixture[str]) -> None:
    show.tools([])
    schema = {
        "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": ["string", "null"]}, "c": True},
        "required": ["a"],
    }
    show.tools([{"name": "t", "title": "Title", "inputSchema": schema}])
    assert capsys.readouterr().out == "no tools\nt(a: x | y, [b: string | null], [c: any])\n    Title\n"


def test_every_kind_of_content_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show.result(
        Result(
            content=[
                {"type": "text", "text": "plain"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
                {"type": "resource", "resource": {"uri": "file:///b", "text": ""}},
            ]
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "plain",
        "[image: image/png, 3 bytes]",
        "[audio: audio/wav, 3 bytes]",
        "[a: file:///a]",
        "[resource: file:///b]",
    ]


def test_what_a_server_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show.result(Result(content=[{"type": "text", "text": "a\x1b[2Jb\nc\td"}]))
    assert capsys.readouterr().out == "a\ufffd[2Jb\nc\td\n"


def test_log_messages_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show.log_message("info", {"n": 1}, "db")
    show.log_message("error", "bad", None)
    assert capsys.readouterr().err == 'info: db: {"n": 1}\nerror: bad\n'


def test_progress_is_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with show.progress_line() as on_progress:
        assert on_progress is not None
        on_progress(5, 10, "half\nway")
        on_progress(7, None, None)
    said = terminal.getvalue()
    assert "[##########..........] 5 of 10 half way" in said
    assert "\x1b[K7 " in said
    assert said.endswith("\r\x1b[K")


def test_there_is_no_progress_line_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with show.progress_line() as on_progress:
        assert on_progress is None


def test_a_call_without_progress_leaves_the_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with show.progress_line():
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": []}, "t()"),
        ({"properties": 5}, "t()"),
        ({"properties": {"a": {}}, "required": 5}, "t([a: any])"),
        ({"properties": {"a": {"enum": 5}}}, "t([a: any])"),
        ({"properties": {"a": {"type": [1, {}]}}, "required": ["a"]}, "t(a: 1 | {})"),
        ({"properties": {"a": {"type": 5}}}, "t([a: 5])"),
        ({"properties": {"a\x1b[2J": None}}, "t([a\ufffd[2J: any])"),
    ],
)
def test_a_schema_without_sense_is_shown_as_far_as_it_has_any(
    capsys: pytest.CaptureFixture[str], schema: object, said: str
) -> None:
    show.tools([{"name": "t", "inputSchema": schema}])
    assert capsys.readouterr().out == said + "\n"


@pytest.mark.parametrize(
    "about", [{"description": " \n"}, {"title": "", "description": "\n\n"}, {"title": 5}]
)
def test_a_description_without_words_is_left_out(capsys: pytest.CaptureFixture[str], about: object) -> None:
    show.tools([{"name": "t", "inputSchema": {}, **about}])
    assert capsys.readouterr().out == "t()\n"


@pytest.mark.parametrize(("content", "said"), [(5, ""), ([5], "[5]\n"), ([None, {}], "[None]\n[{}]\n")])
def test_content_that_is_none_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str], content: object, said: str
) -> None:
    """As in a result that is not a finished one, and so was not checked."""
    show.result(Result(resultType="input_required", content=content))
    assert capsys.readouterr().out == said
