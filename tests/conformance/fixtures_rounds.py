"""Tools, and a prompt, that answer with a question (2026-07-28), and again until they know enough.

Most just ask, and `ctx` sees to the rounds. Where the keys of the questions matter, or there is to be no
requestState, they make their result themselves.
"""

from dataclasses import dataclass
from typing import Any

from fixtures_server import server

from mcp_ref import Context, Elicit, ListRoots, Sample
from mcp_ref.api.from_function.prompt import user

CAPITAL = Sample("What is the capital of France?", max_tokens=100)


@dataclass
class Name:
    name: str


# ------------------------------------------------------------------ results made by hand


def asking(key: str, message: str, field: str) -> dict[str, Any]:
    """An input_required result that asks for one text."""
    form = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {
        "resultType": "input_required",
        "inputRequests": {key: {"method": "elicitation/create", "params": params}},
    }


def answered(ctx: Context, key: str, field: str) -> str | None:
    """The text, if the client sent one along."""
    content = ctx.input_responses.get(key, {}).get("content") or {}
    text = content.get(field) if isinstance(content, dict) else None
    return text if isinstance(text, str) else None


@server.tool(output_schema=False)
def test_input_required_result_elicitation(ctx: Context) -> Any:
    """Asks for a name, by a result of its own making."""
    name = answered(ctx, "user_name", "name")
    return asking("user_name", "What is your name?", "name") if name is None else f"Hello, {name}!"


@server.prompt
def test_input_required_result_prompt(ctx: Context) -> Any:
    """Asks what it is to be about, by a result of its own making."""
    context = answered(ctx, "user_context", "context")
    if context is None:
        return asking("user_context", "What context should the prompt use?", "context")
    return user(f"Use the following context: {context}")


# --------------------------------------------------------------------------- asked by ctx


@server.tool(output_schema=False)
def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the client's model."""
    return f"The model says: {ctx.ask(CAPITAL).text}"


@server.tool(output_schema=False)
def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    return f"Roots: {', '.join(root['uri'] for root in ctx.list_roots())}"


@dataclass
class Confirm:
    ok: bool


@server.tool(output_schema=False)
def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks yes or no, and sends its state along."""
    answer = ctx.elicit("Please confirm", Confirm)
    return f"state-ok: {answer.action}"


@server.tool(output_schema=False)
def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks a person, a model and for the roots, all at once."""
    name, reply, roots = ctx.ask_all(Elicit("What is your name?", Name), CAPITAL, ListRoots())
    return f"{name.content}, {reply.text}, {len(roots)} roots"


@dataclass
class Color:
    color: str


@server.tool(output_schema=False)
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks two things, one after another."""
    name = ctx.elicit("Step 1: what is your name?", Name)
    color = ctx.elicit("Step 2: what is your favorite color?", Color)
    return f"{name.content} {color.content}"


@server.tool(output_schema=False)
def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks yes or no; refuses a state that is not as it was sent."""
    return f"state-ok: {ctx.elicit('Please confirm', Confirm).action}"


@server.tool(output_schema=False)
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks all that the client has declared, and nothing else."""
    possible = {"elicitation": Elicit("Go on?", Confirm), "sampling": CAPITAL, "roots": ListRoots()}
    asked = [question for name, question in possible.items() if name in ctx.client_capabilities]
    return f"{len(ctx.ask_all(*asked))} answers"
