"""A question round by round: the caller answers it; the tool makes it, and keeps its state, by itself."""

from mcp_ref import Context, Server, connect

server = Server("forms by hand")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WHO = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Who are you?", "requestedSchema": NAME},
}


@server.tool
def greet(ctx: Context):
    """Greet a person."""
    said = ctx.input_responses.get("who", {})
    if said.get("action") != "accept":
        tries = int(ctx.request_state or 0) + 1
        if tries > 2:
            return "Hello, whoever you are!"
        return {"resultType": "input_required", "inputRequests": {"who": WHO}, "requestState": str(tries)}
    return f"Hello, {said['content']['name']}!"


def shrug(question):
    """Says nothing: neither yes nor no."""


with connect(server, revision="2026-07-28", elicitation=shrug) as client:
    print("-- the caller answers")
    result = client.call_tool("greet", rounds=0)
    print(result.input_requests["who"]["params"]["message"])
    result = client.resume(result, {"who": {"action": "decline"}}, rounds=0)
    print("asked again:", result.is_input_required)
    print(client.resume(result, {"who": {"action": "accept", "content": {"name": "Mona"}}}).text)
    print("-- the client answers, and never says who it is")
    print(client.call_tool("greet").text)
