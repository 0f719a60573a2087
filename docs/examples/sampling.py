"""Sampling: a tool asks the model of its client, which may use a tool; a person reviews all that passes."""

from mcp_ref import ClientOptions, Context, Server, connect
from mcp_ref.client.sampling.messages import tool_result, tool_use

server = Server("traveller")

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "How warm it is in a city.", "inputSchema": CITY}
DEGREES = {"Paris": 18, "London": 15}


@server.tool
def warmer(ctx: Context) -> str:
    """Ask where it is warmer."""
    messages = ["Is it warmer in Paris or in London?"]
    for choice in ("auto", "none"):  # the loop has an end: in the last round no tool may be used
        reply = ctx.sample(messages, max_tokens=200, tools=[WEATHER], tool_choice=choice)
        results = [tool_result(use, str(DEGREES[use["input"]["city"]])) for use in reply.tool_uses]
        messages += [reply.as_message(), *results]
    return reply.text


def model(request):
    """Stands where a real one would be called."""
    if request.tool_choice != "none":
        return [tool_use(city, "weather", {"city": city}) for city in ("Paris", "London")]
    results = {
        result["toolUseId"]: result["content"][0]["text"] for result in request.messages[-1]["content"]
    }
    said = f"It is warmer in {max(results, key=results.get)}."
    return {"content": said, "model": "toy-1", "stopReason": "endTurn"}


def review(request, proceed):
    """A person could be shown this, could change it, or refuse: raise SamplingRefused."""
    print(f"  {request.server} asks for {request.max_tokens} tokens, tools: {request.tool_choice}")
    reply = proceed(request)
    print(f"  {reply.model} stops for {reply.stop_reason}: {reply.text or len(reply.tool_uses)}")
    return reply


for revision in ("2025-11-25", "2026-07-28"):
    options = ClientOptions(sampling_tools=True, sampling_review=review)
    with connect(server, revision=revision, sampling=model, options=options) as client:
        print(revision)
        print(client.call_tool("warmer").text)
