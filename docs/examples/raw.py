"""No client at all: the messages of two sessions, written by hand into a server's stdin."""

import json
import subprocess
import sys
from pathlib import Path

SERVER = Path(__file__).with_name("quickstart_server.py")
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

server = subprocess.Popen([sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def answer():
    return json.loads(server.stdout.readline())


# The modern era: a request needs nothing before it, only its own _meta.
send(id=1, method="tools/call", params={**ADD, "_meta": META})
print(answer()["result"]["structuredContent"])

# The legacy era, on the same pipe: a handshake first.
send(id=2, method="tools/call", params=ADD)
print(answer()["error"]["message"].partition(";")[0])
hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}
send(id=3, method="initialize", params=hello)
print(answer()["result"]["protocolVersion"])
send(method="notifications/initialized")
send(id=4, method="tools/call", params=ADD)
print(answer()["result"]["content"])

# End of input is the end of the server.
server.stdin.close()
print("exit code", server.wait(10))
server.stdout.close()
