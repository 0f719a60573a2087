"""Replay (page: basic/patterns/mrtr): how a handler that was unwound gets to where it was.

A handler that asks is unwound (InputRequired), and runs again from its top when the client's retry brings
the answer. Its first question gets the first answer at once, its second the second, until one is asked
that has none yet. An answer belongs to a question and its place: one that is not the same again, or
stands elsewhere, is asked anew, and what was answered after it is void.

Revisions   2026-07-28; `once` in all.
Threads     the request's worker, or threads that its handler made: `_lock` guards the order of the
            questions. Nothing of the author's runs under it.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from mcp_ref.basic.index.error_responses import InternalError
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.values import dump_any

__all__ = ["Exchange", "InputRequired", "Question", "canonical"]

_log = logger("mcp_ref.mrtr")

MAX_QUESTIONS = 100
"""That one request may ask, all rounds together."""

MAX_CHANGES = 5
"""How often a handler may ask something else than it did the last time, before it is given up."""


class Question(NamedTuple):
    """One thing to ask the client."""

    method: str
    params: Json
    """As the revision of the request has them."""
    needs: Json
    """The client capability without which it must not be asked: {"elicitation": {"url": {}}}."""
    read: Callable[[Json], Any]
    """The client's result -> what the author gets. Raises InvalidResponse."""


class InputRequired(BaseException):
    """Unwinds a handler that waits for an answer. No fault, and so no Exception: let it pass."""


class Exchange:
    """The questions and answers of one request, over all its rounds."""

    def __init__(self, method: str, state: Json | None = None) -> None:
        state = state or {}
        self._method = method
        self._lock = threading.Lock()
        # All below guarded by _lock. Answers by the number of their question: what it was, and the answer.
        self._answers: dict[str, list[Any]] = state.get("answers", {})
        self._expected: dict[str, list[str]] = state.get("expected", {})  # key -> number, what it was
        self._kept: dict[str, list[Any]] = state.get("once", {})  # name -> value, how many it asked
        self._changes: int = state.get("changes", 0)
        self._asked = 0
        self._met: set[str] = set()  # names of `once` that this run came by
        self.own: str | None = state.get("own")
        """The requestState of a handler's own result."""
        self.responses: Json = {}
        """What the client answered to that."""
        self.pending: dict[str, Json] = {}
        """What the client is to be asked now: key -> request."""

    def hear(self, responses: Json, check: Callable[[str, str, Any], None]) -> None:
        """Take the answers of the last round. What was not asked is ignored, what is missing asked again.

        # spec: basic/patterns/mrtr/ignore-extra-inputs, basic/patterns/mrtr/validate-input-responses
        """
        for key, (number, mark, method) in self._expected.items():
            if key in responses:
                check(key, method, responses[key])
                self._answers[number] = [mark, responses[key]]
        self._expected = {}

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """The answers, if all are there; else InputRequired, with those that are missing in `pending`.

        # spec: basic/patterns/mrtr/ask-again-when-missing, basic/patterns/mrtr/repeat-input-required
        """
        with self._lock:
            if self.pending:  # the handler, or another thread of it, went on after it was unwound
                raise InputRequired
            found = []
            for question in questions:
                self._asked += 1
                if self._asked > MAX_QUESTIONS:
                    raise InternalError(f"a request asks at most {MAX_QUESTIONS} questions")
                found.append(self._known(str(self._asked), question))
            if self.pending:
                raise InputRequired
        # Copies: what the author does with them must not get into the state.
        return [q.read(copy.deepcopy(answer)) for q, answer in zip(questions, found, strict=True)]

    def ask_again(self, questions: Sequence[Question]) -> NoReturn:
        """Forget the answers to the questions that were asked last, these, and ask them once more."""
        with self._lock:
            first = self._asked - len(questions) + 1
            self._answers = {n: answer for n, answer in self._answers.items() if int(n) < first}
            for number, question in enumerate(questions, first):
                self._known(str(number), question)
            raise InputRequired

    def _known(self, number: str, question: Question) -> Any:
        """The recorded answer to a question; without one, None, and it is pending. Holds _lock."""
        mark = _mark(question)
        known = self._answers.get(number)
        if known is not None and known[0] == mark:
            return known[1]
        if known is not None:
            self._changed(int(number), question)
        # The number makes it unique.  # spec: basic/patterns/mrtr/input-request-keys-unique
        key = f"{question.method.partition('/')[0]}-{number}"
        # spec: basic/patterns/mrtr/input-request-no-envelope
        self.pending[key] = {"method": question.method, "params": question.params}
        self._expected[key] = [number, mark, question.method]
        return None

    def _changed(self, number: int, question: Question) -> None:
        """What is asked here is not what was answered here: that answer, and all after it, are void."""
        self._changes += 1
        _log.warning("%s asks something else than before: %s", self._method, question.method)
        if self._changes > MAX_CHANGES:
            raise InternalError(
                "the questions differ each time this runs, so no answer fits; "
                "what may differ belongs into ctx.once"
            )
        self._answers = {n: answer for n, answer in self._answers.items() if int(n) < number}

    def once(self, name: str, run: Callable[[], Any]) -> Any:
        """What `run` returned the first time. Nothing is run in a request that is being unwound."""
        with self._lock:
            if self.pending:
                raise InputRequired
            if name in self._kept:
                value, asked = self._kept[name]
                if name not in self._met:  # what it asked has its numbers, so that the next one has its own
                    self._met.add(name)
                    self._asked += asked
                return copy.deepcopy(value)
            before = self._asked
        value = json.loads(to_json(dump_any(run())))
        with self._lock:
            self._met.add(name)
            return copy.deepcopy(self._kept.setdefault(name, [value, self._asked - before])[0])

    def state(self) -> Json:
        """What the next round needs to know: of these, what is there."""
        state = {
            "answers": self._answers,
            "expected": self._expected,
            "once": self._kept,
            "changes": self._changes,
            "own": self.own,
        }
        return {name: value for name, value in state.items() if value or value == ""}


def _mark(question: Question) -> str:
    """What tells one question from another."""
    raw = hashlib.sha256(canonical([question.method, question.params])).digest()
    return base64.b64encode(raw[:18]).decode("ascii")


def canonical(value: Any) -> bytes:
    """The same bytes for the same JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
