"""basic/patterns/mrtr/replay: how a handler that was unwound gets to where it was, one round after another.

`Rounds` plays both peers: it runs a handler, hands what it asks to `answer`, and runs it again with the
state that travelled as JSON, until it ends.
"""

import json
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.basic.index.error_responses import InternalError, InvalidParams
from mcp_ref.basic.patterns.mrtr import replay
from mcp_ref.basic.patterns.mrtr.replay import Exchange, InputRequired, Question, canonical
from mcp_ref.runtime.errors import InvalidResponse


def question(message, method="elicitation/create", read=dict):
    return Question(method, {"message": message}, {}, read)


def taken(key, method, response):
    """A check that takes every answer."""


def echo(key, request):
    """A client that answers with the question."""
    return {"said": request["params"]["message"]}


class Rounds:
    """A handler `run(exchange)`, run until it ends."""

    def __init__(self, run, answer=echo, most=20):
        self.asked = []  # the questions of each round, by key
        self.state = None
        for _ in range(most):
            self.exchange = Exchange("tools/call", self.state)
            if self.asked:
                responses = {key: answer(key, request) for key, request in self.asked[-1].items()}
                self.exchange.take_responses({k: v for k, v in responses.items() if v is not None}, taken)
            try:
                self.result = run(self.exchange)
                return
            except InputRequired:
                self.asked.append(self.exchange.pending)
                self.state = json.loads(json.dumps(self.exchange.state()))
        raise AssertionError(f"the handler has not ended after {most} rounds")

    @property
    def messages(self):
        """What was asked, round by round."""
        return [[request["params"]["message"] for request in asked.values()] for asked in self.asked]


def test_a_handler_gets_its_answers_in_order():
    def run(exchange):
        return [exchange.ask([question(name)])[0]["said"] for name in "abc"]

    rounds = Rounds(run)
    assert rounds.result == ["a", "b", "c"]
    assert rounds.messages == [["a"], ["b"], ["c"]]


@pytest.mark.spec("basic/patterns/mrtr/repeat-input-required")
def test_ten_levels_of_questions_that_depend_on_each_other():
    def run(exchange, level=0, before="start"):
        if level == 10:
            return before
        answer = exchange.ask([question(f"{level} after {before}")])[0]["said"]
        return run(exchange, level + 1, answer[:20])

    rounds = Rounds(run)
    assert len(rounds.asked) == 10
    assert rounds.result.startswith("9 after 8 after 7")


@pytest.mark.spec("basic/patterns/mrtr/input-request-keys-unique")
def test_several_questions_are_one_round():
    def run(exchange):
        kinds = ["elicitation/create", "sampling/createMessage", "roots/list", "elicitation/create"]
        return exchange.ask([question("same", kind) for kind in kinds])

    rounds = Rounds(run, answer=lambda key, request: {"key": key})
    assert [list(asked) for asked in rounds.asked] == [
        ["elicitation-1", "sampling-2", "roots-3", "elicitation-4"]
    ]
    assert [answer["key"] for answer in rounds.result] == list(rounds.asked[0])


def test_questions_of_several_rounds_never_share_a_key():
    def run(exchange):
        exchange.ask([question("a"), question("b")])
        exchange.ask([question("a")])

    keys = [key for asked in Rounds(run).asked for key in asked]
    assert len(keys) == len(set(keys)) == 3


@pytest.mark.spec("basic/patterns/mrtr/input-request-no-envelope")
def test_a_question_is_method_and_params_and_no_more():
    asked = Rounds(lambda exchange: exchange.ask([question("a")])).asked
    assert asked == [{"elicitation-1": {"method": "elicitation/create", "params": {"message": "a"}}}]


@pytest.mark.spec("basic/patterns/mrtr/ask-again-when-missing")
def test_what_was_not_answered_is_asked_again_and_nothing_else():
    times = []

    def forgetful(key, request):
        times.append(key)
        return None if key == "elicitation-2" and times.count(key) < 3 else echo(key, request)

    rounds = Rounds(lambda exchange: exchange.ask([question("a"), question("b")]), forgetful)
    assert rounds.messages == [["a", "b"], ["b"], ["b"]]
    assert [answer["said"] for answer in rounds.result] == ["a", "b"]


@pytest.mark.spec("basic/patterns/mrtr/ignore-extra-inputs")
def test_answers_to_what_was_not_asked_are_ignored():
    exchange = Exchange("tools/call")
    exchange.take_responses({"elicitation-1": {"said": "before it was asked"}, "x": 5}, taken)
    with pytest.raises(InputRequired):
        exchange.ask([question("a")])
    again = Exchange("tools/call", exchange.state())
    again.take_responses({"elicitation-1": {"said": "a"}, "elicitation-2": {"said": "early"}}, taken)
    with pytest.raises(InputRequired):
        again.ask([question("a")]), again.ask([question("b")])
    assert list(again.pending) == ["elicitation-2"]


@pytest.mark.spec("basic/patterns/mrtr/validate-input-responses")
def test_an_answer_that_is_none_is_refused_where_it_comes_in():
    exchange = Exchange("tools/call")
    with pytest.raises(InputRequired):
        exchange.ask([question("a")])
    seen = []

    def check(key, method, response):
        seen.append((key, method, response))
        raise InvalidParams("no answer")

    with pytest.raises(InvalidParams):
        Exchange("tools/call", exchange.state()).take_responses({"elicitation-1": 5, "x": 6}, check)
    assert seen == [("elicitation-1", "elicitation/create", 5)]


# ------------------------------------------------------- handlers that are not the same twice


def differing(*runs):
    """A handler that asks other questions each time, the last ones for ever."""
    left = list(runs)

    def run(exchange):
        names = left.pop(0) if len(left) > 1 else left[0]
        return {name: exchange.ask([question(name)])[0]["said"] for name in names}

    return run


def test_questions_in_another_order_are_asked_again_and_never_mixed_up(caplog):
    rounds = Rounds(differing("ab", "ab", "ba"))
    assert rounds.result == {"b": "b", "a": "a"}
    assert rounds.messages == [["a"], ["b"], ["b"], ["a"]]
    assert "asks something else than before" in caplog.text


def test_a_question_that_changed_is_asked_again_and_what_came_after_it_too(caplog):
    rounds = Rounds(differing("abc", "abc", "abc", "axc"))
    assert rounds.result == {"a": "a", "x": "x", "c": "c"}
    assert rounds.messages == [["a"], ["b"], ["c"], ["x"], ["c"]]


def test_a_question_that_is_no_longer_asked_leaves_its_answer_to_nobody():
    rounds = Rounds(differing("ab", "ab", "b"))
    assert rounds.result == {"b": "b"}
    assert rounds.messages == [["a"], ["b"], ["b"]]


def test_the_same_words_in_another_kind_of_question_are_another_question():
    kinds = ["elicitation/create", "sampling/createMessage"]

    def run(exchange):
        return exchange.ask([question("a", kinds.pop(0) if len(kinds) > 1 else kinds[0])])

    rounds = Rounds(run)
    assert [list(asked) for asked in rounds.asked] == [["elicitation-1"], ["sampling-1"]]


@given(runs=st.lists(st.text("abc", max_size=3), min_size=1, max_size=4))
def test_no_question_ever_gets_the_answer_of_another(runs):
    logging.getLogger("mcp_ref.mrtr").disabled = True
    try:
        rounds = Rounds(differing(*runs))
    finally:
        logging.getLogger("mcp_ref.mrtr").disabled = False
    assert all(asked == said for asked, said in rounds.result.items())


def test_questions_that_always_differ_come_to_an_end():
    counter = iter(range(100))

    def run(exchange):
        exchange.ask([question(f"the time is {next(counter)}")])

    with pytest.raises(InternalError, match=r"the questions differ each time this runs.*ctx\.once"):
        Rounds(run)
    assert next(counter) == replay.MAX_CHANGES + 2


def test_a_request_asks_so_many_questions_and_no_more():
    def run(exchange):
        for number in range(1000):
            exchange.ask([question(str(number))])

    with pytest.raises(InternalError, match=f"at most {replay.MAX_QUESTIONS} questions"):
        Rounds(run, most=1000)


# ------------------------------------------------------------------- asking once more on purpose


def test_what_is_asked_again_is_pending_under_its_old_key_and_only_that():
    """The answers before it are kept; the one that it had is no longer one."""

    def run(exchange):
        first = exchange.ask([question("a")])[0]["said"]
        second = exchange.ask([question("b")])[0]["said"]
        tries.append((first, second))
        if len(tries) < 3:
            exchange.ask_again([question("b")])
        return first, second

    tries = []
    said = iter(["a", "early", "still early", "at last"])
    rounds = Rounds(run, lambda key, request: {"said": next(said)})
    assert rounds.result == ("a", "at last")
    assert tries == [("a", "early"), ("a", "still early"), ("a", "at last")]
    assert rounds.messages == [["a"], ["b"], ["b"], ["b"]]
    assert [list(asked) for asked in rounds.asked[1:]] == [["elicitation-2"]] * 3


def test_several_that_were_asked_together_are_asked_again_together():
    def run(exchange):
        exchange.ask([question("before")])
        both = [question("a"), question("b")]
        answers = exchange.ask(both)
        if not again:
            again.append(True)
            exchange.ask_again(both)
        return [answer["said"] for answer in answers]

    again = []
    rounds = Rounds(run)
    assert rounds.result == ["a", "b"]
    assert rounds.messages == [["before"], ["a", "b"], ["a", "b"]]


def test_to_ask_again_is_no_change_of_the_questions(caplog):
    """However often: only what differs counts towards the limit."""

    def run(exchange):
        exchange.ask([question("is it done?")])
        times.append(1)
        if len(times) <= 2 * replay.MAX_CHANGES:
            exchange.ask_again([question("is it done?")])
        return "done"

    times = []
    assert Rounds(run).result == "done"
    assert "something else" not in caplog.text


# -------------------------------------------------------------------------------- being unwound


def test_no_exception_handler_of_an_author_catches_it_by_mistake():
    assert not issubclass(InputRequired, Exception)


def test_a_handler_that_goes_on_although_it_was_unwound_asks_no_more():
    """`except:` around a question; what was pending then is what is asked."""

    def run(exchange):
        answers = []
        for name in "ab":
            try:
                answers += exchange.ask([question(name)])
            except BaseException as problem:
                caught.append(type(problem))
        try:
            exchange.once("n", lambda: caught.append("side effect"))
        except BaseException as problem:
            caught.append(type(problem))
        if exchange.pending:
            raise InputRequired
        return [answer["said"] for answer in answers]

    caught = []
    rounds = Rounds(run)
    assert rounds.messages == [["a"], ["b"]]
    assert rounds.result == ["a", "b"]
    assert caught == [InputRequired] * 3 + [InputRequired] * 2 + ["side effect"]


def test_threads_of_a_handler_may_ask():
    """Each gets an answer of its own question, or is unwound; none is lost."""

    def run(exchange):
        found, unwound = [], []

        def one():
            try:
                found.append(exchange.ask([question("same")])[0]["said"])
            except InputRequired as problem:
                unwound.append(problem)

        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if unwound:
            raise unwound[0]
        return found

    rounds = Rounds(run)
    assert rounds.result == ["same"] * 4
    assert len(rounds.asked) == 4


def test_an_answer_that_does_not_fit_is_an_error_where_it_was_asked_for():
    def read(result):
        raise InvalidResponse(f"{result['said']} does not fit")

    def run(exchange):
        with pytest.raises(InvalidResponse, match="a does not fit"):
            exchange.ask([question("a", read=read)])
        return exchange.ask([question("b")])[0]["said"]

    assert Rounds(run).result == "b"


def test_what_an_author_does_to_an_answer_is_forgotten_with_it():
    def run(exchange):
        answer = exchange.ask([question("a", read=lambda result: result)])[0]
        kept = exchange.once("list", list)
        before = (dict(answer), list(kept))
        answer["said"] = "changed"
        kept.append("changed")
        exchange.ask([question("b")])
        return before, exchange.once("list", list)

    assert Rounds(run).result == (({"said": "a"}, []), [])


# --------------------------------------------------------------------------------------- once


def test_once_runs_once_and_is_replayed():
    charged = []

    def run(exchange):
        exchange.ask([question("a")])
        number = exchange.once("charge", lambda: charged.append(1) or {"number": len(charged)})
        exchange.ask([question("b")])
        exchange.ask([question("c")])
        return number, exchange.once("charge", lambda: pytest.fail("again"))

    rounds = Rounds(run)
    assert rounds.result == ({"number": 1}, {"number": 1})
    assert charged == [1]
    assert rounds.messages == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": [1, 2.5, "ä"]}])
def test_once_keeps_whatever_is_json(value):
    def run(exchange):
        found = exchange.once("value", lambda: value)
        exchange.ask([question("a")])
        return found

    assert Rounds(run).result == value


def test_once_gives_the_same_the_first_time_as_later():
    """What is not JSON by itself is made of it at once, and not only on its way back."""
    assert Exchange("tools/call").once("pair", lambda: (1, 2)) == [1, 2]


def test_once_refuses_what_has_no_json():
    with pytest.raises((TypeError, ValueError), match="JSON"):
        Exchange("tools/call").once("thing", object)


def test_once_that_raises_is_run_again():
    tries = []

    def fragile():
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return "done"

    def run(exchange):
        try:
            return exchange.once("fragile", fragile)
        except OSError:
            exchange.ask([question("again?")])
            raise AssertionError("replayed") from None

    assert Rounds(run).result == "done"
    assert len(tries) == 2


def test_what_once_asks_itself_leaves_the_other_questions_their_places():
    def run(exchange):
        first = exchange.once("first", lambda: exchange.ask([question("a")])[0]["said"])
        other = exchange.ask([question("b")])[0]["said"]
        return first, exchange.once("first", lambda: pytest.fail("again")), other

    rounds = Rounds(run)
    assert rounds.result == ("a", "a", "b")
    assert rounds.messages == [["a"], ["b"]]


# ------------------------------------------------------------------------------------ the state


def test_the_state_has_what_the_next_round_needs_and_no_more():
    exchange = Exchange("tools/call")
    assert exchange.state() == {}
    exchange.once("n", lambda: 1)
    exchange.handler_state = ""
    assert exchange.state() == {"once": {"n": [1, 0]}, "own": ""}
    with pytest.raises(InputRequired):
        exchange.ask([question("a")])
    again = Exchange("tools/call", json.loads(json.dumps(exchange.state())))
    assert again.state() == exchange.state()
    assert set(again.state()) == {"expected", "once", "own"}


@given(st.dictionaries(st.text("ab", max_size=2), st.integers() | st.lists(st.booleans()), max_size=4))
def test_the_same_json_has_one_text(value):
    turned = dict(reversed(value.items()))
    assert canonical(value) == canonical(turned)
    assert json.loads(canonical(value)) == value


# -- a request that became a task --------------------------------------------------------------------


def answered(*messages):
    """The exchange of a request that asked these before it became a task, and was answered."""
    first = Exchange("tools/call")
    with pytest.raises(InputRequired):
        first.ask([question(message) for message in messages])
    second = Exchange("tools/call", json.loads(json.dumps(first.state())))
    second.take_responses({key: echo(key, asked) for key, asked in first.pending.items()}, taken)
    return second


def test_a_task_has_the_answers_of_the_rounds_before_it_in_order():
    exchange = answered("a", "b")
    assert exchange.replayed([question("a")]) == [{"said": "a"}]
    assert exchange.replayed([question("b")]) == [{"said": "b"}]
    assert exchange.replayed([question("c")]) is None


def test_a_task_that_asks_something_else_than_before_gets_no_answer_of_before_from_then_on():
    exchange = answered("a", "b", "c")
    assert exchange.replayed([question("a"), question("other")]) is None
    assert exchange.replayed([question("c")]) is None


def test_a_task_that_changes_its_answers_does_not_change_what_was_answered():
    exchange = answered("a")
    (answer,) = exchange.replayed([question("a", read=lambda found: found)])
    answer["said"] = "changed"
    assert exchange.state()["answers"]["1"][1] == {"said": "a"}
