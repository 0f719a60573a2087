"""cli/terminal: a person at a pseudo-terminal is asked by a server, and each line is read as a value."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
import termios
import threading
import time
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.cli import terminal
from mcp_ref.cli.terminal import Terminal, choice_label, display_value, parse_answer, prompt_for
from mcp_ref.client.elicitation.requested_schema import FormField, fields_of
from mcp_ref.schema import Mismatch

LIMIT = 20.0
ROOT = str(Path(__file__).resolve().parents[2])


class Question:
    """A question, with no more than what a callback is promised."""

    def __init__(self, properties: Any = None, *, required: Any = (), url: str | None = None) -> None:
        self.server = "weather"
        self.message = "What shall it be?"
        self.mode = "form" if url is None else "url"
        self.schema = {"type": "object", "properties": properties or {}, "required": list(required)}
        self.url = url
        self.over = threading.Event()

    @property
    def fields(self) -> Any:
        return fields_of(self.schema)

    @property
    def is_over(self) -> bool:
        return self.over.is_set()

    def accept(self, content: Any = None) -> Any:
        return "accept", content

    def decline(self) -> Any:
        return "decline"

    def cancel(self) -> Any:
        return "cancel"


class Person:
    """Sits before the terminal: sees what is written there, and types."""

    def __init__(self) -> None:
        self.screen, self.line = pty.openpty()
        self.terminal = Terminal(os.ttyname(self.line))
        self.seen = ""
        self._results: list[Any] = []
        self._threads: list[threading.Thread] = []

    def is_asked(self, question: Any) -> None:
        def run() -> None:
            self._results.append(self.terminal.ask(question))

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def sees(self, text: str) -> str:
        """Waits for a text; returns all that came since the last time, up to its end."""
        until = time.monotonic() + LIMIT
        while text not in self.seen:
            ready = select.select([self.screen], [], [], max(0, until - time.monotonic()))[0]
            assert ready, f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.screen, 65_536).decode().replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def types(self, text: str, end: str = "\n") -> None:
        os.write(self.screen, (text + end).encode())

    def answers(self, *lines: str) -> str:
        """One line after each prompt."""
        said = ""
        for line in lines:
            said += self.sees(" > ")
            self.types(line)
        return said

    def outcome(self) -> Any:
        self._threads[0].join(LIMIT)
        assert not self._threads.pop(0).is_alive()
        return self._results.pop(0)

    def close(self) -> None:
        os.close(self.screen)
        os.close(self.line)


@pytest.fixture
def person():
    somebody = Person()
    yield somebody
    somebody.close()


# -------------------------------------------------------------------------------- forms

NAME = {"type": "string", "title": "Name", "description": "As on your passport"}
COLOR = {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]}
SOME = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "maxItems": 2}


@pytest.mark.spec(
    "client/elicitation/ui-identifies-server",
    "client/elicitation/ui-identifies-server-should",
    "client/elicitation/indicate-server",
    "client/elicitation/indicate-server-should",
    "client/elicitation/clear-presentation",
    "client/elicitation/approval-controls",
)
def test_who_asks_and_what_is_shown_first(person):
    person.is_asked(Question({"name": NAME}, required=["name"]))
    assert person.answers("Mona", "send") == (
        "\nThis server asks you something:\n| weather\nIt says:\n| What shall it be?\n"
        "Say !decline to refuse and !cancel (or Ctrl-C) to leave it, whenever you like.\n"
        "\n1 of 1, required: a text\n| Name\n| As on your passport\nyour answer > "
        "Mona\n\nYour answers, not sent yet:\n  1  | Name: Mona\nsend, change, decline or cancel? > "
    )
    assert person.outcome() == ("accept", {"name": "Mona"})


def test_each_kind_of_field_is_asked_for(person):
    fields = {
        "name": NAME,
        "height": {"type": "number"},
        "age": {"type": "integer", "minimum": 18},
        "sure": {"type": "boolean"},
        "color": COLOR,
        "some": SOME,
        "day": {"type": "string", "format": "date"},
    }
    person.is_asked(Question(fields, required=fields))
    said = person.answers("Mona", "1.75", "30", "y", "2", "3, 1", "2026-07-28", "s")
    assert "    1  | Red (#f00)\n    2  | Blue (#00f)\n" in said
    assert "  6  | some: c, a\n" in said
    assert person.outcome() == (
        "accept",
        {
            "name": "Mona",
            "height": 1.75,
            "age": 30,
            "sure": True,
            "color": "#00f",
            "some": ["c", "a"],
            "day": "2026-07-28",
        },
    )


@pytest.mark.spec("client/elicitation/defaults-prefilled")
def test_an_empty_answer_takes_the_default_or_leaves_the_field_out(person):
    fields = {
        "color": {**COLOR, "default": "#00f"},
        "some": {**SOME, "default": ["b"]},
        "sure": {"type": "boolean", "default": False},
        "note": {"type": "string"},
    }
    person.is_asked(Question(fields))
    said = person.answers("", "", "", "", "send")
    assert "An empty answer takes this:\n| Blue (#00f)\n" in said
    assert "An empty answer takes this:\n| no\n" in said
    assert "An empty answer leaves it out.\n" in said
    assert "  4  | note: (left out)\n" in said
    assert person.outcome() == ("accept", {"color": "#00f", "some": ["b"], "sure": False})


@pytest.mark.spec("client/elicitation/client-validates-responses")
def test_an_answer_that_does_not_fit_is_named_and_asked_for_again(person):
    person.is_asked(Question({"name": {**NAME, "minLength": 3}, "color": COLOR}, required=["name"]))
    said = person.answers("", "ab", "abc", "3", "1", "send")
    assert "That does not fit: it must not be left empty.\n" in said
    assert "That does not fit: it must be at least 3 long, not 'ab'.\n" in said
    assert "That does not fit: it must be a number from 1 to 2.\n" in said
    assert person.outcome() == ("accept", {"name": "abc", "color": "#f00"})


def test_too_many_wrong_answers_cancel(person):
    person.is_asked(Question({"age": {"type": "integer"}}, required=["age"]))
    person.answers(*["x"] * terminal.MAX_ATTEMPTS)
    person.sees("(cancelled after too many attempts)")
    assert person.outcome() == "cancel"


@pytest.mark.spec("client/elicitation/review-before-send", "client/elicitation/review-before-send-should")
def test_answers_can_be_looked_at_and_changed_before_they_are_sent(person):
    person.is_asked(Question({"name": NAME, "age": {"type": "integer"}}, required=["name"]))
    said = person.answers(
        "Mona", "3", "change", "0", "x", "2", "30", "ch", "2", "!none", "change", "1", "", "send"
    )
    assert said.count("That does not fit: it must be a number from 1 to 2.") == 2
    assert "An empty answer takes this; !none leaves it out:\n| 3\n" in said
    assert "  2  | age: 30\n" in said
    assert "  2  | age: (left out)\n" in said
    assert person.outcome() == ("accept", {"name": "Mona"})


def test_the_only_answer_is_the_one_to_change(person):
    person.is_asked(Question({"name": NAME}))
    person.answers("Mona", "change", "Lisa", "send")
    assert person.outcome() == ("accept", {"name": "Lisa"})


def test_a_form_without_fields_is_a_confirmation(person):
    person.is_asked(Question())
    assert person.answers("accept").endswith("you like.\naccept, decline or cancel? > ")
    assert person.outcome() == ("accept", {})


@pytest.mark.parametrize(
    ("word", "outcome"),
    [("y", ("accept", {})), ("Yes", ("accept", {})), ("n", "decline"), ("no", "decline")],
)
def test_a_confirmation_takes_yes_and_no(person, word, outcome):
    person.is_asked(Question())
    person.answers(word)
    assert person.outcome() == outcome


@pytest.mark.parametrize(
    ("word", "outcome"), [("decline", "decline"), ("d", "decline"), ("CANCEL", "cancel"), ("ca", "cancel")]
)
def test_a_review_may_end_with_decline_or_cancel(person, word, outcome):
    person.is_asked(Question({"name": NAME}))
    person.answers("Mona", word)
    assert person.outcome() == outcome


def test_an_unknown_or_ambiguous_action_is_asked_for_again(person):
    person.is_asked(Question({"name": NAME}))
    said = person.answers("Mona", "", "c", "yes", "send")
    assert said.count("That does not fit: it must be one of these words.") == 2
    assert "That does not fit: it must be longer, since it could be change or cancel." in said
    assert person.outcome() == ("accept", {"name": "Mona"})


def test_too_many_unknown_actions_cancel(person):
    person.is_asked(Question())
    person.answers(*["perhaps"] * terminal.MAX_ATTEMPTS)
    assert person.outcome() == "cancel"


def test_too_many_wrong_numbers_cancel(person):
    person.is_asked(Question({"a": NAME, "b": NAME}))
    person.answers("", "", "change", *["9"] * terminal.MAX_ATTEMPTS)
    assert person.outcome() == "cancel"


def test_of_many_choices_some_are_shown_and_all_can_be_chosen(person):
    person.is_asked(Question({"n": {"type": "string", "enum": [f"v{n}" for n in range(1, 1001)]}}))
    said = person.answers("1000", "send")
    assert "  200  | v200\n       and others, up to number 1000\n" in said
    assert "v201" not in said
    assert person.outcome() == ("accept", {"n": "v1000"})


# ---------------------------------------------------------------------------- no, at any time


@pytest.mark.spec(
    "client/elicitation/decline-anytime",
    "client/elicitation/privacy-decline",
    "client/elicitation/privacy-decline-should",
)
@pytest.mark.parametrize("word", ["decline", "cancel"])
@pytest.mark.parametrize("before", [[], ["Mona"], ["Mona", "3"], ["Mona", "3", "change"]], ids=len)
def test_a_person_may_say_no_at_any_prompt(person, word, before):
    person.is_asked(Question({"name": NAME, "age": {"type": "integer"}}))
    person.answers(*before, f"!{word}")
    assert person.outcome() == word


@pytest.mark.parametrize(
    "key", ["\x03", "\x04", "half a line\x03"], ids=["ctrl-c", "ctrl-d", "ctrl-c in a line"]
)
def test_a_key_cancels_the_question_and_not_the_program(person, key):
    person.is_asked(Question({"name": NAME}))
    person.sees(" > ")
    person.types(key, end="")
    person.sees("(cancelled)")
    assert person.outcome() == "cancel"


def test_ctrl_d_within_a_line_is_not_its_end(person):
    person.is_asked(Question({"name": NAME}))
    person.sees(" > ")
    person.types("Mo\x04", end="")
    person.types("na")
    person.answers("send")
    assert person.outcome() == ("accept", {"name": "Mona"})


def test_a_terminal_that_is_hung_up_cancels():
    somebody = Person()
    somebody.is_asked(Question({"name": NAME}))
    somebody.sees(" > ")
    somebody.close()
    assert somebody.outcome() == "cancel"


def test_an_answer_without_end_cancels(person, monkeypatch):
    monkeypatch.setattr(terminal, "MAX_ANSWER_BYTES", 1000)
    person.is_asked(Question({"name": NAME}))
    person.sees(" > ")
    person.types("x" * 1001)
    person.sees("(cancelled)")
    assert person.outcome() == "cancel"


# ------------------------------------------------------------------------- strangers' text


def test_what_a_server_wrote_steers_no_terminal(person):
    question = Question(
        {"name": {"type": "string", "title": "\x1b[2JName", "description": "\x9b5n", "default": "\x07"}}
    )
    question.server, question.message = "wea\x1b[8mther", "Hello\n\x1b]0;title\x07"
    person.is_asked(question)
    said = person.answers("")
    person.answers("cancel")
    assert said.isprintable() or set(filter(lambda c: not c.isprintable(), said)) == {"\n"}
    assert "| wea\ufffd[8mther\n" in said
    assert person.outcome() == "cancel"


def test_text_of_a_server_cannot_be_taken_for_the_programs(person):
    question = Question({"name": NAME})
    question.message = "Hello " + "x" * 70 + " and accept\nThis server asks you something:\n| your bank"
    person.is_asked(question)
    said = person.answers("!cancel")
    ours = [line for line in said.split("\n") if not line.startswith("| ")]
    assert ours.count("This server asks you something:") == 1
    assert "| | your bank" in said
    assert person.outcome() == "cancel"


def test_a_flood_of_text_does_not_hide_who_asks(person):
    question = Question({"name": NAME})
    question.message = "\n" * 1_000_000
    person.is_asked(question)
    assert person.answers("!cancel").count("\n") < 80
    assert person.outcome() == "cancel"


# --------------------------------------------------------------------------------- URLs


@pytest.mark.spec(
    "client/elicitation/url-shown-in-full",
    "client/elicitation/url-highlight-domain",
    "client/elicitation/url-domain-consent",
    "client/elicitation/url-no-prefetch",
    "client/elicitation/url-no-open-without-consent",
    "client/elicitation/url-opened-securely",
)
def test_a_url_is_shown_whole_with_its_host_and_not_opened(person, monkeypatch):
    def touched(*given: Any) -> Any:
        raise AssertionError(f"something was opened: {given}")

    monkeypatch.setattr(webbrowser, "open", touched)
    monkeypatch.setattr(socket, "getaddrinfo", touched)
    monkeypatch.setattr(socket.socket, "connect", touched)
    monkeypatch.setattr(subprocess, "Popen", touched)
    url = "https://example.com.evil.example:8443/connect?" + "x" * 3000
    person.is_asked(Question(url=url))
    said = person.answers("accept")
    assert f"\n{url}\n" in said
    assert "\nIt leads to this host:\n| example.com.evil.example\n" in said
    assert "Careful" not in said
    assert "It is not opened for you." in said
    assert person.outcome() == ("accept", None)


@pytest.mark.parametrize(
    ("word", "outcome"), [("decline", "decline"), ("!decline", "decline"), ("cancel", "cancel")]
)
def test_a_url_may_be_refused(person, word, outcome):
    person.is_asked(Question(url="https://example.com/"))
    person.answers(word)
    assert person.outcome() == outcome


@pytest.mark.spec("client/elicitation/url-suspicious-warning", "client/elicitation/url-handled-carefully")
def test_warnings_are_shown_before_consent(person):
    person.is_asked(Question(url="http://me@xn--exmple-cua.com/\x1b[8m"))
    said = person.answers("!cancel")
    assert "| http://me@xn--exmple-cua.com/\ufffd[8m\n" in said
    assert said.count("Careful: ") == 4
    assert person.outcome() == "cancel"


# ------------------------------------------------------------------- questions of the program


class Choosing:
    """`choose` on a thread of its own."""

    def __init__(self, person: Person) -> None:
        self.over = threading.Event()
        self._found: list[str | None] = []
        self._thread = threading.Thread(target=self._choose, args=(person.terminal,), daemon=True)
        self._thread.start()

    def _choose(self, terminal: Terminal) -> None:
        self._found.append(terminal.choose("stay or leave?", ["stay", "leave"], self.over.is_set))

    def outcome(self) -> str | None:
        self._thread.join(LIMIT)
        return self._found[0]


@pytest.mark.parametrize(("line", "word"), [("stay", "stay"), ("L", "leave"), ("", ""), (" s ", "stay")])
def test_a_word_may_be_shortened_and_an_empty_line_is_a_choice(person, line, word):
    choosing = Choosing(person)
    assert person.sees(" > ") == "\nstay or leave? > "
    person.types(line)
    assert choosing.outcome() == word


def test_a_wrong_word_is_explained_and_asked_for_again(person):
    choosing = Choosing(person)
    person.answers("go")
    assert "it must be one of these words" in person.answers("leave")
    assert choosing.outcome() == "leave"


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["ctrl-c", "ctrl-d"])
def test_a_key_leaves_without_a_choice(person, key):
    choosing = Choosing(person)
    person.sees(" > ")
    person.types(key, end="")
    person.sees("(no answer)")
    assert choosing.outcome() is None


def test_there_is_no_choice_any_more_when_it_is_over(person):
    choosing = Choosing(person)
    person.sees(" > ")
    choosing.over.set()
    assert choosing.outcome() is None


def test_a_choice_waits_for_its_turn_and_may_be_over_by_then(person):
    question = Question({"name": NAME})
    person.is_asked(question)
    person.sees(" > ")
    first, second = Choosing(person), Choosing(person)
    first.over.set()
    assert first.outcome() is None
    person.types("!cancel")
    person.answers("stay")
    assert (person.outcome(), second.outcome()) == ("cancel", "stay")


def test_where_no_person_can_be_asked_there_is_no_choice(tmp_path):
    assert Terminal(tmp_path / "none").choose("?", ["yes"], lambda: False) is None


# ---------------------------------------------------------------------------- the terminal


def test_a_question_that_is_over_leaves_the_terminal(person):
    question = Question({"name": NAME})
    person.is_asked(question)
    person.sees(" > ")
    question.over.set()
    person.sees("(this question is over: an answer would come too late)")
    assert person.outcome() == "cancel"


def test_a_question_ends_when_its_time_is_over(person, monkeypatch):
    monkeypatch.setattr(terminal, "FOR_PEOPLE", 0.3)
    person.is_asked(Question({"name": NAME}))
    person.sees("(this question is over: an answer would come too late)")
    assert person.outcome() == "cancel"


def test_a_terminal_that_takes_no_output_blocks_no_thread(person):
    """Nobody reads what is written, as after Ctrl-S."""
    question = Question({str(n): {**NAME, "description": "word " * 100} for n in range(1000)})
    question.message = "word " * 100_000
    termios.tcflow(person.line, termios.TCOOFF)
    try:
        person.is_asked(question)
        question.over.set()
        assert person.outcome() == "cancel"
    finally:
        termios.tcflow(person.line, termios.TCOON)


def test_one_question_after_another(person):
    first, second = Question({"name": NAME}), Question({"name": NAME})
    first.server, second.server = "first", "second"
    person.is_asked(first)
    person.sees("| first\n")
    person.is_asked(second)
    said = person.answers("Mona", "send")
    assert "second" not in said
    assert person.outcome() == ("accept", {"name": "Mona"})
    person.sees("| second\n")
    person.answers("Lisa", "send")
    assert person.outcome() == ("accept", {"name": "Lisa"})


def test_a_question_may_be_over_while_it_waits_for_its_turn(person):
    first, second = Question({"name": NAME}), Question({"name": NAME})
    person.is_asked(first)
    person.sees(" > ")
    second.over.set()
    assert person.terminal.ask(second) == "cancel"
    person.types("!decline")
    assert person.outcome() == "decline"


def test_what_was_typed_before_a_prompt_is_no_answer(person):
    person.types("Eve\nsend")
    person.is_asked(Question({"name": NAME}))
    person.sees("your answer > ")
    person.types("Mona\nsend")  # in one go, before anybody could look at the answers
    person.sees("decline or cancel? > ")
    person.types("!cancel")
    assert person.outcome() == "cancel"


@pytest.mark.parametrize("end", ["send", "!cancel"])
def test_the_terminal_is_afterwards_as_it_was(person, end):
    quiet = termios.tcgetattr(person.line)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(person.line, termios.TCSANOW, quiet)
    person.is_asked(Question({"name": NAME}))
    person.sees(" > ")
    during = termios.tcgetattr(person.line)
    assert during[3] & termios.ECHO
    assert during[6][termios.VINTR] != quiet[6][termios.VINTR]
    person.types("Mona")
    person.answers(end)
    person.outcome()
    assert termios.tcgetattr(person.line) == quiet


def test_the_lines_are_as_wide_as_the_terminal(person):
    termios.tcsetwinsize(person.line, (24, 30))
    question = Question({"name": NAME})
    question.message = "word " * 20
    person.is_asked(question)
    quoted = [line for line in person.answers("!cancel").split("\n") if line.startswith("| word")]
    assert quoted[0] == "| word word word word word"
    assert person.outcome() == "cancel"


@pytest.mark.parametrize("where", ["nowhere", "file", "null"])
def test_without_a_terminal_the_question_is_cancelled(tmp_path, where, caplog):
    path = {"nowhere": tmp_path / "nothing", "file": tmp_path / "file", "null": Path("/dev/null")}[where]
    (tmp_path / "file").write_text("!accept")
    assert Terminal(path).ask(Question()) == "cancel"
    assert "cannot ask on the terminal" in caplog.text


def test_a_schema_that_is_no_form_cancels(person, caplog):
    person.is_asked(Question({"it": {"type": "object"}}))
    assert person.outcome() == "cancel"
    assert "properties.it.type" in caplog.text


QUESTION = """
import fcntl, os, sys, termios, threading
from mcp_ref.cli import terminal

class Question:
    server, message, mode, url, fields = "weather", "Sure?", "form", None, []
    is_over = False
    accept, decline = (lambda self, content: "accepted"), (lambda self: "declined")
    cancel = lambda self: "cancelled"
"""
CONTROLLED = f"""{QUESTION}
for path in sys.argv[1:]:  # the terminal that is to control this process
    fcntl.ioctl(os.open(path, os.O_RDWR), termios.TIOCSCTTY, 0)
print(terminal.ask(Question()), file=sys.stderr)
"""
BEHIND = f"""{QUESTION}
fcntl.ioctl(os.open(sys.argv[1], os.O_RDWR), termios.TIOCSCTTY, 0)
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    os.setpgid(0, 0)
    print(terminal.ask(Question()), file=sys.stderr)
"""
ENDING = f"""{QUESTION}
threading.Thread(target=terminal.Terminal(sys.argv[1]).ask, args=[Question()], daemon=True).start()
sys.stdin.read()
"""


def child(script, *arguments):
    """A process in a session of its own, in which stdin and stdout are no terminal."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


def test_the_controlling_terminal_is_asked_whatever_stdin_and_stdout_are(person):
    with child(CONTROLLED, person.terminal.path) as process:
        person.answers("accept")
        assert process.communicate(timeout=LIMIT) == ("", "accepted\n")


def test_a_process_without_a_terminal_cancels():
    with child(CONTROLLED) as process:
        said, faults = process.communicate(timeout=LIMIT)
    assert (said, faults.splitlines()[-1]) == ("", "cancelled")


def test_a_process_in_the_background_cancels(person):
    """It would be stopped as soon as it read."""
    with child(BEHIND, person.terminal.path) as process:
        said, faults = process.communicate(timeout=LIMIT)
    assert (said, faults.splitlines()[-1]) == ("", "cancelled")


def test_a_program_that_ends_meanwhile_leaves_the_terminal_as_it_was(person):
    before = termios.tcgetattr(person.line)
    with child(ENDING, person.terminal.path) as process:
        person.sees(" > ")
        assert termios.tcgetattr(person.line) != before
        process.communicate("", timeout=LIMIT)
    assert termios.tcgetattr(person.line) == before


# ------------------------------------------------------------------------------- the lines


def field(**about) -> FormField:
    return fields_of({"type": "object", "properties": {"it": about}})[0]


A_TEXT = field(type="string", maxLength=5)
A_NUMBER = field(type="number", minimum=0, maximum=1000)
A_WHOLE_NUMBER = field(type="integer")
A_BOOLEAN = field(type="boolean")
A_CHOICE = field(type="string", oneOf=[{"const": "#f00", "title": "Red"}, {"const": "Blue", "title": "Blue"}])
SOME_CHOICES = field(type="array", items={"type": "string", "enum": ["a", "b", "c"]}, minItems=1, maxItems=2)


@pytest.mark.parametrize(
    ("form_field", "line", "value"),
    [
        (A_TEXT, "a bc", "a bc"),
        (A_TEXT, "!x", "!x"),
        (A_NUMBER, "12", 12),
        (A_NUMBER, "+0.5", 0.5),
        (A_NUMBER, "1e2", 100.0),
        (A_WHOLE_NUMBER, "-7", -7),
        (A_WHOLE_NUMBER, "1e1", 10.0),
        (A_BOOLEAN, "y", True),
        (A_BOOLEAN, "YES", True),
        (A_BOOLEAN, "true", True),
        (A_BOOLEAN, "n", False),
        (A_BOOLEAN, "false", False),
        (A_CHOICE, "1", "#f00"),
        (A_CHOICE, "02", "Blue"),
        (SOME_CHOICES, "1", ["a"]),
        (SOME_CHOICES, "3, 1", ["c", "a"]),
        (SOME_CHOICES, " 1 2 ,1", ["a", "b"]),
        (field(type="array", items={"type": "string", "enum": ["a"]}), "0", []),
        (field(type="string", format="date"), "2026-07-28", "2026-07-28"),
    ],
)
def test_a_line_that_fits_is_parsed_as_a_value_of_its_type(form_field, line, value):
    parsed = parse_answer(form_field, line)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("form_field", "line", "fault"),
    [
        (A_TEXT, "", "must not be left empty"),
        (A_TEXT, "abcdef", "must be at most 5 long"),
        (A_TEXT, "a\x1b[D", "must not contain control characters"),
        (A_NUMBER, "", "must not be left empty"),
        (A_NUMBER, "many", "must be a number such as 0.5"),
        (A_NUMBER, "1_000", "must be a number such as 0.5"),
        (A_NUMBER, "１２", "must be a number such as 0.5"),
        (A_NUMBER, "-1", "must be at least 0"),
        (A_NUMBER, "1e999", "must be a number"),
        (A_NUMBER, "9" * 5000, "must be a number such as 0.5"),
        (A_WHOLE_NUMBER, "x", "must be a number such as 12"),
        (A_WHOLE_NUMBER, "0.5", "must be an integer"),
        (A_BOOLEAN, "perhaps", "must be yes or no"),
        (A_CHOICE, "Red", "must be a number from 1 to 2"),
        (A_CHOICE, "0", "must be a number from 1 to 2"),
        (A_CHOICE, "3", "must be a number from 1 to 2"),
        (SOME_CHOICES, "1, d", "must be a number from 1 to 3"),
        (SOME_CHOICES, ",", "must be a number from 1 to 3"),
        (SOME_CHOICES, "0", "must have at least 1 of the choices"),
        (SOME_CHOICES, "1 2 3", "must have at most 2 of the choices"),
        (field(type="string", format="email"), "nobody", "must be an e-mail address"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_the_reason(form_field, line, fault):
    with pytest.raises(Mismatch) as caught:
        parse_answer(form_field, line)
    assert str(caught.value).startswith(fault)


@given(
    st.sampled_from([A_TEXT, A_NUMBER, A_WHOLE_NUMBER, A_BOOLEAN, A_CHOICE, SOME_CHOICES]),
    st.text(max_size=8) | st.text("0123456789 ,.e-"),
)
def test_any_line_is_parsed_as_a_value_that_fits_or_refused(form_field, line):
    try:
        form_field.check(parse_answer(form_field, line))
    except Mismatch as problem:
        assert str(problem).startswith("must ")


@pytest.mark.parametrize(
    ("form_field", "words"),
    [
        (A_TEXT, "a text; at most 5 long"),
        (field(type="string", format="email", minLength=3), "an e-mail address; at least 3 long"),
        (field(type="string", format="hostname"), "a text"),
        (A_NUMBER, "a number; at least 0; at most 1000"),
        (A_WHOLE_NUMBER, "a whole number"),
        (A_BOOLEAN, "yes or no"),
        (A_CHOICE, "the number of one of these"),
        (
            SOME_CHOICES,
            "numbers of these, such as 1, 3, or 0 for none; at least 1 of them; at most 2 of them",
        ),
    ],
)
def test_a_prompt_says_what_to_type(form_field, words):
    assert prompt_for(form_field) == words


@pytest.mark.parametrize(
    ("form_field", "value", "text"),
    [
        (A_TEXT, "abc", "abc"),
        (A_NUMBER, 0.5, "0.5"),
        (A_BOOLEAN, True, "yes"),
        (A_BOOLEAN, False, "no"),
        (A_CHOICE, "#f00", "Red (#f00)"),
        (A_CHOICE, "Blue", "Blue"),
        (SOME_CHOICES, ["c", "a"], "c, a"),
        (SOME_CHOICES, [], "none of them"),
    ],
)
def test_a_value_is_shown_as_a_person_reads_it(form_field, value, text):
    assert display_value(form_field, value) == text


def test_a_title_does_not_hide_the_value_that_is_sent():
    assert choice_label("delete-everything", "Keep all") == "Keep all (delete-everything)"
