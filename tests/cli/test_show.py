"""What mcp-ref prints."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mcp_ref.api.results import Result
from mcp_ref.basic.patterns.subscriptions.server import Change
from mcp_ref.cli import show


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.spec("schema/title-fallback")
@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"title": "Own", "annotations": {"title": "Annotated"}}, ["t()", "    Own"]),
        ({"annotations": {"title": "Annotated"}}, ["t()", "    Annotated"]),
        ({"annotations": {}}, ["t()"]),
        ({"annotations": ["odd"]}, ["t()"]),
    ],
)
def test_the_title_of_a_tool_is_its_own_else_that_of_its_annotations_and_its_name_is_there_anyway(
    more: dict[str, object], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show.tools([{"name": "t", "inputSchema": {}, **more}])
    assert capsys.readouterr().out.splitlines() == shown


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


def test_json_cannot_steer_the_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": "\x1b[2J \x9b2J \u202e \U000e0001 caf\u00e9 \U0001f600\n\x7f"}
    show.as_json(value)
    said = capsys.readouterr().out
    assert json.loads(said) == value
    assert all(line.isprintable() for line in said.splitlines())
    assert "caf\u00e9 \U0001f600" in said


def test_json_is_indented_by_two(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_json({"a": {"b": [1, "é"]}})
    expected = '{\n  "a": {\n    "b": [\n      1,\n      "é"\n    ]\n  }\n}\n'
    assert capsys.readouterr().out == expected


def test_log_messages_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show.log_message("info", {"n": 1}, "db")
    show.log_message("error", "bad", None)
    assert capsys.readouterr().err == 'info: db: {"n": 1}\nerror: bad\n'


def test_progress_is_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with show.ProgressLine() as line:
        assert line.on_progress is not None
        line.on_progress(5, 10, "half\nway")
        line.on_progress(7, None, None)
    said = terminal.getvalue()
    assert "[##########..........] 5 of 10 half way" in said
    assert "\x1b[K7 " in said
    assert said.endswith("\r\x1b[K")


def test_there_is_no_progress_line_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with show.ProgressLine() as line:
        assert line.on_progress is None


def test_a_call_without_progress_leaves_the_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with show.ProgressLine():
        pass
    assert terminal.getvalue() == ""


def test_the_progress_line_is_hidden_while_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with show.ProgressLine() as line:
        assert line.on_progress is not None
        line.on_progress(1, None, "before")

        def ask(question: str) -> str:
            assert line.on_progress is not None
            assert terminal.getvalue().endswith("\r\x1b[K")
            line.on_progress(2, None, "meanwhile")
            assert "meanwhile" not in terminal.getvalue()
            return f"answer to {question}"

        assert line.hidden_during(ask)("a question") == "answer to a question"
        assert terminal.getvalue().endswith("2 meanwhile")  # what was last reported is shown again
        line.on_progress(3, None, "after")
    assert "3 after" in terminal.getvalue()


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
def test_an_invalid_schema_is_shown_as_far_as_it_is_valid(
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
def test_invalid_content_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str], content: object, said: str
) -> None:
    """As in a result that is not a finished one, and so was not checked."""
    show.result(Result(resultType="input_required", content=content))
    assert capsys.readouterr().out == said


def test_resources_and_templates_are_shown_by_their_uris(capsys: pytest.CaptureFixture[str]) -> None:
    show.resources([], [])
    show.resources(
        [
            {"uri": "a:b", "name": "b", "mimeType": "text/plain", "size": 5, "description": "The\nwhole"},
            {"uri": "a:\x1b[2J", "name": "c", "title": "C"},
        ],
        [{"uriTemplate": "a:{d}", "name": "d", "mimeType": "image/png"}],
    )
    assert capsys.readouterr().out.splitlines() == [
        "no resources",
        "a:b  text/plain, 5 bytes",
        "    b",
        "    The",
        "a:\ufffd[2J",
        "    C",
        "a:{d}  image/png",
        "    d",
    ]


def test_prompts_show_which_arguments_are_optional(capsys: pytest.CaptureFixture[str]) -> None:
    show.prompts([])
    show.prompts(
        [
            {"name": "p", "arguments": [{"name": "a", "required": True}, {"name": "b"}], "description": "P."},
            {"name": "q"},
        ]
    )
    assert capsys.readouterr().out.splitlines() == ["no prompts", "p(a, [b])", "    P.", "q()"]


BLOB = {"uri": "a:b", "mimeType": "image/png", "blob": "AAECAw=="}


def test_what_was_read_is_shown_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show.contents(Result(contents=[{"uri": "a:a", "text": "line\n"}]))
    show.contents(Result(contents=[{"uri": "a:a", "text": "no end\x1b[2J"}, BLOB, {"uri": "c:", "blob": ""}]))
    assert capsys.readouterr().out.splitlines() == [
        "line",
        "[a:a]",
        "no end\ufffd[2J",
        "[a:b]",
        "[blob: image/png, 4 bytes; --output FILE saves it]",
        "[c:]",
        "[blob: unknown type, 0 bytes; --output FILE saves it]",
    ]


def test_what_was_read_can_be_had_byte_for_byte() -> None:
    assert show.as_bytes(Result(contents=[{"uri": "a:a", "text": "caf\u00e9\x1b"}, BLOB])) == (
        b"caf\xc3\xa9\x1b\x00\x01\x02\x03"
    )


def test_a_message_stands_below_who_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    """So that no text can look like the next message."""
    show.messages(
        Result(
            messages=[
                {"role": "user", "content": {"type": "text", "text": "one\nassistant:\x07"}},
                {"role": "assistant", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
                {"role": "user", "content": {"type": "text", "text": ""}},
            ]
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "user:",
        "    one",
        "    assistant:\ufffd",
        "assistant:",
        "    [image: image/png, 3 bytes]",
        "user:",
        "    ",
    ]


def test_suggestions_stand_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    show.suggestions(Result(completion={"values": ["a", "b\x1b"], "total": 7, "hasMore": True}))
    show.suggestions(Result(completion={"values": ["c"], "hasMore": True}))
    show.suggestions(Result(completion={"values": []}))
    said = capsys.readouterr()
    assert said.out == "a\nb\ufffd\nc\n"
    assert said.err == "the first 2 of 7\nthe first 1\n"


def test_a_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for in_json in False, True:
        show.change(Change("tools"), in_json)
        show.change(Change("resource", "a:b"), in_json)
    lines = ["tools", "a:b", '{"kind": "tools"}', '{"kind": "resource", "uri": "a:b"}']
    assert capsys.readouterr().out.splitlines() == lines


def test_a_name_is_one_line_whatever_it_holds(capsys):
    name = "t\r\nFAKE: prompt\u2028\tx"
    show.tools([{"name": name, "inputSchema": {"type": "object"}}])
    show.prompts([{"name": name}])
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 2
    assert all("\\nFAKE: prompt" in line for line in out.splitlines())


def test_no_text_of_a_servers_begins_a_line_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    show.log_message("error", "a\nmcp-ref: b\x1b[2J", None)
    show.stderr_line("c\x1b]0;title\x07")
    assert capsys.readouterr().err == "error: a\n  mcp-ref: b\ufffd[2J\nc\ufffd]0;title\ufffd\n"


# ------------------------------------------------------------------------------------ tasks

TIMES = {"createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:09Z"}


def test_tasks_are_a_line_each_with_what_the_server_says_below(capsys: pytest.CaptureFixture[str]) -> None:
    show.tasks([])
    show.tasks([{"taskId": "a\n\x1b", "status": "working", "statusMessage": "x\ny"}])
    show.tasks([{"taskId": "b", "status": "failed"}, {"taskId": "c", "status": "completed"}])
    said = capsys.readouterr().out.splitlines()
    assert said == ["no tasks", "a\\n\ufffd  working", "    x\\ny", "b  failed", "c  completed"]


@pytest.mark.parametrize(
    ("ttl", "kept"),
    [
        ({"ttl": 60000}, "for 60 s from its creation"),
        ({"ttlMs": 500}, "for 0.5 s from its creation"),
        ({"ttl": None}, "for ever"),
        ({"ttlMs": None}, "for ever"),
    ],
)
def test_a_task_is_shown_with_its_times_in_the_words_of_either_era(
    capsys: pytest.CaptureFixture[str], ttl: dict[str, int | None], kept: str
) -> None:
    show.task({"taskId": "a", "status": "working", **TIMES, **ttl})
    assert capsys.readouterr().out.splitlines() == [
        "a  working",
        "    created 2026-07-28T10:00:00Z, last changed 2026-07-28T10:00:09Z",
        f"    kept {kept}",
    ]


def shown_on(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal that stderr is from now on; not a fixture, after which pytest would take it back."""
    monkeypatch.setenv("COLUMNS", "80")
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    return found


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("building (3 of 10)", "[######..............] 3 of 10 building"),
        ("3 of 10", "[######..............] 3 of 10 "),
        ("2.5 of 5", "[##########..........] 2.5 of 5 "),
        ("1e+06 of 2e+06", "[##########..........] 1e+06 of 2e+06 "),
        ("0 of 0", "0 "),
        ("3 of 10 files", "working: 3 of 10 files"),
        ("x3 of 10", "working: x3 of 10"),
        ("1.2.3 of 4.5.6", "working: 1.2.3 of 4.5.6"),
        ("9" * 400 + " of 9", "working: " + "9" * 70),
        ("", "working"),
        (None, "working"),
        ("a\x1b[2J\nb", "working: a\ufffd[2J b"),
    ],
)
def test_how_far_a_task_is_is_read_from_the_end_of_its_message(
    monkeypatch: pytest.MonkeyPatch, message: str | None, shown: str
) -> None:
    """As a task of 2026-07-28 says it, which sends no progress."""
    terminal = shown_on(monkeypatch)
    show.TaskLine().on_status("working", message)
    assert terminal.getvalue() == f"\r\x1b[K{shown}"


def test_the_bar_of_a_task_stays_while_its_message_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(monkeypatch)
    line = show.TaskLine()
    assert line.on_progress is not None
    line.on_status("working", None)
    line.on_progress(1, 2, "half")
    line.on_status("working", None)
    line.on_status("working", "painting")
    line.on_status("input_required", None)
    shown = ["working", "[##########..........] 1 of 2 half", "[##########..........] 1 of 2 painting"]
    assert terminal.getvalue().split("\r\x1b[K")[1:] == [*shown, "input_required"]


def test_what_is_said_stays_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(monkeypatch)
    with show.TaskLine() as line:
        line.on_status("working", None)
        line.say("task a\x1b")
    assert terminal.getvalue() == ("\r\x1b[Kworking\r\x1b[Kmcp-ref: task a\ufffd\n\r\x1b[Kworking\r\x1b[K")


def test_without_a_terminal_each_status_is_a_line_and_what_is_said_of_it_one_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(show.time, "monotonic", lambda: now[0])
    line = show.TaskLine()
    assert line.on_progress is not None
    line.say("task a")
    line.on_status("working", None)
    line.on_progress(1, 9, "first")
    line.on_progress(2, 9, "too soon")
    now[0] += show.PLAIN_SECONDS
    line.on_status("working", "second\nline\x1b")
    line.on_status("working", None)
    line.on_status("input_required", "asking")
    line.on_status("completed", None)
    now[0] += show.PLAIN_SECONDS
    line.on_progress(9, 9, "too late")
    assert capsys.readouterr().err.splitlines() == [
        "mcp-ref: task a",
        "mcp-ref: working",
        "mcp-ref: working: first (1 of 9)",
        "mcp-ref: working: second\\nline\ufffd",
        "mcp-ref: input_required: asking",
        "mcp-ref: completed",
    ]
