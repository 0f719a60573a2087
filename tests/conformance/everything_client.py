"""The client of the official conformance suite: one process per scenario, which does what that one watches.

    MCP_CONFORMANCE_SCENARIO=tools_call python everything_client.py http://localhost:PORT/mcp

The suite says in the environment which scenario it is, and which revision its server speaks. It takes no
notice of how this process ends, and waits for it as long as it runs: so it has a deadline of its own, and
its last line, DONE, tells run.py that all went well.
"""

import faulthandler
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

DEADLINE = 50.0
DONE = "done"
NOT_YET = ("sep-2640-",)
"""Scenarios of what this package does not do yet; there may be dozens of them at once."""


def main() -> None:
    # However it hangs, it ends; where it hung is in the stderr that the suite keeps.
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    if scenario.startswith(NOT_YET):
        print("nothing was done: not covered yet")
        return
    from mcp_ref import ClientOptions, McpError, connect

    act, options = authorized(scenario) if scenario.startswith("auth/") else SCENARIOS[scenario]
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    about = ClientOptions(name="everything-client")
    try:
        with connect(sys.argv[-1], revision=revision, timeout=10, options=about, **options) as client:
            act(client)
    except McpError as problem:
        if scenario.partition("/")[2] not in REFUSED:
            raise
        print(f"it gave up, and rightly: {problem}")
    print(DONE)


# -------------------------------------------------------------------------- authorization

METADATA_URL = "https://conformance-test.local/client-metadata.json"
REFUSED = (
    "resource-mismatch",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
)
REFUSED += ("metadata-issuer-mismatch", "scope-retry-limit")
"""Scenarios in which the client is right to give up."""


def authorized(scenario: str) -> tuple[Callable[[Any], object], dict[str, Any]]:
    """Each of them lists the tools and calls the first one; what differs is who the client is."""
    from mcp_ref.api.authorization import OAuth

    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    name = scenario.partition("/")[2]
    options: dict[str, Any] = {"user_agent": following, "client_metadata_url": METADATA_URL}
    options |= GRANTS[name](context) if name in GRANTS else {}
    options |= {
        field: context[field] for field in ("client_id", "client_secret", "issuer") if field in context
    }
    return calling_the_first, {"auth": OAuth(**options)}


def with_key(context: dict[str, Any]) -> dict[str, Any]:
    from mcp_ref.extensions.client_credentials import ClientCredentials

    key = {"private_key": context["private_key_pem"], "signing_algorithm": context["signing_algorithm"]}
    return {"grant": ClientCredentials(), **key}


def with_secret(context: dict[str, Any]) -> dict[str, Any]:
    from mcp_ref.extensions.client_credentials import ClientCredentials

    return {"grant": ClientCredentials()}


def of_the_company(context: dict[str, Any]) -> dict[str, Any]:
    from mcp_ref.extensions.enterprise_managed_authorization import EnterpriseManaged

    grant = EnterpriseManaged(
        id_token=context["idp_id_token"],
        idp_token_endpoint=context["idp_token_endpoint"],
        idp_client_id=context["idp_client_id"],
    )
    return {"grant": grant}


def of_the_platform(context: dict[str, Any]) -> dict[str, Any]:
    from mcp_ref.extensions.workload_identity import WorkloadIdentity

    return {"grant": WorkloadIdentity(context["valid_jwt"])}


def bound(context: dict[str, Any]) -> dict[str, Any]:
    return {"dpop": True}


GRANTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "client-credentials-basic": with_secret,
    "client-credentials-jwt": with_key,
    "enterprise-managed-authorization": of_the_company,
    "wif-jwt-bearer": of_the_platform,
    "dpop": bound,
    "dpop-nonce": bound,
}


def following(url: str) -> str:
    """The user agent of the suite: its server asks no person, and redirects at once."""
    import requests

    answer = requests.get(url, allow_redirects=False, timeout=5)
    return answer.headers["location"]


def calling_the_first(client: Any) -> None:
    client.call_tool(client.list_tools()[0]["name"], {})


# ----------------------------------------------------------------------------- scenarios


def listing(client: Any) -> None:
    """All tools are listed, and no `$ref` in their schemas is fetched."""
    client.list_tools()


def calling(client: Any, tool: str, **arguments: Any) -> None:
    client.list_tools()
    client.call_tool(tool, arguments)


def asking_again(client: Any) -> None:
    """One more request, of a server that declares nothing: each one says in `_meta` who asks."""
    client.ping()


def calling_all(client: Any) -> None:
    """Whatever the list of tools has left."""
    for tool in client.list_tools():
        client.call_tool(tool["name"], example(tool["inputSchema"]))


EXAMPLES = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}


def example(schema: Any) -> dict[str, Any]:
    """Arguments of the right types."""
    return {name: EXAMPLES.get(about.get("type")) for name, about in schema.get("properties", {}).items()}


def standard_headers(client: Any) -> None:
    """Every method that has a name to put in a header."""
    client.list_tools()
    client.call_tool("test_headers")
    client.list_resources()
    client.read_resource("https://example.com/resource?id=123")
    client.read_resource("file:///path/to/file%20name.txt")
    client.list_prompts()
    client.get_prompt("test_prompt")


def custom_headers(client: Any) -> None:
    """The calls that the suite wants, with exactly these values."""
    client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        client.call_tool(call["name"], call["arguments"])


def echoing_a_schema(client: Any) -> None:
    """The input schema of one tool goes back as it came."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in client.list_tools()}
    client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


def rounds(client: Any) -> None:
    """Calls that are answered with a question, or with none, one after another."""
    for name in "echo_state", "unrelated", "no_state", "no_result_type":
        client.call_tool(f"test_mrtr_{name}")


def with_defaults(asked: Any) -> Any:
    """Whoever accepts a form and fills in nothing has the defaults."""
    return asked.accept()


def confirmed(asked: Any) -> Any:
    return {"confirmed": True}


def model(request: Any) -> str:
    return "This is what the model says."


SCENARIOS: dict[str, tuple[Callable[[Any], object], dict[str, Any]]] = {
    "initialize": (lambda client: None, {}),
    "tools_call": (partial(calling, tool="add_numbers", a=5, b=3), {}),
    "elicitation-sep1034-client-defaults": (
        partial(calling, tool="test_client_elicitation_defaults"),
        {"elicitation": with_defaults},
    ),
    "sse-retry": (partial(calling, tool="test_reconnection"), {}),
    "request-metadata": (
        asking_again,
        {"elicitation": with_defaults, "sampling": model, "roots": ["file:///project"]},
    ),
    "http-standard-headers": (standard_headers, {}),
    "http-custom-headers": (custom_headers, {}),
    "http-invalid-tool-headers": (calling_all, {}),
    "json-schema-ref-no-deref": (listing, {}),
    "json-schema-2020-12-preservation": (echoing_a_schema, {}),
    "sep-2322-client-request-state": (rounds, {"elicitation": confirmed}),
}

if __name__ == "__main__":
    main()
