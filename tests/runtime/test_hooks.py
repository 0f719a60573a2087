"""Handlers of users, and the hooks around them."""

from __future__ import annotations

from mcp_ref.runtime.hooks import handler_of, run_with_hooks


def test_a_handler_may_take_the_params_or_the_context_too():
    assert handler_of(lambda params: params)({"a": 1}, "context") == {"a": 1}
    assert handler_of(lambda params, ctx: (params, ctx))({"a": 1}, "context") == ({"a": 1}, "context")


def test_hooks_wrap_the_handler_the_first_outermost():
    seen = []

    def hook(name):
        def around(context, params, proceed):
            seen.append(f"{name} in {context}")
            answer = proceed({**params, name: True})
            seen.append(f"{name} out")
            return {**answer, name: "was here"}

        return around

    answer = run_with_hooks([hook("a"), hook("b")], lambda params, ctx: {"params": params}, "ctx", {})
    assert seen == ["a in ctx", "b in ctx", "b out", "a out"]
    assert answer == {"params": {"a": True, "b": True}, "b": "was here", "a": "was here"}


def test_a_hook_may_answer_itself_and_may_ask_twice():
    assert run_with_hooks([lambda c, p, proceed: "mine"], lambda p, c: 1 / 0, None, {}) == "mine"
    calls = []
    twice = [lambda c, p, proceed: (proceed(p), proceed(p))]
    run_with_hooks(twice, lambda p, c: calls.append(p), None, {"n": 1})
    assert calls == [{"n": 1}, {"n": 1}]


def test_without_hooks_the_handler_runs_alone():
    assert run_with_hooks([], lambda params, context: (params, context), "c", {"x": 1}) == ({"x": 1}, "c")
