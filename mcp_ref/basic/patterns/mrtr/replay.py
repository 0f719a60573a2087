"""Replay (page: basic/patterns/mrtr): how a handler that was unwound gets back to the place where it was.

A handler that asks is unwound (InputRequired), and runs again from its top when the client's retry brings the
answer. Its first question gets the first answer at once, its second the second, until it asks a question that
has no answer yet. Answers are matched by position and question digest. If the handler asks something
different on replay, the answer at that position and all later ones are discarded, and asked for again.

Revisions   2026-07-28; `once` in all.
Threads     the request's worker, or threads that its handler made. `_lock` guards the order of the questions;
            it is never held while a function of the author's runs.
"""

from __future__ import annotations

import base64
import copy
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from mcp_ref.basic.index.error_responses import InternalError
from mcp_ref.basic.index.messages import Json
from mcp_ref.runtime.digests import sha256
from mcp_ref.runtime.json_text import to_json
from mcp_ref.runtime.logs import logger
from mcp_ref.runtime.typing.values import dump_any

__all__ = ["Exchange", "InputRequired", "Question", "canonical"]

_log = logger("mcp_ref.mrtr")

MAX_QUESTIONS = 100
"""Questions that one request may ask, in all its rounds together."""

MAX_CHANGES = 5
"""How often a handler may ask something different on replay, before its request fails. Else it might go on
for ever, with answers that never fit."""


class Question(NamedTuple):
    """One thing to ask the client."""

    method: str
    params: Json
    """In the form that the revision of the request gives them."""
    needs: Json
    """The client capability that it needs, such as {"elicitation": {"url": {}}}."""
    read: Callable[[Json], Any]
    """The client's result -> the value that `ask` returns. Raises InvalidResponse."""


class InputRequired(BaseException):
    """Unwinds a handler that needs an answer. Not an error, and so not an Exception: do not catch it."""


class Exchange:
    """The questions and answers of one request, over all its rounds."""

    def __init__(self, method: str, state: Json | None = None) -> None:
        state = state or {}
        self._method = method
        self._lock = threading.Lock()
        # All below guarded by _lock. A question's number is its position in the run, from 1.
        self._answers: dict[str, list[Any]] = state.get("answers", {})  # number -> digest, answer
        self._expected: dict[str, list[str]] = state.get("expected", {})  # key -> number, digest, method
        self._once_values: dict[str, list[Any]] = state.get("once", {})  # name -> value, questions it asked
        self._changes: int = state.get("changes", 0)
        self._question_count = 0  # questions that this run has asked so far
        self._once_seen: set[str] = set()  # names of `once` that this run has passed
        self.handler_state: str | None = state.get("own")
        """The requestState of an input_required result that the handler made itself."""
        self.responses: Json = {}
        """The client's answers to such a result."""
        self.pending: dict[str, Json] = {}
        """The inputRequests of the next result: key -> request. Not empty: the handler is being unwound."""

    def take_responses(self, responses: Json, check: Callable[[str, str, Any], None]) -> None:
        """Store the answers that a retry brought. Unexpected ones are ignored; missing ones are asked again.

        # spec: basic/patterns/mrtr/ignore-extra-inputs, basic/patterns/mrtr/validate-input-responses
        """
        for key, (number, digest, method) in self._expected.items():
            if key in responses:
                check(key, method, responses[key])
                self._answers[number] = [digest, responses[key]]
        self._expected = {}

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers if all are known. Else raise InputRequired; `pending` has the other questions.

        # spec: basic/patterns/mrtr/ask-again-when-missing, basic/patterns/mrtr/repeat-input-required
        """
        with self._lock:
            if self.pending:  # the handler went on after it was unwound, or another thread of it did
                raise InputRequired
            answers = []
            for question in questions:
                self._question_count += 1
                if self._question_count > MAX_QUESTIONS:
                    raise InternalError(f"a request asks at most {MAX_QUESTIONS} questions")
                answers.append(self._answer_of(str(self._question_count), question))
            if self.pending:
                raise InputRequired
        # Copies: a handler that changes its answers must not change the state.
        return [q.read(copy.deepcopy(answer)) for q, answer in zip(questions, answers, strict=True)]

    def replayed(self, questions: Sequence[Question]) -> list[Any] | None:
        """The answers to these questions from earlier rounds; None if some are missing.

        For a request that has become a task since: the task then asks these questions in its own way.
        """
        with self._lock:
            first = self._question_count + 1
            known = [self._answers.get(str(number)) for number, _ in enumerate(questions, first)]
            self._question_count += len(questions)
        answers = [
            a[1] for a, q in zip(known, questions, strict=True) if a is not None and a[0] == _digest(q)
        ]
        if len(answers) < len(questions):
            with self._lock:
                self._answers = {n: answer for n, answer in self._answers.items() if int(n) < first}
            return None
        return [q.read(copy.deepcopy(answer)) for q, answer in zip(questions, answers, strict=True)]

    def ask_again(self, questions: Sequence[Question]) -> NoReturn:
        """Discard the answers to these questions, the last that were asked, and ask them once more."""
        with self._lock:
            first = self._question_count - len(questions) + 1
            self._answers = {n: answer for n, answer in self._answers.items() if int(n) < first}
            for number, question in enumerate(questions, first):
                self._answer_of(str(number), question)
            raise InputRequired

    def _answer_of(self, number: str, question: Question) -> Any:
        """The stored answer to a question; or None, and the question is now pending. With _lock held."""
        digest = _digest(question)
        known = self._answers.get(number)
        if known is not None and known[0] == digest:
            return known[1]
        if known is not None:
            self._void_answers_from(int(number), question)
        # The number makes the key unique.  # spec: basic/patterns/mrtr/input-request-keys-unique
        key = f"{question.method.partition('/')[0]}-{number}"
        # spec: basic/patterns/mrtr/input-request-no-envelope
        self.pending[key] = {"method": question.method, "params": question.params}
        self._expected[key] = [number, digest, question.method]
        return None

    def _void_answers_from(self, number: int, question: Question) -> None:
        """Discard the answer at this number, which belongs to another question, and all after it."""
        self._changes += 1
        _log.warning("%s asks something else than before: %s", self._method, question.method)
        if self._changes > MAX_CHANGES:
            raise InternalError(
                "the questions differ each time this runs, so no answer fits; "
                "put what may differ into ctx.once"
            )
        self._answers = {n: answer for n, answer in self._answers.items() if int(n) < number}

    def once(self, name: str, run: Callable[[], Any]) -> Any:
        """The value that `run` returned the first time. Raises InputRequired while the handler is unwound."""
        with self._lock:
            if self.pending:
                raise InputRequired
            if name in self._once_values:
                value, question_count = self._once_values[name]
                if name not in self._once_seen:  # `run` is skipped, and so are the numbers of its questions
                    self._once_seen.add(name)
                    self._question_count += question_count
                return copy.deepcopy(value)
            before = self._question_count
        value = json.loads(to_json(dump_any(run())))
        with self._lock:
            self._once_seen.add(name)
            entry = self._once_values.setdefault(name, [value, self._question_count - before])
            return copy.deepcopy(entry[0])

    def state(self) -> Json:
        """The JSON that the next round begins with (`__init__`), without its empty members."""
        state = {
            "answers": self._answers,
            "expected": self._expected,
            "once": self._once_values,
            "changes": self._changes,
            "own": self.handler_state,
        }
        return {name: value for name, value in state.items() if value or value == ""}


def _digest(question: Question) -> str:
    """A digest of a question's method and params, to tell on replay whether it is still the same."""
    raw = sha256(canonical([question.method, question.params]))
    return base64.b64encode(raw[:18]).decode("ascii")


def canonical(value: Any) -> bytes:
    """JSON as canonical bytes: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
