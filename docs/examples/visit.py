"""A visit to a URL: what a person does there passes neither the client nor its model."""

from mcp_ref import Context, ElicitUrl, Server, UrlElicitationNeeded, UrlElicitationRequired, connect

server = Server("calendar")
SIGN_IN = "https://accounts.example.com/sign-in?state=4711"
signed_in = set()


@server.tool
def invite(ctx: Context) -> str:
    """Ask for a visit, and go on: accepting is consent, and not yet the visit."""
    return ctx.elicit_url("Allow the calendar to be shown.", SIGN_IN).action


@server.tool
def events(ctx: Context) -> list[str]:
    """Go on only after the visit."""
    if "mona" not in signed_in:
        raise UrlElicitationRequired(ElicitUrl("Sign in to your calendar.", SIGN_IN, "visit-1"))
    return ["dentist"]


def visitor():
    """Stands for what happens at the site, when the person comes back from there."""
    signed_in.add("mona")
    server.elicitation_complete("visit-1")  # tells a client of 2025-11-25


def ask(question):
    """Shows the whole URL and opens nothing: the person does."""
    print(f"  {question.server}: {question.message} At {question.host}? {question.url}")
    visitor()
    return True


for revision in ("2025-11-25", "2026-07-28"):
    signed_in.clear()
    print(revision)
    with connect(server, revision=revision, elicitation=ask) as client:
        try:
            print(client.call_tool("events").structured["result"])
        except UrlElicitationNeeded as needed:  # 2025-11-25: the request is over, and can be sent again
            print(f"  {needed.code}: {needed.message}")
            if client.visit(needed):
                print(client.call_tool("events").structured["result"])
        print("invite:", client.call_tool("invite").text)
