"""A person at a terminal (page: client/elicitation): a callback that is ready to use.

    connect(target, elicitation=terminal.ask)

    who asks, and what for         each line that the server wrote has a mark before it
    field by field                 description, choices, default: an empty answer takes it; a wrong one is
                                   named, and asked for again
    send, change, decline, cancel  nothing is sent before its sender has looked at it

    or, for a URL                  the whole address, its host by itself, what is suspicious about it; it is
                                   never opened nor fetched: who accepts opens it in a browser of their own

`!decline` and `!cancel` are understood everywhere; Ctrl-D and Ctrl-C cancel the question, not the
program. It is asked on the controlling terminal, since stdin and stdout may be anything else, a
connection to the server for one. Where there is none, the question is cancelled.

Revisions   2025-06-18  forms
            2025-11-25  + URLs; what a server wrote is to be recognised as the server's

Errors      none: what goes wrong with a terminal cancels the question.
Threads     `ask` runs on the thread that answers (api/callbacks), one question after another on each
            terminal; who waits for their turn, or for a key, looks POLL by POLL whether the question is over.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import termios
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from mcp_ref.cli.typed import called, read, shown, wanted
from mcp_ref.client.elicitation.requested_schema import FormField
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.threads.deadlines import FOR_PEOPLE
from mcp_ref.runtime.threads.pipes import terminal_is_ready
from mcp_ref.runtime.typing.mismatch import Mismatch
from mcp_ref.runtime.untrusted_text import plain, quoted

__all__ = ["Terminal", "ask", "warnings_about"]

_log = logger("mcp_ref.elicitation")

POLL = 0.1
"""Seconds after which whoever waits looks whether the question is over."""
TRIES = 5
"""Answers to one field, and unknown words at the end, before it is cancelled."""
ROUNDS = 100
"""Changes of mind."""
MAX_ANSWER = 65_536
"""Bytes of one answer."""
MESSAGE_LINES, LABEL_LINES, URL_LINES = 60, 8, 2_000
CHOICES = 200
"""Choices that are listed; the numbers of others are understood."""


class Terminal:
    """One terminal, by the path of its device."""

    def __init__(self, path: str | os.PathLike[str] = "/dev/tty", *, seconds: float = FOR_PEOPLE) -> None:
        self.path = path
        self.seconds = seconds
        self._turn = threading.Lock()

    def ask(self, question: Any) -> Any:
        """Ask the person; returns what `question.accept`, `.decline` or `.cancel` makes of it."""
        until = time.monotonic() + self.seconds
        while not self._turn.acquire(timeout=POLL):
            if question.is_over or time.monotonic() > until:
                return question.cancel()
        try:
            with _opened(self.path) as terminal:
                content = _asked(_Dialog(terminal, question, until))
        except _Ended as end:
            return question.decline() if end.declined else question.cancel()
        except (OSError, ValueError, termios.error) as problem:
            _log.warning("nobody could be asked on %s: %s", self.path, problem)
            return question.cancel()
        finally:
            self._turn.release()
        return question.accept(content)


_controlling = Terminal()


def ask(question: Any) -> Any:
    """Ask whoever sits at the controlling terminal of this process; the callback for `connect`."""
    return _controlling.ask(question)


# -------------------------------------------------------------------------- the terminal


class _Ended(Exception):
    """There will be no content: they said no, or nothing."""

    def __init__(self, *, declined: bool = False) -> None:
        self.declined = declined


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[int]:
    """A terminal for lines, on which Ctrl-C is a key like others; as it was, afterwards."""
    # O_NONBLOCK: a terminal that somebody stopped (Ctrl-S) takes no output, and must not hold us
    terminal = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _is_ours(terminal):
            raise OSError("it is no terminal, or somebody else's just now")
        before = termios.tcgetattr(terminal)

        def restore() -> None:
            with contextlib.suppress(OSError, termios.error):
                if _is_ours(terminal):
                    termios.tcsetattr(terminal, termios.TCSANOW, before)

        atexit.register(restore)  # a program may end while a question is open
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, _for_lines(terminal, before))
            yield terminal
        finally:
            restore()
            atexit.unregister(restore)
    finally:
        os.close(terminal)


def _is_ours(terminal: int) -> bool:
    """Whoever reads or sets it up in the background is stopped by the system, with all threads."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # not the controlling terminal of this process: nobody is in its foreground
        return os.isatty(terminal)


def _for_lines(terminal: int, before: list[Any]) -> list[Any]:
    reading, writing, control, local, *speeds, keys = before
    keys = list(keys)
    keys[termios.VINTR] = bytes([os.fpathconf(terminal, "PC_VDISABLE") & 0xFF])
    keys[termios.VEOL] = b"\x03"  # so that the line is handed over at once
    reading |= termios.ICRNL
    writing |= termios.OPOST | termios.ONLCR
    local |= termios.ICANON | termios.ECHO | termios.ISIG
    return [reading, writing, control, local, *speeds, keys]


class _Dialog:
    """What is said and heard on an open terminal about one question."""

    def __init__(self, terminal: int, question: Any, until: float) -> None:
        self.question = question
        self._terminal = terminal
        self._until = until
        columns = os.get_terminal_size(terminal).columns
        self._width = columns if columns > 0 else 80

    def say(self, text: str) -> None:
        """A line of ours."""
        self._write(f"{text}\n")

    def quote(self, text: Any, most: int, before: str = "") -> None:
        """What the server wrote."""
        for line in quoted(text, self._width - len(before), most):
            self._write(f"{before}{line}\n")
            before = " " * len(before)

    def listen(self, prompt: str) -> str:
        """A line that the person typed. Raises _Ended.

        # spec: client/elicitation/decline-anytime, client/elicitation/privacy-decline
        # spec: client/elicitation/privacy-decline-should
        """
        self._write(f"{prompt} > ")
        typed = b""
        while not typed.endswith(b"\n"):
            self._wait(reading=True)
            try:
                more = os.read(self._terminal, 4096)
            except BlockingIOError:
                continue
            typed += more
            if not more or b"\x03" in more or len(typed) > MAX_ANSWER:  # Ctrl-D, Ctrl-C
                self._write("\n(cancelled)\n")
                raise _Ended
        said = typed.decode("utf-8", "replace").strip()
        if said in ("!decline", "!cancel"):
            raise _Ended(declined=said == "!decline")
        return said

    def forget(self) -> None:
        """Drop what was typed already: it is no answer to what has not been asked yet."""
        termios.tcflush(self._terminal, termios.TCIFLUSH)

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            self._wait(reading=False)
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self._terminal, data) :]

    def _wait(self, *, reading: bool) -> None:
        """Until there is something to read, or room to write."""
        while not (self.question.is_over or time.monotonic() > self._until):
            if terminal_is_ready(self._terminal, POLL, reading=reading):
                return
        self._farewell()
        raise _Ended

    def _farewell(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._terminal, b"\n(nobody waits for this answer any more)\n")


# -------------------------------------------------------------------------- the question


def _asked(dialog: _Dialog) -> Any:
    """The content that was agreed to; None for a URL. Raises _Ended."""
    question = dialog.question
    dialog.forget()
    # spec: client/elicitation/ui-identifies-server, client/elicitation/indicate-server
    # spec: client/elicitation/ui-identifies-server-should, client/elicitation/indicate-server-should
    dialog.say("\nThis server asks you something:")
    dialog.quote(question.server, 2)
    dialog.say("It says:")  # spec: client/elicitation/clear-presentation
    dialog.quote(question.message, MESSAGE_LINES)
    if question.mode == "url":
        return _asked_url(dialog, question.url)
    dialog.say("Say !decline to refuse and !cancel (or Ctrl-C) to leave it, whenever you like.")
    fields = list(question.fields)
    content: dict[str, Any] = {}
    for number, field in enumerate(fields, 1):
        _fill(dialog, field, f"{number} of {len(fields)}", content)
    return _reviewed(dialog, fields, content)


def _reviewed(dialog: _Dialog, fields: list[FormField], content: dict[str, Any]) -> dict[str, Any]:
    """The answers, shown before they go, and changed for as long as it takes.

    # spec: client/elicitation/review-before-send, client/elicitation/review-before-send-should
    """
    # spec: client/elicitation/approval-controls
    words = ["send", "change", "decline", "cancel"] if fields else ["accept", "decline", "cancel"]
    for _ in range(ROUNDS):
        if fields:
            dialog.say("\nYour answers, not sent yet:")
        for number, field in enumerate(fields, 1):
            said = shown(field, content[field.name]) if field.name in content else "(left out)"
            dialog.quote(f"{field.title}: {said}", MESSAGE_LINES, f"{number:3}  ")
        if _last_word(dialog, words) != "change":
            return content
        number = _number_of(dialog, len(fields)) if len(fields) > 1 else 1
        _fill(dialog, fields[number - 1], f"{number} of {len(fields)}", content)
    raise _Ended


def _last_word(dialog: _Dialog, words: list[str]) -> str:
    """One of these words, or as much of it as tells it from the others. Raises _Ended for two of them."""
    dialog.forget()
    for _ in range(TRIES):
        said = dialog.listen(f"{', '.join(words[:-1])} or {words[-1]}?").lower()
        found = [word for word in words if said and word.startswith(said)]
        if found in (["decline"], ["cancel"]):
            raise _Ended(declined=found == ["decline"])
        if len(found) == 1:
            return found[0]
        dialog.say("That is none of these words." if not found else f"That could be {' or '.join(found)}.")
    raise _Ended


def _number_of(dialog: _Dialog, most: int) -> int:
    for _ in range(TRIES):
        said = dialog.listen(f"which one, 1 to {most}?")
        if re.fullmatch(r"[0-9]{1,9}", said) and 1 <= int(said) <= most:
            return int(said)
        dialog.say("That is not the number of an answer.")
    raise _Ended


# ----------------------------------------------------------------------------- the fields


def _fill(dialog: _Dialog, field: FormField, where: str, content: dict[str, Any]) -> None:
    """One field: shown, and asked for until the answer fits. What is in `content` may be kept."""
    dialog.say(f"\n{where}{', required' if field.required else ''}: {wanted(field)}")
    dialog.quote(field.title, LABEL_LINES)
    if field.description:
        dialog.quote(field.description, LABEL_LINES)
    for number, (value, title) in enumerate(field.choices[:CHOICES], 1):
        dialog.quote(called(value, title), LABEL_LINES, f"{number:5}  ")
    if len(field.choices) > CHOICES:
        dialog.say(f"       and others, up to number {len(field.choices)}")
    may_lack = not field.required and field.default is None
    prefilled = content.get(field.name, field.default)  # spec: client/elicitation/defaults-prefilled
    if prefilled is not None:
        dialog.say(f"An empty answer takes this{'; !none leaves it out' if may_lack else ''}:")
        dialog.quote(shown(field, prefilled), LABEL_LINES)
    elif may_lack:
        dialog.say("An empty answer leaves it out.")
    for _ in range(TRIES):
        said = dialog.listen("your answer")
        if may_lack and (said == "!none" or (not said and prefilled is None)):
            content.pop(field.name, None)
            return
        try:
            content[field.name] = read(field, said) if said or prefilled is None else prefilled
            return
        except Mismatch as problem:
            dialog.say(f"That does not fit: it {plain(problem)}.")
    dialog.say("(cancelled, after so many tries)")
    raise _Ended


# -------------------------------------------------------------------------------- the URL


def _asked_url(dialog: _Dialog, url: str) -> None:
    """Consent to a URL, which stays unopened.

    # spec: client/elicitation/url-no-prefetch, client/elicitation/url-no-open-without-consent
    # spec: client/elicitation/url-handled-carefully, client/elicitation/url-opened-securely
    """
    dialog.say("It wants you to open this page in a browser:")
    if re.fullmatch(r"[!-~]+", url):  # spec: client/elicitation/url-shown-in-full
        dialog.say(url)  # in one piece, so that it can be copied
    else:
        dialog.quote(url, URL_LINES)
    # spec: client/elicitation/url-highlight-domain, client/elicitation/url-domain-consent
    dialog.say("It leads to this host:")
    dialog.quote(_host(url) or "(none)", LABEL_LINES)
    for warning in warnings_about(url):
        dialog.say(f"Careful: {warning}.")
    dialog.say("It is not opened for you. If you trust it, accept, and open it yourself.")
    _last_word(dialog, ["accept", "decline", "cancel"])


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def warnings_about(url: str) -> list[str]:
    """What makes a URL suspicious, in words for a person.

    # spec: client/elicitation/url-suspicious-warning
    """
    host = _host(url)
    try:
        parts = urlsplit(url)
        scheme, before_host = parts.scheme, parts.netloc.rpartition("@")[0]
    except ValueError:
        scheme, before_host = "", ""
    last = host.rstrip(".").rpartition(".")[2]
    found = {
        "it is not https, so that others on the way can read and change the page": scheme != "https",
        "it names no host that can be made out": not host,
        "what stands before the @ is not where it leads": bool(before_host),
        "the name of the host has letters beyond ASCII, some of which look like others": not host.isascii(),
        "the name of the host is written in Punycode (xn--), and shows as something else": (
            any(label.startswith("xn--") for label in host.split("."))
        ),
        "the host is a mere address, without a name": (
            ":" in host or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last) is not None
        ),
        "it holds characters that no URL has, which browsers read in different ways": (
            re.search(r"[^!-~]|[\\<>\"^`{|}]", url) is not None or "%" in host
        ),
    }
    return [warning for warning, holds in found.items() if holds]
