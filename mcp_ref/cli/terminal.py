"""Elicitation at a terminal (page: client/elicitation): a callback that asks a person, line by line.

    connect(target, elicitation=terminal.ask)

    who asks, and what for         a mark stands before each line that the server wrote
    field by field                 title, description, choices, default: an empty answer takes the default;
                                   a wrong answer is explained, and the field is asked for again
    send, change, decline, cancel  nothing is sent before the person has looked at it
    or, for a URL                  the whole address, its host by itself, what is suspicious about it; it is
                                   never opened nor fetched: the person opens it in a browser of their own

`!decline` and `!cancel` are understood everywhere; Ctrl-D and Ctrl-C cancel the question, not the program.
The controlling terminal is asked, since stdin and stdout may be anything else: a connection to the server,
for one. Without a controlling terminal the question is cancelled.

`prompt_for`, `parse_answer` and `display_value` are apart from the dialogue, for other clients that ask by
lines of text, such as a chat.

Errors      `ask` raises none: what goes wrong with a terminal cancels the question. `parse_answer` raises
            Mismatch, whose text begins with "must".
Threads     `ask` runs on the thread that answers (api/callbacks), one question after another on each
            terminal. While it waits for its turn or for a key, it looks every POLL_SECONDS whether the
            question is over.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from mcp_ref.client.elicitation.requested_schema import FormField
from mcp_ref.client.elicitation.requests import host_of, warnings_about
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.threads.pipes import terminal_is_ready
from mcp_ref.runtime.typing.formats import FORMATS
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.untrusted_text import plain, quoted

__all__ = ["Terminal", "ask", "choose", "display_value", "parse_answer", "prompt_for"]

_log = logger("mcp_ref.elicitation")

Value = TypeVar("Value")

POLL_SECONDS = 0.1
"""Seconds between two looks whether the question is over."""
MAX_ATTEMPTS = 5
"""Wrong answers to one prompt, after which the question is cancelled."""
MAX_ANSWER_BYTES = 65_536
"""Bytes of one answer; a longer one cancels the question."""
MAX_MESSAGE_LINES, MAX_LABEL_LINES, MAX_URL_LINES = 60, 8, 2_000
"""Lines shown of a message or an answer, of a title, description, choice or host, and of a URL."""
MAX_CHOICES_SHOWN = 200
"""Choices of one field that are listed; the numbers of further ones are understood all the same."""


class Terminal:
    """One terminal, by the path of its device."""

    def __init__(self, path: str | os.PathLike[str] = "/dev/tty") -> None:
        self.path = path
        self._turn = threading.Lock()

    def ask(self, question: Any) -> Any:
        """Ask the person; returns what `question.accept`, `.decline` or `.cancel` makes of it."""
        deadline = time.monotonic() + FOR_PEOPLE
        if not self._take_turn(question, deadline):
            return question.cancel()
        try:
            with _open_terminal(self.path) as terminal:
                content = _ask_for_content(_Dialog(terminal, question, deadline))
        except _NoContent as end:
            return question.decline() if end.declined else question.cancel()
        except (OSError, ValueError, termios.error) as problem:
            _log.warning("cannot ask on the terminal %s: %s", self.path, problem)
            return question.cancel()
        finally:
            self._turn.release()
        return question.accept(content)

    def choose(self, prompt: str, words: list[str], is_over: Callable[[], bool]) -> str | None:
        """Ask the person for one of the words, which they may shorten; returns it, or "" for an empty line.

        Returns None for Ctrl-C and Ctrl-D, if `is_over` says that there is nothing to choose any more, and
        where no person can be asked.
        """
        question, deadline = _Choice(is_over), time.monotonic() + FOR_PEOPLE
        if not self._take_turn(question, deadline):
            return None
        try:
            with _open_terminal(self.path) as terminal:
                dialog = _Dialog(terminal, question, deadline, cancelled="(no answer")
                dialog.discard_input()
                dialog.say("")
                return dialog.ask(prompt, lambda line: _parse_action(words, line) if line else "")
        except (_NoContent, OSError, ValueError, termios.error):
            return None
        finally:
            self._turn.release()

    def _take_turn(self, question: Any, deadline: float) -> bool:
        """Wait until no other question is asked here; False if this one is over before that."""
        while not self._turn.acquire(timeout=POLL_SECONDS):
            if question.is_over or time.monotonic() > deadline:
                return False
        return True


class _Choice:
    """A question of this program, not of a server."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over

    @property
    def is_over(self) -> bool:
        return self._is_over()


_here = Terminal()
ask = _here.ask
"""Asks the person at the controlling terminal of this process; the callback for `connect`."""
choose = _here.choose
"""Asks the same person how this program goes on."""


# -------------------------------------------------------------------------- the terminal


class _NoContent(Exception):
    """The person declined, or the question was cancelled, is over or has failed."""

    def __init__(self, *, declined: bool = False) -> None:
        self.declined = declined


@contextlib.contextmanager
def _open_terminal(path: str | os.PathLike[str]) -> Iterator[int]:
    """A terminal that hands over lines, with Ctrl-C as a key like others; restored at the end."""
    # O_NONBLOCK: a terminal that was stopped with Ctrl-S takes no output, and must not block this thread.
    terminal = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _is_usable(terminal):
            raise OSError("it is not a terminal, or this process is in its background")
        before = termios.tcgetattr(terminal)

        def restore() -> None:
            with contextlib.suppress(OSError, termios.error):
                if _is_usable(terminal):
                    termios.tcsetattr(terminal, termios.TCSANOW, before)

        reading, writing, control, local, *speeds, keys = before
        keys = list(keys)
        keys[termios.VINTR] = bytes([os.fpathconf(terminal, "PC_VDISABLE") & 0xFF])
        keys[termios.VEOL] = b"\x03"  # so that Ctrl-C hands the line over at once
        reading |= termios.ICRNL
        writing |= termios.OPOST | termios.ONLCR
        local |= termios.ICANON | termios.ECHO | termios.ISIG
        atexit.register(restore)  # the program may end while a question is open
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, [reading, writing, control, local, *speeds, keys])
            yield terminal
        finally:
            restore()
            atexit.unregister(restore)
    finally:
        os.close(terminal)


def _is_usable(terminal: int) -> bool:
    """Whether this process may read and set up the terminal: in the background the system would stop it."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # not the controlling terminal of this process, so it has no foreground to be in
        return os.isatty(terminal)


class _Dialog:
    """The lines written to and read from an open terminal about one question.

    Everything that waits raises _NoContent when the question is over.
    """

    def __init__(
        self, terminal: int, question: Any, deadline: float, *, cancelled: str = "(cancelled"
    ) -> None:
        """`cancelled` begins the line that is written when the person leaves without an answer."""
        self.question = question
        self._cancelled = cancelled
        self._terminal = terminal
        self._deadline = deadline
        columns = os.get_terminal_size(terminal).columns
        self._width = columns if columns > 0 else 80

    def say(self, text: str) -> None:
        self._write(f"{text}\n")

    def quote(self, text: Any, max_lines: int, indent: str = "") -> None:
        """Write text of the server, marked as such; `indent` stands before its first line."""
        for line in quoted(text, self._width - len(indent), max_lines):
            self._write(f"{indent}{line}\n")
            indent = " " * len(indent)

    def ask(self, prompt: str, parse: Callable[[str], Value]) -> Value:
        """The value of the first line that `parse` takes. Raises _NoContent after MAX_ATTEMPTS."""
        for _ in range(MAX_ATTEMPTS):
            line = self._read_line(prompt)
            try:
                return parse(line)
            except Mismatch as problem:
                self.say(f"That does not fit: it {plain(problem)}.")
        self.say(f"{self._cancelled} after too many attempts)")
        raise _NoContent

    def discard_input(self) -> None:
        """Drop what was typed already: it cannot be meant for a prompt that was not there yet."""
        termios.tcflush(self._terminal, termios.TCIFLUSH)

    def _read_line(self, prompt: str) -> str:
        """A line that the person typed. Raises _NoContent for `!decline`, `!cancel`, Ctrl-D and Ctrl-C.

        # spec: client/elicitation/decline-anytime
        """
        self._write(f"{prompt} > ")
        data = b""
        while not data.endswith(b"\n"):
            self._wait(reading=True)
            try:
                more = os.read(self._terminal, 4096)
            except BlockingIOError:
                continue
            data += more
            if not more or b"\x03" in more or len(data) > MAX_ANSWER_BYTES:  # Ctrl-D, Ctrl-C
                self._write(f"\n{self._cancelled})\n")
                raise _NoContent
        line = data.decode("utf-8", "replace").strip()
        if line in ("!decline", "!cancel"):
            raise _NoContent(declined=line == "!decline")
        return line

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            self._wait(reading=False)
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self._terminal, data) :]

    def _wait(self, *, reading: bool) -> None:
        while not (self.question.is_over or time.monotonic() > self._deadline):
            if terminal_is_ready(self._terminal, POLL_SECONDS, reading=reading):
                return
        with contextlib.suppress(OSError):
            os.write(self._terminal, b"\n(this question is over: an answer would come too late)\n")
        raise _NoContent


# -------------------------------------------------------------------------- the question


def _ask_for_content(dialog: _Dialog) -> dict[str, Any] | None:
    """The content that the person agreed to send; None for a URL. Raises _NoContent."""
    question = dialog.question
    dialog.discard_input()
    dialog.say("\nThis server asks you something:")
    dialog.quote(question.server, 2)
    dialog.say("It says:")
    dialog.quote(question.message, MAX_MESSAGE_LINES)
    if question.mode == "url":
        _ask_for_consent(dialog, question.url)
        return None
    dialog.say("Say !decline to refuse and !cancel (or Ctrl-C) to leave it, whenever you like.")
    fields = list(question.fields)
    content: dict[str, Any] = {}
    for number, field in enumerate(fields, 1):
        _ask_for_field(dialog, field, f"{number} of {len(fields)}", content)
    _review(dialog, fields, content)
    return content


def _review(dialog: _Dialog, fields: list[FormField], content: dict[str, Any]) -> None:
    """Show the answers before they are sent, and change them until the person sends them.

    # spec: client/elicitation/review-before-send, client/elicitation/review-before-send-should
    """
    # spec: client/elicitation/approval-controls
    actions = ["send", "change", "decline", "cancel"] if fields else ["accept", "decline", "cancel"]
    while True:
        if fields:
            dialog.say("\nYour answers, not sent yet:")
        for number, field in enumerate(fields, 1):
            answer = display_value(field, content[field.name]) if field.name in content else "(left out)"
            dialog.quote(f"{field.title}: {answer}", MAX_MESSAGE_LINES, f"{number:3}  ")
        if _ask_for_action(dialog, actions, None if fields else _YES_OR_NO) != "change":
            return
        number = 1
        if len(fields) > 1:
            number = dialog.ask(f"which one, 1 to {len(fields)}?", partial(_parse_number, len(fields)))
        _ask_for_field(dialog, fields[number - 1], f"{number} of {len(fields)}", content)


_YES_OR_NO = {"y": "accept", "yes": "accept", "n": "decline", "no": "decline"}
"""What people answer to a question such as "Book Friday?"."""


def _ask_for_action(dialog: _Dialog, actions: list[str], answers: Mapping[str, str] | None = None) -> str:
    """One of the actions, or _NoContent for "decline" and "cancel". The beginning of a word is enough.

    `answers` are other words for them.
    """
    dialog.discard_input()
    prompt = f"{', '.join(actions[:-1])} or {actions[-1]}?"
    action = dialog.ask(
        prompt, lambda line: (answers or {}).get(line.lower()) or _parse_action(actions, line)
    )
    if action in ("decline", "cancel"):
        raise _NoContent(declined=action == "decline")
    return action


def _ask_for_field(dialog: _Dialog, field: FormField, position: str, content: dict[str, Any]) -> None:
    """Show one field, and put the answer into `content`, or remove it there if the field is left out."""
    dialog.say(f"\n{position}{', required' if field.required else ''}: {prompt_for(field)}")
    dialog.quote(field.title, MAX_LABEL_LINES)
    if field.description:
        dialog.quote(field.description, MAX_LABEL_LINES)
    for number, (value, title) in enumerate(field.choices[:MAX_CHOICES_SHOWN], 1):
        dialog.quote(choice_label(value, title), MAX_LABEL_LINES, f"{number:5}  ")
    if len(field.choices) > MAX_CHOICES_SHOWN:
        dialog.say(f"       and others, up to number {len(field.choices)}")
    shortcuts = _offer_shortcuts(dialog, field, content)
    content[field.name] = dialog.ask(
        "your answer", lambda line: shortcuts[line] if line in shortcuts else parse_answer(field, line)
    )
    if content[field.name] is None:
        del content[field.name]


def _offer_shortcuts(dialog: _Dialog, field: FormField, content: dict[str, Any]) -> dict[str, Any]:
    """The lines that stand for a value without being parsed, of which the person is told.

    The value None leaves the field out.
    """
    may_be_left_out = not field.required and field.default is None
    shortcuts = dict.fromkeys(("", "!none")) if may_be_left_out else {}
    prefilled = content.get(field.name, field.default)
    if prefilled is not None:
        shortcuts[""] = prefilled
        dialog.say(f"An empty answer takes this{'; !none leaves it out' if may_be_left_out else ''}:")
        dialog.quote(display_value(field, prefilled), MAX_LABEL_LINES)
    elif may_be_left_out:
        dialog.say("An empty answer leaves it out.")
    return shortcuts


# ------------------------------------------------------------------------------ the lines


_PROMPTS = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "yes or no",
    "choice": "the number of one of these",
    "choices": "numbers of these, such as 1, 3, or 0 for none",
}


def prompt_for(field: FormField) -> str:
    """What to type for a field, in our words alone: no text of the server is in it."""
    words = [FORMATS[field.format][0] if field.format in FORMATS else _PROMPTS[field.kind]]
    bounds = {
        "at least {}": field.minimum,
        "at most {}": field.maximum,
        "at least {} long": field.min_length,
        "at most {} long": field.max_length,
        "at least {} of them": field.min_items,
        "at most {} of them": field.max_items,
    }
    words += [rule.format(bound) for rule, bound in bounds.items() if bound is not None]
    return "; ".join(words)


def choice_label(value: str, title: str) -> str:
    """A choice with its title, which must not hide the value that will be sent."""
    return title if title == value else f"{title} ({value})"


def display_value(field: FormField, value: Any) -> str:
    """The value of a field, as a person reads it."""
    labels = {choice: choice_label(choice, title) for choice, title in field.choices}
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(labels[item] for item in value) or "none of them"
    return labels.get(value, str(value))


def parse_answer(field: FormField, line: str) -> Any:
    """The value that was typed for a field. Raises Mismatch."""
    if not line:
        raise Mismatch("must not be left empty")
    value = _PARSERS[field.kind](field, line)
    field.check(value)
    return value


def _parse_text(field: FormField, line: str) -> str:
    if not all(character.isprintable() or character.isspace() for character in line):
        raise Mismatch("must not contain control characters, such as those of the arrow keys")
    return line


def _parse_decimal(field: FormField, line: str) -> float:
    if not re.fullmatch(r"[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?", line):
        raise Mismatch(f"must be a number such as {'12' if field.kind == 'integer' else '0.5'}")
    return int(line) if re.fullmatch(r"[+-]?[0-9]+", line) else float(line)


def _parse_boolean(field: FormField, line: str) -> bool:
    for word, value in ("yes", True), ("no", False), ("true", True), ("false", False):
        if word.startswith(line.lower()):
            return value
    raise Mismatch("must be yes or no")


def _parse_choice(field: FormField, line: str) -> str:
    return field.choices[_parse_number(len(field.choices), line) - 1][0]


def _parse_choices(field: FormField, line: str) -> list[str]:
    if line == "0":
        return []
    return list(dict.fromkeys(_parse_choice(field, part) for part in re.split(r"[\s,;]+", line.strip(" ,;"))))


_PARSERS: dict[str, Callable[[FormField, str], Any]] = {
    "string": _parse_text,
    "number": _parse_decimal,
    "integer": _parse_decimal,
    "boolean": _parse_boolean,
    "choice": _parse_choice,
    "choices": _parse_choices,
}


def _parse_number(last: int, line: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", line) or not 1 <= int(line) <= last:
        raise Mismatch(f"must be a number from 1 to {last}")
    return int(line)


def _parse_action(actions: list[str], line: str) -> str:
    found = [action for action in actions if line and action.startswith(line.lower())]
    if len(found) > 1:
        raise Mismatch(f"must be longer, since it could be {' or '.join(found)}")
    if not found:
        raise Mismatch("must be one of these words")
    return found[0]


# -------------------------------------------------------------------------------- the URL


def _ask_for_consent(dialog: _Dialog, url: str) -> None:
    """Show a URL, and return if the person accepts it. It is not opened. Raises _NoContent."""
    dialog.say("It wants you to open this page in a browser:")
    if re.fullmatch(r"[!-~]+", url):
        dialog.say(url)  # in one piece, so that it can be copied
    else:
        dialog.quote(url, MAX_URL_LINES)
    dialog.say("It leads to this host:")
    dialog.quote(host_of(url) or "(none)", MAX_LABEL_LINES)
    for warning in warnings_about(url):
        dialog.say(f"Careful: {warning}.")
    dialog.say("It is not opened for you. If you trust it, accept, and open it yourself.")
    _ask_for_action(dialog, ["accept", "decline", "cancel"])
