"""What authors of servers and callers of clients use.

server, registering     `Server`, and how a tool, a resource or a prompt is registered with it
from_function           how a function becomes a tool, a resource, a prompt
context                 `Context`: one request, as its handler sees it
connect, targets        `connect`: from a command, a URL or a `Server` to a client
client, requests, features     `Client`
wire                    what crosses the wire, for `ClientOptions(on_wire=...)`
hosts                   `connect_all`: several servers at once
results                 what a call returns, now or later
callbacks               functions of the user's that the server's questions are put to
pipe_transport, http_transport     the connection of a client, made again after it was lost
mounting                what another server has, offered by this one
tool_handles            a tool, enabled, disabled and updated while clients are connected
at_terminal             what `server.run()` says to a person
http_server             `server.run("http")`
"""
