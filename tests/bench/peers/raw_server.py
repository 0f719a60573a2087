"""A server of neither SDK: canned answers, one `os.write` each. What a client costs shows against it."""

import json
import os

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
RESULT = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
ADD = {"name": "add", "description": "Add two numbers.", "inputSchema": NUMBERS, "outputSchema": RESULT}
INFO = {"name": "raw", "version": "1.0.0"}
DATE = "2026-07-28"
CACHING = {"ttlMs": 0, "cacheScope": "private"}
COMPLETE = {"resultType": "complete"}


def answer(method: str, params: dict) -> dict:
    """The canned result of a method; only `add` looks at what it was sent."""
    if method == "tools/call":
        numbers = params["arguments"]
        total = numbers["a"] + numbers["b"]
        return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}
    if method == "initialize":
        agreed = params["protocolVersion"]
        return {"protocolVersion": agreed, "capabilities": {"tools": {}}, "serverInfo": INFO}
    if method == "server/discover":
        return {"supportedVersions": [DATE], "capabilities": {"tools": {}}, **CACHING}
    if method == "tools/list":
        return {"tools": [ADD]} | (CACHING if "_meta" in params else {})
    return {}


def respond(message: dict) -> bytes | None:
    """The answer to a message, if it wants one."""
    if "id" not in message:
        return None
    params = message.get("params", {})
    result = answer(message["method"], params)
    if "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {}):
        result |= COMPLETE
    response = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return json.dumps(response, separators=(",", ":")).encode()


def main() -> None:
    """Serve until end of input."""
    held = b""
    while data := os.read(0, 65536):
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            response = respond(json.loads(line))
            if response is not None:
                os.write(1, response + b"\n")


if __name__ == "__main__":
    main()
